"""`rota lane`: looks at the lanes of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, cast

import msgspec
import typer

from rota.cli.exits import reporting, say
from rota.cli.explaining import print_explanation
from rota.cli.shares import print_shares
from rota.cli.tables import print_table
from rota.cli.targets import find_queue
from rota.config import whole
from rota.model import LaneInfo, LaneOrder
from rota.timing import duration

MOST_LANES = 1_000_000
HEADINGS = ("lane", "waiting", "delayed", "running", "oldest wait", "state")


class Order(StrEnum):
    """What `ls --by` takes."""

    BEHIND = "behind"
    WAITING = "waiting"
    OLDEST_WAIT = "oldest_wait"
    RUNNING = "running"
    SERVED = "served"


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
    by: Annotated[
        Order | None,
        typer.Option(
            help="The highest of all lanes first; behind: shares received against shares due, and "
            "the queue's fairness index."
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="The server; overrides the code. [default: the queue's own, else ROTA_URL, "
            "else embedded in .rota]"
        ),
    ] = None,
) -> None:
    """Show the lanes of a queue: jobs waiting, running of the ceiling, oldest wait, state.

    States: ready (in the ring), at ceiling, paused, stopped (ceiling 0), blocked, out of rate,
    held (behind the head of a sequence), running, idle.
    """
    with reporting():
        whole(limit, 1, MOST_LANES, "--limit")
        target = find_queue(queue, url)
        try:
            if by is Order.BEHIND:
                print_shares(target.sync.shares(limit), as_json=as_json)
                return
            info = target.sync.info()
            found = target.sync.lanes(limit + 1, None if by is None else cast(LaneOrder, by.value))
        finally:
            target.sync.close()
        lanes = found[:limit]
        if by is None:
            lanes.sort(key=lambda lane: (-lane.waiting, -lane.running, lane.name))
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
            which = "found" if by is None else f"by {by}"
            say(f"the first {limit} lanes {which}; --limit shows more")


@app.command(name="explain")
def explain(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="A queue's name, or module:queue.")],
    lane: Annotated[str, typer.Argument(metavar="LANE", help="The lane's name.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    url: Annotated[str | None, typer.Option(help="The server; overrides the code.")] = None,
) -> None:
    """Say why a lane is not served now, and what would free it, the decisive reason first."""
    with reporting():
        target = find_queue(queue, url)
        try:
            found = target.sync.lane(lane).explain()
        finally:
            target.sync.close()
        print_explanation(found, as_json=as_json)


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
            "rate": lane.rate,
            "template": lane.template,
            "rated_until": lane.rated_until,
            "served": lane.served,
            "wait_mean": lane.wait_mean,
            "charged": lane.charged,
            "window": lane.window,
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
