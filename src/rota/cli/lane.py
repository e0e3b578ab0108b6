"""`rota lane`: looks at the lanes of a queue, and changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from rota.cli import options
from rota.cli.exits import say
from rota.cli.options import noun
from rota.cli.printing import (
    Columns,
    lane_row,
    print_explanation,
    print_facts,
    print_found,
    share_row,
)
from rota.cli.queues import opened, shell_words
from rota.cli.terminal import confirm, progress
from rota.cli.times import end_of, lasting, rate, span, when
from rota.errors import ConfigError
from rota.lane import SyncLane
from rota.values.config import whole
from rota.values.figures import LaneShare, Shares, ShareSort
from rota.values.limits import UNSET, Unset
from rota.values.model import LaneInfo
from rota.values.names import shown
from rota.values.timing import duration

app = noun("lane", "Look at the lanes of a queue, and change them.")

T = TypeVar("T")
MOST_LANES = 1_000_000
COLUMNS: Columns[LaneInfo] = {
    "lane": lambda lane: lane.name,
    "waiting": lambda lane: lane.waiting,
    "delayed": lambda lane: lane.delayed,
    "running": lambda lane: f"{lane.running}/{'-' if lane.ceiling is None else lane.ceiling}",
    "oldest wait": lambda lane: lasting(lane.oldest_wait),
    "state": lambda lane: lane.state,
}
SHARE_COLUMNS: Columns[LaneShare] = {
    "lane": lambda share: share.lane.name,
    "share": lambda share: f"{share.received:.2%}",
    "due": lambda share: f"{share.due:.2%}",
    "waiting": lambda share: share.lane.waiting,
    "running": lambda share: share.lane.running,
    "oldest wait": lambda share: lasting(share.lane.oldest_wait),
    "mean wait": lambda share: lasting(share.lane.wait_mean),
    "state": lambda share: share.lane.state,
}


@app.command(name="ls")
def ls(
    name: options.Queue,
    as_json: options.Json = False,
    limit: Annotated[
        int, typer.Option(help="Most lanes to show; those with work come first.")
    ] = 100,
    by: Annotated[
        ShareSort | None,
        typer.Option(
            help="The highest of all lanes first; behind: shares received against shares due, and "
            "the queue's fairness index.",
        ),
    ] = None,
    url: options.Url = None,
) -> None:
    """Show the lanes of a queue: jobs waiting, running of the ceiling, oldest wait, state.

    States: ready (in the ring), at ceiling, paused, stopped (ceiling 0), blocked, out of rate,
    held (behind the head of a sequence), running, idle.
    """
    with opened(name, url) as queue:
        whole(limit, 1, MOST_LANES, "--limit")
        with progress(f"looking at the lanes of {queue.name}"):
            if by == "behind":
                _print_shares(queue.sync.shares(limit), as_json=as_json)
                return
            info = queue.sync.info()
            found = queue.sync.lanes(limit + 1, by)
        lanes = found[:limit]
        if by is None:
            lanes.sort(key=lambda lane: (-lane.waiting, -lane.running, lane.name))
        if info.paused and not as_json:
            say(f"queue {queue.name} is paused: nothing is handed out until it is resumed")
        print_found(
            lanes,
            COLUMNS,
            f"queue {queue.name} has no lanes on {queue.server}",
            as_json=as_json,
            row=lane_row,
            numbers=list(COLUMNS)[1:-1],
        )
        if len(found) > limit and not as_json:
            which = "found" if by is None else f"by {by}"
            say(f"the first {limit} lanes {which}; --limit shows more")


def _print_shares(found: Shares, *, as_json: bool) -> None:
    """One JSON object a lane, or a table below the queue's fairness index."""
    index = "none yet (it takes two lanes that have waited all through)"
    if found.index is not None:
        index = f"{found.index:.3f}"
    if not as_json:
        say(f"fairness index {index}; {found.lanes:,} lanes, the last {duration(found.window)}")
    if found.top:
        numbers = list(SHARE_COLUMNS)[1:-1]
        print_found(found.top, SHARE_COLUMNS, as_json=as_json, row=share_row, numbers=numbers)


@app.command(name="show")
def show(
    name: options.Queue, lane: options.Lane, as_json: options.Json = False, url: options.Url = None
) -> None:
    """Show one lane: its counts, its limits as they hold, what it was given of late."""
    with opened(name, url) as queue:
        info = queue.sync.lane(lane).info()
        last = f"in the last {duration(info.window)}"
        print_facts(
            {
                "lane": info.name,
                "state": info.state,
                "paused until": when(info.paused_until),
                "reason": info.pause_reason,
                "by": info.paused_by,
                "blocked until": when(info.blocked_until),
                "out of rate until": when(info.rated_until),
                "waiting": f"{info.waiting:,}",
                "oldest wait": lasting(info.oldest_wait),
                "delayed": f"{info.delayed:,}",
                "running": f"{info.running:,}",
                "ceiling": _limit(info.ceiling),
                "weight": f"{info.weight:g}",
                "rate": _limit(info.rate),
                "backlog": _limit(info.backlog),
                "template": info.template,
                "served": f"{info.served:,} {last}, charged {info.charged:g} turns",
                "mean wait": lasting(info.wait_mean),
            },
            lane_row(info),
            as_json=as_json,
        )


def _limit(value: object) -> object:
    return "none" if value is None else value


