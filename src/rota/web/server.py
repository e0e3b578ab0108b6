"""Serves a dashboard with uvicorn: a socket, signals, an end that does not wait for live pages."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.applications import Starlette

from rota.errors import ConfigError
from rota.web.site import Site

GRACE_S = 3
"""How long requests may go on when it stops."""


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


class Server(uvicorn.Server):
    """Stops on SIGINT and SIGTERM, and then returns instead of dying of the signal."""

    def __init__(self, app: Starlette, *, root_path: str = "", access_log: bool = False) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=access_log,
                root_path=root_path,
                server_header=False,
                proxy_headers=False,  # whom to believe is the dashboard's rule
                timeout_graceful_shutdown=GRACE_S,
                ws="none",
            )
        )
        self.site: Site = app.state.site

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        stopping = (signal.SIGINT, signal.SIGTERM)
        for number in stopping:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in stopping:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """A second one does not wait for requests."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.site.close()  # live pages would go on for ever
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def closing(site: Site) -> AsyncIterator[None]:
    """Closes the queues of a dashboard at the end."""
    try:
        yield
    finally:
        for board in site.boards.values():
            await board.queue.close()


async def serve(server: Server, listening: socket.socket) -> None:
    with listening:
        async with closing(server.site):
            await server.serve(sockets=[listening])
