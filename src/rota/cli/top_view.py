"""How `rota top` looks: a screen of its own on a terminal, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from rota.cli.lane import COLUMNS
from rota.cli.printing import Columns, fitted, print_plain, rows
from rota.cli.top_walk import Frame
from rota.values.model import LaneInfo
from rota.values.names import visible
from rota.values.timing import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

LANE_COLUMNS: Columns[LaneInfo] = {
    **{heading: value for heading, value in COLUMNS.items() if heading != "state"},
    "served": lambda lane: lane.served,
    "state": lambda lane: lane.state,
}
LANE_HEADINGS = tuple(LANE_COLUMNS)
WORKER_HEADINGS = ("process", "consumers", "holds", "lease", "asked")
MOST_WORKERS = 8
HEADER_LINES = 4


def screen(name: str, frame: Frame, height: int) -> RenderableType:
    """As much of the frame as a screen of that height takes."""
    from rich.console import Group
    from rich.text import Text

    workers = _workers(frame)[:MOST_WORKERS]
    room = max(1, height - HEADER_LINES - len(workers) - 4)
    return Group(
        *(Text(line, no_wrap=True, overflow="ellipsis") for line in _header(name, frame)),
        Text(""),
        fitted(LANE_HEADINGS, rows(LANE_COLUMNS, frame.lanes[:room]), numbers=LANE_HEADINGS[1:-1]),
        Text(""),
        fitted(WORKER_HEADINGS, workers, numbers=WORKER_HEADINGS[1:4]),
    )


def print_frame(name: str, frame: Frame) -> None:
    """To standard output, as plain lines."""
    for line in _header(name, frame):
        typer.echo(line)
    typer.echo()
    print_plain([LANE_HEADINGS, *rows(LANE_COLUMNS, frame.lanes)])
    typer.echo()
    print_plain([WORKER_HEADINGS, *_workers(frame)])


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


def _workers(frame: Frame) -> list[tuple[str, ...]]:
    """A row a process, the busiest first."""
    processes: dict[str, list[int]] = {}
    for at, one in enumerate(frame.consumers):
        processes.setdefault(one.name, []).append(at)
    told = [_worker(name, frame, places) for name, places in processes.items()]
    return sorted(told, key=lambda row: (-int(row[2]), row[0]))


def _worker(name: str, frame: Frame, places: Sequence[int]) -> tuple[str, ...]:
    ours = [frame.consumers[at] for at in places]
    asked = next((one.asked for one in ours if one.asked), None)
    lease = min(one.lease_left for one in ours)
    held = sum(one.held for one in ours)
    return (name, str(len(ours)), str(held), duration(lease), asked or "-")
