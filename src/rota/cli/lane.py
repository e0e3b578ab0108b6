"""`rota lane`: looks at the lanes of a queue; `lane_acts` changes them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, cast

import typer

from rota.cli.exits import say
from rota.cli.explaining import print_explanation
from rota.cli.options import JsonOption, LaneArgument, QueueArgument, UrlOption
from rota.cli.printing import print_facts, print_table
from rota.cli.queues import shell_words
from rota.cli.root import noun
from rota.cli.rows import lane_row, print_rows
from rota.cli.shares import print_shares
from rota.cli.terminal import opened, progress
from rota.cli.times import when
from rota.values.config import whole
from rota.values.model import LaneInfo, LaneSort
from rota.values.timing import duration

MOST_LANES = 1_000_000
HEADINGS = ("lane", "waiting", "delayed", "running", "oldest wait", "state")


class By(StrEnum):
    """What `ls --by` takes."""

    BEHIND = "behind"
    WAITING = "waiting"
    OLDEST_WAIT = "oldest_wait"
    RUNNING = "running"
    SERVED = "served"


app = noun("lane", "Look at the lanes of a queue, and change them.")


@app.command(name="ls")
def ls(
    queue: QueueArgument,
    as_json: JsonOption = False,
    limit: Annotated[
        int, typer.Option(help="Most lanes to show; those with work come first.")
    ] = 100,
    by: Annotated[
        By | None,
        typer.Option(
            help="The highest of all lanes first; behind: shares received against shares due, and "
            "the queue's fairness index.",
        ),
    ] = None,
    url: UrlOption = None,
) -> None:
    """Show the lanes of a queue: jobs waiting, running of the ceiling, oldest wait, state.

    States: ready (in the ring), at ceiling, paused, stopped (ceiling 0), blocked, out of rate,
    held (behind the head of a sequence), running, idle.
    """
    with opened(queue, url) as target:
        whole(limit, 1, MOST_LANES, "--limit")
        with progress(f"looking at the lanes of {target.name}"):
            if by is By.BEHIND:
                print_shares(target.sync.shares(limit), as_json=as_json)
                return
            info = target.sync.info()
            found = target.sync.lanes(limit + 1, None if by is None else cast(LaneSort, by.value))
        lanes = found[:limit]
        if by is None:
            lanes.sort(key=lambda lane: (-lane.waiting, -lane.running, lane.name))
        if as_json:
            print_rows(map(lane_row, lanes))
            return
        if info.paused:
            say(f"queue {target.name} is paused: nothing is handed out until it is resumed")
        if not lanes:
            say(f"queue {target.name} has no lanes on {target.link.target.display}")
            return
        print_table(HEADINGS, [cells(lane) for lane in lanes], numbers=HEADINGS[1:-1])
        if len(found) > limit:
            which = "found" if by is None else f"by {by}"
            say(f"the first {limit} lanes {which}; --limit shows more")


def cells(lane: LaneInfo) -> tuple[str, ...]:
    """A lane's row below HEADINGS."""
    return (
        lane.name,
        str(lane.waiting),
        str(lane.delayed),
        f"{lane.running}/{'-' if lane.ceiling is None else lane.ceiling}",
        _wait(lane.oldest_wait) or "-",
        lane.state,
    )


@app.command(name="show")
def show(
    queue: QueueArgument, lane: LaneArgument, as_json: JsonOption = False, url: UrlOption = None
) -> None:
    """Show one lane: its counts, its limits as they hold, what it was given of late."""
    with opened(queue, url) as target:
        info = target.sync.lane(lane).info()
        if as_json:
            print_rows([lane_row(info)])
            return
        last = f"in the last {duration(info.window)}"
        print_facts(
            [
                ("lane", info.name),
                ("state", info.state),
                ("paused until", when(info.paused_until)),
                ("reason", info.pause_reason),
                ("by", info.paused_by),
                ("blocked until", when(info.blocked_until)),
                ("out of rate until", when(info.rated_until)),
                ("waiting", f"{info.waiting:,}"),
                ("oldest wait", _wait(info.oldest_wait)),
                ("delayed", f"{info.delayed:,}"),
                ("running", f"{info.running:,}"),
                ("ceiling", _limit(info.ceiling)),
                ("weight", f"{info.weight:g}"),
                ("rate", _limit(info.rate)),
                ("backlog", _limit(info.backlog)),
                ("template", info.template),
                ("served", f"{info.served:,} {last}, charged {info.charged:g} turns"),
                ("mean wait", _wait(info.wait_mean)),
            ]
        )


def _wait(seconds: float | None) -> str | None:
    return None if seconds is None else duration(seconds)


def _limit(value: object) -> str:
    return "none" if value is None else str(value)


@app.command(name="explain")
def explain(
    queue: QueueArgument, lane: LaneArgument, as_json: JsonOption = False, url: UrlOption = None
) -> None:
    """Say why a lane is not served now, and what would free it, the decisive reason first."""
    with opened(queue, url) as target:
        asked = target.link.explainer.lane(
            target.sync.lane(lane).name, shell=shell_words(queue, url)
        )
        print_explanation(target.link.run_sync(asked), as_json=as_json)
