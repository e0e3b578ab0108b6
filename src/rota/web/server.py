"""Serves a dashboard with uvicorn: a socket, connections that get somewhere, signals, an end that
does not wait for live pages."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from rota.errors import ConfigError
from rota.web.bounds import SEND_S, neighbourhood
from rota.web.origin import Trust
from rota.web.site import Site
from rota.work.supervisor import told_to_stop

GRACE_S = 3
"""How long requests may go on when it stops."""
MAX_CONNECTIONS = 500
MAX_CONNECTIONS_EACH = 100
"""Of one peer, unless that is a proxy that is trusted."""
HEAD_S = 10.0
"""How long a connection may take to bring the head of a request, and may keep bringing what was
answered already."""
LOOK_S = 5.0
READ_BYTES = 8192
"""A reader that takes less than this between two looks, while more is there, reads nothing."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises ConfigError, which says why there is none."""
    try:
        ((family, _, _, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server(address[:2], family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error}") from None


def address_of(listening: socket.socket) -> str:
    """What to type into a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Connection(H11Protocol):
    """A connection that ends when its peer lets it stand: half-open, or slow by intent.

    uvicorn's own bound on connections would let one peer lock out all others.
    """

    trust: Trust

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        others = [one for one in self.connections if isinstance(one, Connection)]
        super().connection_made(transport)
        self._idle_since: float | None = time.monotonic()
        self._read_at, self._unread = time.monotonic(), 0
        self._look = self.loop.call_later(LOOK_S, self._look_again)
        peer = self.client[0] if self.client is not None else None
        self._peer = neighbourhood(peer or "-")
        of_peer = [one for one in others if one._peer == self._peer]
        if len(of_peer) >= MAX_CONNECTIONS_EACH and not self.trust.is_proxy(peer):
            transport.abort()
        elif len(others) >= MAX_CONNECTIONS:
            idle = [one for one in others if one._idle_since is not None]
            oldest = min(idle, key=lambda one: one._idle_since or 0, default=self)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._idle_since = None

    def on_response_complete(self) -> None:
        self._idle_since = time.monotonic()
        super().on_response_complete()

    def _look_again(self) -> None:
        """Time is measured from the first look that finds something left to send."""
        now, left = time.monotonic(), self.transport.get_write_buffer_size()
        if not left or left <= self._unread - READ_BYTES or not self._unread:
            self._read_at = now
        self._unread = left
        idle = self._idle_since is not None and not left and now - self._idle_since > HEAD_S
        if idle or now - self._read_at > SEND_S:
            self.transport.abort()
        else:
            self._look = self.loop.call_later(LOOK_S, self._look_again)


class Server(uvicorn.Server):
    """Returns when it is stopped, instead of dying of the signal."""

    def __init__(self, app: Starlette, *, root_path: str = "", access_log: bool = False) -> None:
        self.site: Site = app.state.site
        trust = self.site.access.trust
        super().__init__(
            uvicorn.Config(
                app,
                http=type("Connection", (Connection,), {"trust": trust}),
                log_config=None,
                access_log=access_log,
                root_path=root_path,
                server_header=False,
                proxy_headers=False,  # whom to believe is the dashboard's rule
                timeout_graceful_shutdown=GRACE_S,
                ws="none",
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Whoever serves it does."""
        yield

    def stop(self) -> None:
        """A second one does not wait for requests."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.site.close()  # live pages would go on for ever
        await super().shutdown(sockets)


async def serve_until_told(server: Server, listening: socket.socket) -> None:
    """Until a signal stops it."""
    with told_to_stop(server.stop):
        await serve(server, listening)


async def serve(server: Server, listening: socket.socket) -> None:
    """Closes the socket and the queues of the dashboard at the end."""
    with listening:
        try:
            await server.serve(sockets=[listening])
        finally:
            for board in server.site.boards.values():
                await board.queue.close()
