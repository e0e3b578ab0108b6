"""A sentinel, or a node of a cluster, that knows where the server is and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from tests.support.faulty import _read_command
from tests.support.proxy import Proxy


class Seed(Proxy):
    """Whatever it is asked, it names `ports`: the master's to who asks as a sentinel's client, of a
    cluster all its owners' (the first has every slot). Without any it takes questions and is mute.
    """

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.asked = 0
        """Questions so far."""
        self._clients: set[asyncio.StreamWriter] = set()
        super().__init__(Path("/nonexistent"))

    async def _accept(self, requests: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._clients.add(client)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while command := await _read_command(requests):
                    self.asked += 1
                    if self.ports:
                        client.write(self._answer(command))
                        await client.drain()
        finally:
            client.transport.abort()
            self._clients.discard(client)

    async def _cut_all(self) -> None:
        for client in self._clients:
            client.transport.abort()

    def _answer(self, command: list[bytes]) -> bytes:
        if command[0].upper() == b"SENTINEL":
            return b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (
                len(str(self.ports[0])),
                self.ports[0],
            )
        nodes = b"".join(b"*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % port for port in self.ports)
        return b"*1\r\n*%d\r\n:0\r\n:16383\r\n%b" % (2 + len(self.ports), nodes)