@app.command(name="explain")
def explain(
    name: options.Queue, lane: options.Lane, as_json: options.Json = False, url: options.Url = None
) -> None:
    """Say why a lane is not served now, and what would free it, the decisive reason first."""
    with opened(name, url) as queue:
        found = queue.sync.lane(lane).explain(shell=shell_words(name, url))
        print_explanation(found, as_json=as_json)


@app.command(name="set")
def set_limits(
    name: options.Queue,
    lane: options.Lane,
    ceiling: Annotated[
        str | None,
        typer.Option(metavar="N", help="Most entries in flight at once; 0 stops the lane."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="W", help="Its share of turns, 0.01 to 100.")
    ] = None,
    rate_: Annotated[
        str | None,
        typer.Option("--rate", metavar="N/TIME:BURST", help="Starts: 5, 100/m, 5/10s:2."),
    ] = None,
    backlog: Annotated[
        str | None, typer.Option(metavar="N", help="Most jobs waiting and delayed.")
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose limits hold where it has none of its own."),
    ] = None,
    url: options.Url = None,
) -> None:
    """Change a lane's limits. What is not given stays; none removes a limit."""
    with opened(name, url, new=True) as queue:
        given = (ceiling, weight, rate_, backlog, template)
        if all(value is None for value in given):
            raise ConfigError("expected --ceiling, --weight, --rate, --backlog or --template")
        queue.sync.lane(lane).set(
            ceiling=_setting(ceiling, "--ceiling", int),
            weight=_setting(weight, "--weight", float),
            rate=_setting(rate_, "--rate", rate),
            backlog=_setting(backlog, "--backlog", int),
            template=_setting(template, "--template", str),
        )
        say(f"lane {lane} is set")


def _setting(text: str | None, option: str, read: Callable[[str], T]) -> T | Unset | None:
    """What an option says: not given, unchanged; `none`, removed."""
    if text is None:
        return UNSET
    if text == "none":
        return None
    try:
        return read(text)
    except ConfigError:
        raise
    except ValueError:
        raise ConfigError(f"{option}: expected a number or none, given {shown(text)}") from None


@app.command(name="pause")
def pause(
    name: options.Queue,
    lane: options.Lane,
    reason: options.Reason = None,
    by: options.By = None,
    for_: options.For = None,
    until: options.Until = None,
    url: options.Url = None,
) -> None:
    """Hand out nothing of a lane until it is resumed, or until a time.

    What is in flight goes on.
    """
    with opened(name, url, new=True) as queue:
        queue.sync.lane(lane).pause(reason=reason, by=by, until=end_of(for_, until))
        say(f"lane {lane} is paused")


@app.command(name="resume")
def resume(name: options.Queue, lane: options.Lane, url: options.Url = None) -> None:
    """End a pause of a lane."""
    with opened(name, url) as queue:
        was = queue.sync.lane(lane).resume()
        say(f"lane {lane} {'is resumed' if was else 'was not paused'}")


@app.command(name="block")
def block(
    name: options.Queue,
    lane: options.Lane,
    time: Annotated[str, typer.Argument(metavar="TIME", help="90, 90s, 15m, 1h30m, 2d.")],
    reason: options.Reason = None,
    by: options.By = None,
    url: options.Url = None,
) -> None:
    """Hand out nothing of a lane for a time; an earlier block only ever extends."""
    with opened(name, url, new=True) as queue:
        queue.sync.lane(lane).block(span(time, "TIME"), reason=reason, by=by)
        say(f"lane {lane} is blocked")


@app.command(name="unblock")
def unblock(name: options.Queue, lane: options.Lane, url: options.Url = None) -> None:
    """End a block of a lane before its time."""
    with opened(name, url) as queue:
        was = queue.sync.lane(lane).unblock()
        say(f"lane {lane} {'is unblocked' if was else 'was not blocked'}")


@app.command(name="move")
def move(
    name: options.Queue,
    lane: options.Lane,
    to: Annotated[str, typer.Argument(metavar="TO", help="The lane that gets the jobs.")],
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
) -> None:
    """Take what waits and is delayed in a lane over to another lane, places kept.

    Jobs in flight stay, and so do sequences of which some are, or that are blocked. Exit status 1
    when something stayed.
    """
    with opened(name, url) as queue:
        source = queue.sync.lane(lane)
        confirm(queue, f"Move the jobs of lane {lane} to lane {to}?", yes=yes, dry_run=dry_run)
        count = _queued(source)
        if dry_run:
            say(f"up to {count} would be moved")
            return
        with progress(f"moving {lane}", count, lambda: _queued(source)):
            done = source.move(to)
        say(f"{done.moved} moved, {done.left} stayed")
    if done.left:
        raise typer.Exit(1)


@app.command(name="cancel")
def cancel(
    name: options.Queue,
    lane: options.Lane,
    by: options.By = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
) -> None:
    """Delete what waits and is delayed in a lane, and ask what is in flight to stop."""
    with opened(name, url) as queue:
        source = queue.sync.lane(lane)
        confirm(queue, f"Cancel all jobs of lane {lane}?", yes=yes, dry_run=dry_run)
        info = source.info()
        if dry_run:
            say(
                f"{info.waiting + info.delayed} would be deleted, what is in flight "
                f"({info.running} entries) would be asked to stop"
            )
            return
        with progress(f"cancelling {lane}", info.waiting + info.delayed, lambda: _queued(source)):
            done = source.cancel(by=by)
        say(f"{done.removed} deleted, {done.asked} asked to stop")


def _queued(lane: SyncLane) -> int:
    info = lane.info()
    return info.waiting + info.delayed
