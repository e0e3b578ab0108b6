"""`rota lane`: looks at the lanes of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from rota.cli.exits import reporting, say
from rota.cli.tables import print_table
from rota.cli.targets import find_queue
from rota.config import whole
from rota.model import LaneInfo

MOST_LANES = 1_000_000
HEADINGS = ("lane", "waiting", "delayed", "running", "oldest wait", "state")

app = typer.Typer(
    name="lane",
    help="Look at the lanes of a queue.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _lane() -> None:
    pass


@app.command(name="ls")
def ls(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="A queue's name, or module:queue.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    limit: Annotated[
        int, typer.Option(help="Most lanes to show; those with work come first.")
    ] = 100,
    url: Annotated[
        str | None,
        typer.Option(
            help="The server; overrides the code. [default: the queue's own, else ROTA_URL, "
            "else embedded in .rota]"
        ),
    ] = None,
) -> None:
    """Show the lanes of a queue: jobs waiting, running of the ceiling, oldest wait, state.

    States: ready (in the ring), at ceiling, paused, stopped (ceiling 0), blocked, held (behind
    the head of a sequence), running, idle.
    """
    with reporting():
        whole(limit, 1, MOST_LANES, "--limit")
        target = find_queue(queue, url)
        try:
            info = target.sync.info()
            found = target.sync.lanes(limit + 1)
        finally:
            target.sync.close()
        lanes = sorted(found[:limit], key=lambda lane: (-lane.waiting, -lane.running, lane.name))
        if as_json:
            _print_json(lanes)
            return
        if info.paused:
            say(f"queue {target.name} is paused: nothing is handed out until it is resumed")
        if not lanes:
            say(f"queue {target.name} has no lanes on {target.link.target.display}")
            return
        print_table(HEADINGS, [_cells(lane) for lane in lanes], numbers=HEADINGS[1:-1])
        if len(found) > limit:
            say(f"the first {limit} lanes found; --limit shows more")


def _print_json(lanes: Sequence[LaneInfo]) -> None:
    for lane in lanes:
        row = {
            "lane": lane.name,
            "waiting": lane.waiting,
            "delayed": lane.delayed,
            "running": lane.running,
            "ceiling": lane.ceiling,
            "weight": lane.weight,
            "oldest_wait": lane.oldest_wait,
            "state": lane.state,
            "paused": lane.paused,
            "blocked_until": lane.blocked_until,
            "backlog": lane.backlog,
            "pause_reason": lane.pause_reason,
            "paused_by": lane.paused_by,
            "paused_until": lane.paused_until,
        }
        typer.echo(msgspec.json.encode(row).decode())


def _cells(lane: LaneInfo) -> tuple[str, ...]:
    return (
        lane.name,
        str(lane.waiting),
        str(lane.delayed),
        f"{lane.running}/{'-' if lane.ceiling is None else lane.ceiling}",
        "-" if lane.oldest_wait is None else duration(lane.oldest_wait),
        lane.state,
    )


def duration(seconds: float) -> str:
    """Seconds as people read them: 0.4s, 12s, 3m 20s, 5h 1m, 2d 3h."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole_seconds = round(seconds)
    for size, unit, smaller, small in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole_seconds >= size:
            return f"{whole_seconds // size}{unit} {whole_seconds % size // smaller}{small}"
    return f"{whole_seconds}s"
