"""A proxy that reads what passes, and answers chosen commands with a server's error itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from rota.script.loader import BOUND, LIBRARY
from tests.support.proxy import Proxy, _Link
from tests.support.servers import Server

STRANGE = "strange"
"""No error, and no answer to what was asked."""

ANSWERS = {
    "BUSY": "BUSY The server is busy running a script.",
    "LOADING": "LOADING The server is loading the dataset in memory",
    "READONLY": "READONLY You can't write against a read only replica.",
    "MASTERDOWN": "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is 'no'.",
    "UNBLOCKED": "UNBLOCKED force unblock from blocking operation, instance state changed",
    "CLUSTERDOWN": "CLUSTERDOWN The cluster is down",
    "TRYAGAIN": "TRYAGAIN Multiple keys request during rehashing of slot",
    "NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF": "MISCONF Errors writing to the AOF file: No space left on device",
    "NOSCRIPT": "NOSCRIPT No matching script.",
    STRANGE: "OK",
}
"""What servers say, by the code it begins with."""

CUT, CUT_AFTER, SILENT = "cut", "cut after", "silent"
"""The other faults: cut before the request is sent on, cut instead of the reply, nothing at all
until healed; then the request goes on its way, whether or not its client still waits."""


@cache
def _names() -> dict[bytes, str]:
    return {LIBRARY.assemble(bound).sha.encode(): name for name, bound in BOUND.items()}


def name_of(command: list[bytes]) -> str:
    """The script's name of an EVALSHA, else the command in capitals."""
    word = command[0].upper().decode()
    return _names().get(command[1], word) if word == "EVALSHA" else word


@dataclass(slots=True)
class Fault:
    """Happens to commands of this name, `left` more times."""

    name: str
    answer: str
    left: float
    every: int
    met: int = 0


class Faulty(Proxy):
    """Requests pass one after the other; those a fault is planted for do not arrive."""

    def __init__(self, server: Server) -> None:
        self._faults: list[Fault] = []
        self.passed: dict[str, list[float]] = {}
        """When commands were answered by the server, by name (monotonic)."""
        self.failed: dict[str, int] = {}
        """How often a fault has happened, by name."""
        self._unanswered: set[_Link] = set()
        super().__init__(server.nodes[0].address)

    def plant(self, name: str, answer: str, times: float = float("inf"), *, every: int = 1) -> None:
        """From now on the next `times` commands of this name get `answer`: the first word of a
        server's error, CUT, CUT_AFTER or SILENT. `every`: of so many, only the first."""
        self._faults.append(Fault(name, answer, times, every))

    def heal(self) -> float:
        """Takes all faults away; returns when (monotonic)."""
        self._faults.clear()
        return time.monotonic()

    def after(self, name: str, moment: float) -> float | None:
        """Seconds from `moment` to the first answer to such a command since."""
        found = [at for at in self.passed.get(name, []) if at >= moment]
        return found[0] - moment if found else None

    def _fault(self, name: str) -> str | None:
        for fault in self._faults:
            if fault.name == name and fault.left > 0:
                fault.met += 1
                if (fault.met - 1) % fault.every:
                    return None
                fault.left -= 1
                self.failed[name] = self.failed.get(name, 0) + 1
                return fault.answer
        return None

    async def _pump_requests(self, link: _Link) -> None:
        """Reads ahead, so that a client's hanging up is noticed while the server waits."""
        commands: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
        answering = asyncio.create_task(self._answer(link, commands))
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    commands.put_nowait(await _read_command(link.requests))
            if link in self._unanswered:
                with contextlib.suppress(OSError):
                    link.server.write_eof()  # ends a wait there
            commands.put_nowait(None)
            await answering
        finally:
            answering.cancel()

    async def _pump_replies(self, link: _Link) -> None:
        await asyncio.Event().wait()  # `_answer` reads them

    async def _answer(self, link: _Link, commands: asyncio.Queue[list[bytes] | None]) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while command := await commands.get():
                await self._requests_flow.wait()
                name = name_of(command)
                fault = self._fault(name)
                if fault == SILENT:
                    await self._until_healed()
                    fault = None
                if fault == CUT:
                    break
                if fault is None or fault == CUT_AFTER:
                    link.server.write(_encode(command))
                    self._unanswered.add(link)
                    reply = await _read_reply(link.replies)
                    self._unanswered.discard(link)
                    if fault == CUT_AFTER:
                        break
                    self.passed.setdefault(name, []).append(time.monotonic())
                else:
                    mark = b"+" if fault == STRANGE else b"-"
                    reply = b"%b%b\r\n" % (mark, ANSWERS[fault].encode())
                await self._replies_flow.wait()
                link.client.write(reply)
                await link.client.drain()
        self._unanswered.discard(link)
        for side in (link.client, link.server):
            side.transport.abort()

    async def _until_healed(self) -> None:
        while self._faults:  # noqa: ASYNC110  (healed from another thread)
            await asyncio.sleep(0.01)


async def _read_command(stream: asyncio.StreamReader) -> list[bytes]:
    head = await stream.readuntil(b"\r\n")
    words = []
    for _ in range(int(head[1:])):
        size = int((await stream.readuntil(b"\r\n"))[1:])
        words.append((await stream.readexactly(size + 2))[:-2])
    return words


def _encode(command: list[bytes]) -> bytes:
    words = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in command)
    return b"*%d\r\n%b" % (len(command), words)


async def _read_reply(stream: asyncio.StreamReader) -> bytes:
    """One RESP2 reply, as it came."""
    head = await stream.readuntil(b"\r\n")
    kind, size = head[:1], head[1:-2]
    if kind == b"$" and size != b"-1":
        return head + await stream.readexactly(int(size) + 2)
    if kind == b"*" and size != b"-1":
        return head + b"".join([await _read_reply(stream) for _ in range(int(size))])
    return head


Break = Callable[[Server], Faulty]
