"""A network between rota and its server that can be made to misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar, cast

from tests.support.node import Address
from tests.support.servers import Server
from tests.support.times import IN_TIME

T = TypeVar("T")

_CHUNK = 1 << 16


@dataclass(slots=True, eq=False)
class _Link:
    """A client's connection and its counterpart to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    requests: asyncio.StreamReader
    replies: asyncio.StreamReader
    drops_next_reply: bool = False
    pumps: list[asyncio.Task[None]] = field(default_factory=list)


class Proxy:
    """A loopback port in front of a standalone server; every method may be called at any time,
    from any thread, and holds for open and new connections until the next one.

    It runs on an event loop of its own in a thread. With a `certificate` it speaks TLS to clients.
    Not for clusters: they announce their own addresses. Close it, or use it as a context manager.
    """

    def __init__(self, upstream: Address, certificate: ssl.SSLContext | None = None) -> None:
        self.accepted = 0
        """Connections accepted so far."""
        self.dropped = 0
        """Replies swallowed by `drop_reply_then_cut` so far."""
        self._upstream = upstream
        self._certificate = certificate
        self._delay = 0.0
        self._drop_after: bytes | None = None
        self._links: set[_Link] = set()
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._requests_flow, self._replies_flow, self._listener = self._run(self._open())

    @property
    def url(self) -> str:
        scheme, host = ("rediss", "localhost") if self._certificate else ("redis", "127.0.0.1")
        return f"{scheme}://{host}:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def open(self) -> int:
        """Connections open now."""
        return len(self._links)

    def pass_through(self) -> None:
        """Behave; what `silent` held back goes on its way now."""
        self._delay = 0.0
        self._drop_after = None
        self._run(self._flow(requests=True, replies=True))
        self._run(self._listen())

    def delay(self, seconds: float) -> None:
        """Hand on every chunk of the replies this much later."""
        self._delay = seconds

    def drop_reply_then_cut(self, after: bytes = b"") -> None:
        """The next request that contains `after` reaches the server and is carried out; its reply
        is swallowed and its connection cut. Once.

        Without `after` the first request counts, on a new connection its greeting.
        """
        self._drop_after = after

    def silent(self, replies_only: bool = False) -> None:
        """Accept and hold everything back, or only the replies: the server works, unheard."""
        self._run(self._flow(requests=replies_only, replies=False))

    def refuse(self) -> None:
        """Cut every connection and listen no more: connection refused."""
        self._run(self._close_listener())
        self.cut()

    def cut(self) -> None:
        """Cut every open connection; new ones are served."""
        self._run(self._cut_all())

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.refuse()
        self._run(self._settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(IN_TIME)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(IN_TIME)

    async def _open(self) -> tuple[asyncio.Event, asyncio.Event, asyncio.Server | None]:
        requests, replies = asyncio.Event(), asyncio.Event()
        requests.set()
        replies.set()
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._certificate)
        self._port = listener.sockets[0].getsockname()[1]
        return requests, replies, listener

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(
                self._accept, "127.0.0.1", self._port, ssl=self._certificate
            )

    async def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _flow(self, *, requests: bool, replies: bool) -> None:
        for gate, is_open in ((self._requests_flow, requests), (self._replies_flow, replies)):
            gate.set() if is_open else gate.clear()

    async def _accept(self, requests: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            replies, server = await self._connect()
        except (OSError, asyncio.CancelledError):
            client.transport.abort()
            return
        link = _Link(client, server, requests, replies)
        self._links.add(link)
        pumps = [self._pump_requests(link), self._pump_replies(link)]
        link.pumps += [asyncio.create_task(pump) for pump in pumps]
        with contextlib.suppress(asyncio.CancelledError):
            if self._listener is not None:
                await asyncio.wait(link.pumps, return_when=asyncio.FIRST_COMPLETED)
        await self._cut(link)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._upstream, Path):
            return await asyncio.open_unix_connection(self._upstream)
        return await asyncio.open_connection("127.0.0.1", self._upstream)

    async def _pump_requests(self, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while data := await link.requests.read(_CHUNK):
                await self._requests_flow.wait()
                if self._drop_after is not None and self._drop_after in data:
                    self._drop_after = None
                    link.drops_next_reply = True
                link.server.write(data)
                await link.server.drain()

    async def _pump_replies(self, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while data := await link.replies.read(_CHUNK):
                if link.drops_next_reply:
                    self.dropped += 1
                    return
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._replies_flow.wait()
                link.client.write(data)
                await link.client.drain()

    async def _cut_all(self) -> None:
        for link in list(self._links):
            await self._cut(link)

    async def _settle(self) -> None:
        """Let what was cut end, so that nothing is left open when the loop stops."""
        for _ in range(3):  # what was just accepted begins, else its task could not close it
            await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {cast("asyncio.Task[None]", asyncio.current_task())}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(3):  # an aborted transport closes its socket in the loop's next turn
            await asyncio.sleep(0)

    async def _cut(self, link: _Link) -> None:
        """End both sides; idempotent."""
        self._links.discard(link)
        for pump in link.pumps:
            pump.cancel()
        try:
            await asyncio.gather(*link.pumps, return_exceptions=True)
        finally:
            for side in (link.client, link.server):
                side.transport.abort()


def in_front_of(server: Server) -> Proxy:
    """A proxy in front of a standalone server."""
    if server.kind == "cluster":
        raise ValueError("a cluster announces its own addresses: no proxy can stand before it")
    return Proxy(server.nodes[0].address)
