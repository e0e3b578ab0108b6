"""`rota top`: a live view of a queue's lanes and workers."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import options
from rota.cli.lane import COLUMNS
from rota.cli.printing import Columns, fitted, lane_row, print_plain, print_rows, rows
from rota.cli.queues import opened
from rota.cli.terminal import progress
from rota.cli.times import span
from rota.cli.top_walk import Frame, Walk
from rota.queue import Queue
from rota.values.config import whole
from rota.values.model import ConsumerInfo, LaneInfo, LaneSort
from rota.values.names import visible
from rota.values.timing import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

SHORTEST_S = 0.2
FIRST_S = 0.3
"""How long the first look of a live view may walk: something is to be seen soon."""
SHARE = 0.25
"""Of the interval, what a look may spend on walking."""
ONCE_S = 20.0
MOST = 200
SCREEN = 60
"""The most lanes on a screen."""
MOST_WORKERS = 8
HEADER_LINES = 4

LANE_COLUMNS: Columns[LaneInfo] = {
    **{heading: value for heading, value in COLUMNS.items() if heading != "state"},
    "served": lambda lane: lane.served,
    "state": lambda lane: lane.state,
}
LANE_HEADINGS = tuple(LANE_COLUMNS)
PROCESS_COLUMNS: Columns[list[ConsumerInfo]] = {
    "process": lambda ours: ours[0].name,
    "consumers": len,
    "holds": lambda ours: sum(one.held for one in ours),
    "lease": lambda ours: duration(min(one.lease_left for one in ours)),
    "asked": lambda ours: next((one.asked for one in ours if one.asked), None),
}
"""Of the consumers of a process."""


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
                if as_json:
                    print_rows(map(lane_row, frame.lanes))
                else:
                    _print_frame(target.name, frame)
                    typer.echo()
                if once:
                    return
                time.sleep(pause)


def _watch(queue: Queue, walk: Walk, pause: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with contextlib.suppress(KeyboardInterrupt), _keys() as pressed:
        frame = walk.look(FIRST_S)
        shown = _screen(queue.name, frame, console.height)
        with Live(shown, console=console, screen=True, auto_refresh=False) as live:
            while not pressed(pause):
                frame = walk.look(pause * SHARE)
                live.update(_screen(queue.name, frame, console.height), refresh=True)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """What waits so many seconds for q, and says whether it came: a single key, without Enter.

    Where standard input is no terminal, it only waits.
    """
    if not sys.stdin.isatty():

        def wait(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield wait
        return
    import termios
    import tty

    readable = True

    def pressed(seconds: float) -> bool:
        nonlocal readable
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not readable:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0]:
                typed = os.read(sys.stdin.fileno(), 1)
                if typed in (b"q", b"Q"):
                    return True
                readable = typed != b""
        return False

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


# ── how it looks ────────────────────────────────────────────────────────────────────────────────


def _screen(name: str, frame: Frame, height: int) -> RenderableType:
    """As much of the frame as a screen of that height takes."""
    from rich.console import Group
    from rich.text import Text

    workers = _processes(frame)[:MOST_WORKERS]
    room = max(1, height - HEADER_LINES - len(workers) - 4)
    return Group(
        *(Text(line, no_wrap=True, overflow="ellipsis") for line in _header(name, frame)),
        Text(""),
        fitted(LANE_HEADINGS, rows(LANE_COLUMNS, frame.lanes[:room]), numbers=LANE_HEADINGS[1:-1]),
        Text(""),
        fitted(
            list(PROCESS_COLUMNS),
            rows(PROCESS_COLUMNS, workers),
            numbers=("consumers", "holds", "lease"),
        ),
    )


def _print_frame(name: str, frame: Frame) -> None:
    """To standard output, as plain lines."""
    for line in _header(name, frame):
        typer.echo(line)
    typer.echo()
    print_plain([LANE_HEADINGS, *rows(LANE_COLUMNS, frame.lanes)])
    typer.echo()
    print_plain([list(PROCESS_COLUMNS), *rows(PROCESS_COLUMNS, _processes(frame))])


def _header(name: str, frame: Frame) -> list[str]:
    info = frame.info
    state = "paused" if info.paused else ""
    if info.unattended:
        state = "WORK WAITS AND THERE IS NO WORKER"
    rates = ""
    if frame.arriving is not None and frame.ending is not None:
        rates = f", {frame.arriving:,.0f}/s in, {frame.ending:,.0f}/s out"
    states = ", ".join(f"{n:,} {state}" for state, n in frame.states.most_common())
    sofar = "" if frame.complete else " so far"
    return [
        visible(f"{name}  {state}".rstrip()),
        f"{info.waiting:,} waiting, {info.running:,} running, {info.delayed:,} delayed, "
        f"{info.dead:,} dead{rates}",
        f"{frame.counted:,} lanes{sofar}: {states or 'none'}",
    ]


def _processes(frame: Frame) -> list[list[ConsumerInfo]]:
    """The consumers of each process, the busiest first."""
    found: defaultdict[str, list[ConsumerInfo]] = defaultdict(list)
    for one in frame.consumers:
        found[one.name].append(one)
    return sorted(found.values(), key=lambda ours: (-sum(one.held for one in ours), ours[0].name))
