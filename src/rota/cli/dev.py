"""`rota dev`: server, dashboard and a worker that follows the code, in one terminal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import options
from rota.cli.exits import reporting, say
from rota.cli.logs import log_to_stderr
from rota.cli.queues import import_queue
from rota.cli.web import TrustedHosts, needs_web
from rota.queue import Queue
from rota.values import config
from rota.values.config import whole
from rota.work.supervisor import Child, told_to_stop

if TYPE_CHECKING:
    from rota.web.server import Server

POLL_S = 0.4
GRACE_S = 5
"""How long running jobs may go on when the code has changed."""
MOST_FILES = 10_000
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})

State = dict[str, tuple[int, int]]
"""Each file's time of change and size."""


def dev(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:QUEUE",
            help="Such as app:queue for `queue = rota.Queue(…)` in app.py.",
        ),
    ],
    host: Annotated[
        str, typer.Option(envvar="ROTA_WEB_HOST", help="Where the dashboard listens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="ROTA_WEB_PORT", help="Its port; 0 takes a free one.")
    ] = 8080,
    trusted_hosts: TrustedHosts = None,
    concurrency: Annotated[
        int, typer.Option("-c", "--concurrency", envvar="ROTA_CONCURRENCY", help="Slots.")
    ] = config.CONCURRENCY,
    url: options.NewUrl = None,
) -> None:
    """Work on a queue while you write it: a server, a dashboard, and a worker that restarts
    whenever a Python file beside the module changes.

    Where the code names no server and ROTA_URL is not set, an embedded one in .rota serves; what
    it holds is there the next time. Ends with Ctrl-C.
    """
    with reporting():
        whole(port, 0, 65_535, "port")
        needs_web()
        from rota.web import dashboard
        from rota.web.server import Server, address_of, listen

        queue = import_queue(target, url)
        app = dashboard(queue, trusted_hosts=trusted_hosts or ())
        listening = listen(host, port)
        log_to_stderr()
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        say(f"rota dev: {target}, Ctrl-C ends it")
        say(f"  dashboard  {address_of(listening)}")
        say(f"  server     {queue.server}")
        words = ["worker", target, "-c", str(concurrency), "--grace", str(GRACE_S)]
        words += [] if url is None else ["--url", url]
        folder = _folder_of(target.partition(":")[0])
        asyncio.run(_run(queue, Server(app), listening, _Worker(words), folder))


class _Worker:
    """The worker's process; it ends when this one does, however that ends."""

    def __init__(self, words: list[str]) -> None:
        self._command = [sys.executable, "-m", "rota", *words]
        self._introduced = False
        self._stops = 0
        self._child: Child | None = None
        self.ended: asyncio.Future[None]

    async def start(self) -> None:
        self._stops = 0
        self._child = await Child.start(self._command, 1, introduces=not self._introduced)
        self.ended = asyncio.create_task(self._until_ended(self._child))

    async def _until_ended(self, child: Child) -> None:
        await child.ended()
        self._introduced = self._introduced or "introduced" in child.said
        await child.end_leases()

    def tell(self) -> None:
        """To stop; a second time to do so at once, a third time it is killed."""
        self._stops += 1
        if self._child is not None and self._stops > 2:
            self._child.kill()
        elif self._child is not None:
            self._child.stop(self._stops)

    async def stop(self) -> None:
        if self._child is None:
            return
        if not self._stops:
            self.tell()
        await asyncio.wait([self.ended], timeout=2 * GRACE_S + 3)
        if not self.ended.done():
            self._child.kill()
            await self.ended
        self._child = None


async def _run(
    queue: Queue, server: Server, listening: socket.socket, worker: _Worker, folder: Path
) -> None:
    """Until it is told to stop."""
    from rota.web.server import serve

    def stop() -> None:
        server.stop()
        worker.tell()

    await queue.info()  # an embedded server starts here, and what is wrong is said at once
    with told_to_stop(stop):
        serving = asyncio.create_task(serve(server, listening))
        following = asyncio.create_task(_follow(worker, folder))
        try:
            await asyncio.wait([serving, following], return_when=asyncio.FIRST_COMPLETED)
        finally:
            server.stop()
            following.cancel()
            results = await asyncio.gather(serving, following, return_exceptions=True)
            await worker.stop()
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _follow(worker: _Worker, folder: Path) -> None:
    """Starts the worker, and again whenever the code changes."""
    state = await asyncio.to_thread(_look, folder)
    while True:
        await worker.start()
        told = False
        while not (found := _changed(state, newer := await asyncio.to_thread(_look, folder))):
            if worker.ended.done() and not told:
                told = True
                say("rota dev: the worker has ended; it starts again when the code changes")
            await asyncio.sleep(POLL_S)
        state = newer
        say(f"rota dev: {_named(found)} changed, the worker starts again")
        await worker.stop()


def _named(files: list[str]) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return os.path.relpath(files[0]) + more


# ── what has changed ────────────────────────────────────────────────────────────────────────────


def _folder_of(module: str) -> Path:
    """The folder in which the module's top-level package or file lies."""
    top = sys.modules[module.partition(".")[0]]
    file = getattr(top, "__file__", None)
    if file is None:
        return Path.cwd()
    return Path(file).resolve().parent


def _look(folder: Path) -> State:
    """The Python files below the folder, hidden folders and environments apart."""
    found: State = {}
    for path in islice(_files(folder), MOST_FILES):
        with contextlib.suppress(OSError):  # gone meanwhile
            info = os.stat(path)
            found[path] = info.st_mtime_ns, info.st_size
    return found


def _files(folder: Path) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        yield from (os.path.join(here, name) for name in names if name.endswith(".py"))


def _changed(before: State, after: State) -> list[str]:
    """Files that are new, gone, or not as they were."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
