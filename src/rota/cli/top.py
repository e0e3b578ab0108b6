"""`rota top`: a live view of a queue's lanes and workers."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from rota.cli import options
from rota.cli.printing import lane_row, print_rows
from rota.cli.queues import opened
from rota.cli.terminal import progress
from rota.cli.times import span
from rota.cli.top_view import print_frame, screen
from rota.cli.top_walk import Frame, Walk
from rota.queue import Queue
from rota.values.config import whole
from rota.values.model import LaneSort

SHORTEST_S = 0.2
FIRST_S = 0.3
"""How long the first look of a live view may walk: something is to be seen soon."""
SHARE = 0.25
"""Of the interval, what a look may spend on walking."""
ONCE_S = 20.0
MOST = 200
SCREEN = 60
"""The most lanes on a screen."""


def top(
    queue: options.Queue,
    by: Annotated[
        LaneSort, typer.Option(help="Which lanes come first: the highest.")
    ] = "oldest_wait",
    interval: Annotated[str, typer.Option(metavar="TIME", help="How often to look.")] = "2s",
    once: Annotated[
        bool, typer.Option("--once", help="Look at all lanes once, print, and end.")
    ] = False,
    limit: Annotated[
        int, typer.Option(help="The most lanes, where they are not shown on a screen.")
    ] = 20,
    as_json: options.Json = False,
    url: options.Url = None,
) -> None:
    """Watch the lanes and workers of a queue. q or Ctrl-C ends.

    With many lanes it goes through them some at a time, and says how far it has come. Without a
    terminal it prints one view after another.
    """
    with opened(queue, url) as target:
        pause = max(SHORTEST_S, span(interval, "--interval"))
        whole(limit, 1, MOST, "--limit")
        live = sys.stdout.isatty() and not once and not as_json
        walk = Walk(target, by, SCREEN if live else limit)
        if live:
            _watch(target, walk, pause)
            return
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                with progress(f"looking at the lanes of {target.name}"):
                    frame = walk.look(ONCE_S)
                _print(target, frame, as_json=as_json)
                if once:
                    return
                time.sleep(pause)


def _print(queue: Queue, frame: Frame, *, as_json: bool) -> None:
    if as_json:
        print_rows(map(lane_row, frame.lanes))
    else:
        print_frame(queue.name, frame)
        typer.echo()


def _watch(queue: Queue, walk: Walk, pause: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with contextlib.suppress(KeyboardInterrupt), _keys() as pressed:
        frame = walk.look(FIRST_S)
        shown = screen(queue.name, frame, console.height)
        with Live(shown, console=console, screen=True, auto_refresh=False) as live:
            while not pressed(pause):
                frame = walk.look(pause * SHARE)
                live.update(screen(queue.name, frame, console.height), refresh=True)


class _Keys:
    """Waits so many seconds for q; says whether it came."""

    def __init__(self, readable: bool) -> None:
        self._readable = readable

    def __call__(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self._readable:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0]:
                typed = os.read(sys.stdin.fileno(), 1)
                if typed in (b"q", b"Q"):
                    return True
                self._readable = typed != b""
        return False


@contextlib.contextmanager
def _keys() -> Iterator[_Keys]:
    """Single keys without Enter, where standard input is a terminal."""
    if not sys.stdin.isatty():
        yield _Keys(readable=False)
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield _Keys(readable=True)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
