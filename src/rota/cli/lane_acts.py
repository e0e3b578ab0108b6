"""`rota lane set`, `pause`, `block` and their like: what changes a lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from rota.cli.exits import say
from rota.cli.lane import app
from rota.cli.options import (
    ByOption,
    DryRunOption,
    ForOption,
    LaneArgument,
    QueueArgument,
    ReasonOption,
    UntilOption,
    UrlOption,
    YesOption,
)
from rota.cli.terminal import confirm, opened, progress
from rota.cli.times import end_of, rate, span
from rota.errors import ConfigError
from rota.lane import SyncLane
from rota.values.limits import UNSET, Unset
from rota.values.names import shown

__all__ = ["app"]

T = TypeVar("T")
NONE = "none"


def _setting(text: str | None, name: str, read: Callable[[str], T]) -> T | Unset | None:
    """What an option says: not given, unchanged; `none`, removed."""
    if text is None:
        return UNSET
    if text == NONE:
        return None
    try:
        return read(text)
    except ConfigError:
        raise
    except ValueError:
        raise ConfigError(f"{name}: expected a number or none, given {shown(text)}") from None


@app.command(name="set")
def set_limits(
    queue: QueueArgument,
    lane: LaneArgument,
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
    url: UrlOption = None,
) -> None:
    """Change a lane's limits. What is not given stays; none removes a limit."""
    with opened(queue, url, new=True) as target:
        given = (ceiling, weight, rate_, backlog, template)
        if all(value is None for value in given):
            raise ConfigError("expected --ceiling, --weight, --rate, --backlog or --template")
        target.sync.lane(lane).set(
            ceiling=_setting(ceiling, "--ceiling", int),
            weight=_setting(weight, "--weight", float),
            rate=_setting(rate_, "--rate", rate),
            backlog=_setting(backlog, "--backlog", int),
            template=_setting(template, "--template", str),
        )
        say(f"lane {lane} is set")


@app.command(name="pause")
def pause(
    queue: QueueArgument,
    lane: LaneArgument,
    reason: ReasonOption = None,
    by: ByOption = None,
    for_: ForOption = None,
    until: UntilOption = None,
    url: UrlOption = None,
) -> None:
    """Hand out nothing of a lane until it is resumed, or until a time.

    What is in flight goes on.
    """
    with opened(queue, url, new=True) as target:
        target.sync.lane(lane).pause(reason=reason, by=by, until=end_of(for_, until))
        say(f"lane {lane} is paused")


@app.command(name="resume")
def resume(queue: QueueArgument, lane: LaneArgument, url: UrlOption = None) -> None:
    """End a pause of a lane."""
    with opened(queue, url) as target:
        was = target.sync.lane(lane).resume()
        say(f"lane {lane} {'is resumed' if was else 'was not paused'}")


@app.command(name="block")
def block(
    queue: QueueArgument,
    lane: LaneArgument,
    time: Annotated[str, typer.Argument(metavar="TIME", help="90, 90s, 15m, 1h30m, 2d.")],
    reason: ReasonOption = None,
    by: ByOption = None,
    url: UrlOption = None,
) -> None:
    """Hand out nothing of a lane for a time; an earlier block only ever extends."""
    with opened(queue, url, new=True) as target:
        target.sync.lane(lane).block(span(time, "TIME"), reason=reason, by=by)
        say(f"lane {lane} is blocked")


@app.command(name="unblock")
def unblock(queue: QueueArgument, lane: LaneArgument, url: UrlOption = None) -> None:
    """End a block of a lane before its time."""
    with opened(queue, url) as target:
        was = target.sync.lane(lane).unblock()
        say(f"lane {lane} {'is unblocked' if was else 'was not blocked'}")


@app.command(name="move")
def move(
    queue: QueueArgument,
    lane: LaneArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="The lane that gets the jobs.")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    url: UrlOption = None,
) -> None:
    """Take what waits and is delayed in a lane over to another lane, places kept.

    Jobs in flight stay, and so do sequences of which some are, or that are blocked. Exit status 1
    when something stayed.
    """
    with opened(queue, url) as target:
        source = target.sync.lane(lane)
        confirm(target, f"Move the jobs of lane {lane} to lane {to}?", yes=yes, dry_run=dry_run)
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
    queue: QueueArgument,
    lane: LaneArgument,
    by: ByOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    url: UrlOption = None,
) -> None:
    """Delete what waits and is delayed in a lane, and ask what is in flight to stop."""
    with opened(queue, url) as target:
        source = target.sync.lane(lane)
        confirm(target, f"Cancel all jobs of lane {lane}?", yes=yes, dry_run=dry_run)
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
