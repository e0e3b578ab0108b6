"""`rota dead`: looks at a queue's dead jobs, puts them back, deletes them."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli import options
from rota.cli.exits import FAILED, say
from rota.cli.options import noun
from rota.cli.printing import Columns, dead_row, print_found
from rota.cli.queues import opened, state_of
from rota.cli.terminal import confirm, given_ids, progress
from rota.cli.times import ago
from rota.errors import ConfigError
from rota.queue import Queue
from rota.values.failure import headline
from rota.values.model import DeadAnswer, JobInfo

app = noun("dead", "Look at jobs that gave up, put them back, delete them.")

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Job ids; - reads them from stdin.")
]
All = Annotated[bool, typer.Option("--all", help="All dead jobs of the queue.")]
COLUMNS: Columns[JobInfo] = {
    "id": lambda job: job.id,
    "died": lambda job: ago(job.died_at),
    "task": lambda job: job.task,
    "lane": lambda job: job.lane,
    "attempts": lambda job: job.attempts,
    "deaths": lambda job: job.deaths,
    "error": lambda job: headline(job.error),
}


@app.command(name="ls")
def ls(
    name: options.Queue,
    lane: options.OfLane = None,
    task: options.OfTask = None,
    limit: options.Limit = 100,
    as_json: options.Json = False,
    ids_only: options.IdsOnly = False,
    url: options.Url = None,
) -> None:
    """Show dead jobs: when they died, where they belong, their last error."""
    with opened(name, url) as queue:
        print_found(
            queue.sync.dead.list(lane=lane, task=task, limit=limit),
            COLUMNS,
            f"queue {queue.name} has no such dead jobs",
            as_json=as_json,
            row=dead_row,
            ids=(lambda job: job.id) if ids_only else None,
            numbers=("attempts", "deaths"),
        )


@app.command(name="replay")
def replay(
    name: options.Queue,
    ids: Ids = None,
    lane: options.OfLane = None,
    task: options.OfTask = None,
    everything: All = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    url: options.Url = None,
) -> None:
    """Put dead jobs back in their places, their attempts forgiven; asks unless ids say which.

    One that held its sequence runs before what waits behind it. Exit status 1 when an id was not
    among the dead.
    """
    with opened(name, url) as queue:
        _check_which(ids, lane, task, everything)
        asked = f"Replay all dead jobs{_chosen(lane, task)}?"
        confirm(queue, asked, yes=yes or bool(ids), dry_run=dry_run)
        _act(queue, ids, lane, task, dry_run, "replayed")


@app.command(name="discard")
def discard(
    name: options.Queue,
    ids: Ids = None,
    lane: options.OfLane = None,
    task: options.OfTask = None,
    everything: All = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    url: options.Url = None,
) -> None:
    """Delete dead jobs for good; a sequence that one of them held goes on.

    Exit status 1 when an id was not among the dead.
    """
    with opened(name, url) as queue:
        _check_which(ids, lane, task, everything)
        which = "these jobs" if ids else f"all dead jobs{_chosen(lane, task)}"
        confirm(queue, f"Discard {which} for good?", yes=yes, dry_run=dry_run)
        _act(queue, ids, lane, task, dry_run, "discarded")


def _check_which(
    ids: list[str] | None, lane: str | None, task: str | None, everything: bool
) -> None:
    if bool(ids) + bool(lane or task) + everything != 1:
        raise ConfigError("expected ids, or --lane and --task, or --all: one of the three")


def _chosen(lane: str | None, task: str | None) -> str:
    told = [f"{what} {name}" for what, name in (("lane", lane), ("task", task)) if name]
    return f" of {' and '.join(told)}" if told else ""


def _act(
    queue: Queue,
    ids: list[str] | None,
    lane: str | None,
    task: str | None,
    dry_run: bool,
    done: str,
) -> None:
    """To the jobs of these ids, else to all of lane and task; `done`: replayed or discarded."""
    dead, replays = queue.sync.dead, done == "replayed"
    would = "would be " if dry_run else ""
    if ids:
        wanted = given_ids(ids)
        if dry_run:
            states = [state_of(queue, id) for id in wanted]
            answers: list[DeadAnswer] = ["ok" if state == "dead" else "none" for state in states]
        else:
            answers = (dead.replay if replays else dead.discard)(*wanted)
        for id, answer in zip(wanted, answers, strict=True):
            if answer != "ok":
                why = "not among the dead" if answer == "none" else "its record cannot be read"
                say(f"{id}: {why}")
        say(f"{answers.count('ok')} {would}{done}")
        if answers.count("ok") < len(wanted):
            raise typer.Exit(FAILED)
        return
    if dry_run:
        with progress("counting dead jobs"):
            count = sum(1 for _ in dead.iterate(lane=lane, task=task))
    else:
        total = queue.sync.info().dead if lane is None and task is None else None
        with progress("dead jobs", total, lambda: queue.sync.info().dead):
            count = (dead.replay_all if replays else dead.discard_all)(lane=lane, task=task)
    say(f"{count} {would}{done}")
