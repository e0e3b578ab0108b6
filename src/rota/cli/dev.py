"""`rota dev`: server, dashboard and a worker that follows the code, in one terminal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rota import config
from rota.cli.changes import changed, folder_of, look
from rota.cli.exits import reporting, say
from rota.cli.options import NewUrlOption
from rota.cli.targets import import_queue
from rota.cli.web import TrustedHosts, needs_web
from rota.config import whole
from rota.process import LEASH_VARIABLE
from rota.queue import Queue

if TYPE_CHECKING:
    from rota.web.server import Server

POLL_S = 0.4
GRACE_S = 5
"""How long running jobs may go on when the code has changed."""


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
    url: NewUrlOption = None,
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
        logging.basicConfig(
            level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
        )
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        say(f"rota dev: {target}, Ctrl-C ends it")
        say(f"  dashboard  {address_of(listening)}")
        say(f"  server     {queue.link.target.display}")
        words = ["worker", target, "-c", str(concurrency), "--grace", str(GRACE_S)]
        words += [] if url is None else ["--url", url]
        folder = folder_of(target.partition(":")[0])
        asyncio.run(_run(queue, Server(app), listening, _Worker(words), folder))


class _Worker:
    """The worker's process; it ends when this one does, however that ends."""

    def __init__(self, words: list[str]) -> None:
        self._command = [sys.executable, "-m", "rota", *words]
        self._process: asyncio.subprocess.Process | None = None
        self._leash: socket.socket | None = None

    async def start(self) -> None:
        self._leash, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, LEASH_VARIABLE: f"1:{theirs.fileno()}"},
                start_new_session=True,  # Ctrl-C reaches this process, which tells the worker
            )

    async def ended(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        process, leash = self._process, self._leash
        if process is None or leash is None:
            return
        self._process = self._leash = None
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(GRACE_S + 3):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        leash.close()


async def _run(
    queue: Queue, server: Server, listening: socket.socket, worker: _Worker, folder: Path
) -> None:
    """Until the web server is told to stop."""
    from rota.web.server import serve

    await queue.info()  # an embedded server starts here, and what is wrong is said at once
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
    state = await asyncio.to_thread(look, folder)
    while True:
        await worker.start()
        ended = asyncio.create_task(worker.ended())
        try:
            told = False
            while not (found := changed(state, newer := await asyncio.to_thread(look, folder))):
                if ended.done() and not told:
                    told = True
                    say("rota dev: the worker has ended; it starts again when the code changes")
                await asyncio.sleep(POLL_S)
        finally:
            ended.cancel()
        state = newer
        say(f"rota dev: {_named(found)} changed, the worker starts again")
        await worker.stop()


def _named(files: list[str]) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return os.path.relpath(files[0]) + more
