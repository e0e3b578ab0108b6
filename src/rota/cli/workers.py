"""`rota worker ls`, `quiet`, `stop`: the consumers that work on a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from rota.cli import options
from rota.cli.exits import FAILED, say
from rota.cli.options import noun
from rota.cli.printing import Columns, print_found
from rota.cli.queues import opened
from rota.cli.terminal import confirm
from rota.errors import ConfigError
from rota.queue import Queue
from rota.values.config import MAX_CONSUMERS, whole
from rota.values.model import ConsumerInfo
from rota.values.timing import duration

app = noun("worker", "Look at the workers of a queue, and steer them. Without a verb: run one.")
COLUMNS: Columns[ConsumerInfo] = {
    "consumer": lambda one: one.id,
    "process": lambda one: one.name,
    "holds": lambda one: one.held,
    "lease": lambda one: duration(one.lease_left) if one.lease_left else "ended",
    "asked": lambda one: one.asked,
}

Consumers = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONSUMER]...", help="Consumers' ids, or processes as host:pid."),
]
All = Annotated[bool, typer.Option("--all", help="All consumers of the queue.")]


@app.command(name="ls")
def ls(
    name: options.Queue,
    limit: options.Limit = 1000,
    as_json: options.Json = False,
    url: options.Url = None,
) -> None:
    """Show who works on a queue: consumers, their processes, the jobs they hold, their leases."""
    with opened(name, url) as queue:
        found = queue.sync.consumers(whole(limit, 1, MAX_CONSUMERS, "--limit"))
        nothing = f"queue {queue.name} has no consumers"
        print_found(found, COLUMNS, nothing, as_json=as_json, numbers=("holds", "lease"))


@app.command(name="quiet")
def quiet(
    name: options.Queue,
    consumers: Consumers = None,
    everyone: All = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    url: options.Url = None,
) -> None:
    """Ask processes to claim nothing more; what they hold goes on. They hear of it within 5 s.

    Asks where it is --all. Exit status 1 when one was not found.
    """
    with opened(name, url) as queue:
        _ask(queue, consumers, everyone, queue.sync.quiet, "to be quiet", dry_run=dry_run, yes=yes)


@app.command(name="stop")
def stop(
    name: options.Queue,
    consumers: Consumers = None,
    everyone: All = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    url: options.Url = None,
) -> None:
    """Ask processes to stop gracefully, as SIGTERM does. They hear of it within 5 s.

    A supervisor starts another in its place: `rota worker -p 2` has one. Asks where it is --all.
    Exit status 1 when one was not found.
    """
    with opened(name, url) as queue:
        _ask(queue, consumers, everyone, queue.sync.stop, "to stop", dry_run=dry_run, yes=yes)


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
