"""`rota worker ls`, `quiet`, `stop`: the consumers that work on a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from rota.cli.exits import FAILED, say
from rota.cli.options import (
    DryRunOption,
    JsonOption,
    LimitOption,
    QueueArgument,
    UrlOption,
    YesOption,
)
from rota.cli.printing import print_table
from rota.cli.root import noun
from rota.cli.rows import consumer_row, print_rows
from rota.cli.terminal import confirm, opened
from rota.errors import ConfigError
from rota.queue import Queue
from rota.store.inspector import MAX_CONSUMERS
from rota.values.config import whole
from rota.values.model import ConsumerInfo
from rota.values.timing import duration

app = noun("worker", "Look at the workers of a queue, and steer them. Without a verb: run one.")
HEADINGS = ("consumer", "process", "holds", "lease", "asked")

ConsumersArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONSUMER]...", help="Consumers' ids, or processes as host:pid."),
]
AllOption = Annotated[bool, typer.Option("--all", help="All consumers of the queue.")]


@app.command(name="ls")
def ls(
    queue: QueueArgument,
    limit: LimitOption = 1000,
    as_json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Show who works on a queue: consumers, their processes, the jobs they hold, their leases."""
    with opened(queue, url) as target:
        found = target.sync.consumers(whole(limit, 1, MAX_CONSUMERS, "--limit"))
        if as_json:
            print_rows(map(consumer_row, found))
        elif found:
            print_table(HEADINGS, [_cells(one) for one in found], numbers=("holds", "lease"))
        else:
            say(f"queue {target.name} has no consumers")


def _cells(one: ConsumerInfo) -> tuple[str, ...]:
    lease = duration(one.lease_left) if one.lease_left else "ended"
    return (one.id, one.name, str(one.held), lease, one.asked or "-")


@app.command(name="quiet")
def quiet(
    queue: QueueArgument,
    consumers: ConsumersArgument = None,
    everyone: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    url: UrlOption = None,
) -> None:
    """Ask processes to claim nothing more; what they hold goes on. They hear of it within 5 s.

    Asks where it is --all. Exit status 1 when one was not found.
    """
    with opened(queue, url) as target:
        ask = target.sync.quiet
        _ask(target, consumers, everyone, ask, "to be quiet", dry_run=dry_run, yes=yes)


@app.command(name="stop")
def stop(
    queue: QueueArgument,
    consumers: ConsumersArgument = None,
    everyone: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    url: UrlOption = None,
) -> None:
    """Ask processes to stop gracefully, as SIGTERM does. They hear of it within 5 s.

    A supervisor starts another in its place: `rota worker -p 2` has one. Asks where it is --all.
    Exit status 1 when one was not found.
    """
    with opened(queue, url) as target:
        ask = target.sync.stop
        _ask(target, consumers, everyone, ask, "to stop", dry_run=dry_run, yes=yes)


def _ask(
    queue: Queue,
    wanted: list[str] | None,
    everyone: bool,
    ask: Callable[[str], bool],
    what: str,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    if bool(wanted) == everyone:
        raise ConfigError("expected consumers, or --all")
    confirm(queue, f"Ask all consumers {what}?", yes=yes or not everyone, dry_run=dry_run)
    found = queue.sync.consumers(MAX_CONSUMERS)
    names = {name for one in found for name in (one.id, one.name)}
    missing = [] if wanted is None else [name for name in wanted if name not in names]
    for name in missing:
        say(f"{name}: queue {queue.name} has no such consumer")
    chosen = [one for one in found if everyone or {one.id, one.name} & set(wanted or ())]
    if dry_run:
        say(f"{len(chosen)} would be asked {what}")
    else:
        say(f"{sum(ask(one.id) for one in chosen)} asked {what}")
    if missing:
        raise typer.Exit(FAILED)
