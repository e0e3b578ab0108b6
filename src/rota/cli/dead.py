"""`rota dead`: looks at a queue's dead jobs, puts them back, deletes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from rota.cli.exits import FAILED, say
from rota.cli.options import (
    DryRunOption,
    IdsOption,
    JsonOption,
    LaneOption,
    LimitOption,
    QueueArgument,
    TaskOption,
    UrlOption,
    YesOption,
)
from rota.cli.printing import print_ids, print_table
from rota.cli.root import noun
from rota.cli.rows import dead_row, print_rows
from rota.cli.terminal import confirm, given_ids, opened, progress, state_of
from rota.cli.times import ago
from rota.errors import ConfigError
from rota.queue import Queue
from rota.values.failure import headline
from rota.values.model import DeadAnswer, JobInfo

app = noun("dead", "Look at jobs that gave up, put them back, delete them.")

IdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Job ids; - reads them from stdin.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead jobs of the queue.")]


@app.command(name="ls")
def ls(
    queue: QueueArgument,
    lane: LaneOption = None,
    task: TaskOption = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    ids_only: IdsOption = False,
    url: UrlOption = None,
) -> None:
    """Show dead jobs: when they died, where they belong, their last error."""
    with opened(queue, url) as target:
        jobs = target.sync.dead.list(lane=lane, task=task, limit=limit)
        if as_json:
            print_rows(map(dead_row, jobs))
        elif ids_only:
            print_ids(job.id for job in jobs)
        elif jobs:
            print_table(
                ("id", "died", "task", "lane", "attempts", "deaths", "error"),
                [_cells(job) for job in jobs],
                numbers=("attempts", "deaths"),
            )
        else:
            say(f"queue {target.name} has no such dead jobs")


def _cells(job: JobInfo) -> tuple[str, ...]:
    return (
        job.id,
        ago(job.died_at) if job.died_at else "-",
        job.task or "-",
        job.lane or "-",
        str(job.attempts),
        str(job.deaths),
        headline(job.error) or "-",
    )


@app.command(name="replay")
def replay(
    queue: QueueArgument,
    ids: IdsArgument = None,
    lane: LaneOption = None,
    task: TaskOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    url: UrlOption = None,
) -> None:
    """Put dead jobs back in their places, their attempts forgiven; asks unless ids say which.

    One that held its sequence runs before what waits behind it. Exit status 1 when an id was not
    among the dead.
    """
    with opened(queue, url) as target:
        _check_which(ids, lane, task, everything)
        if not ids:
            asked = f"Replay all dead jobs{_chosen(lane, task)}?"
            confirm(target, asked, yes=yes, dry_run=dry_run)
        _act(target, ids, lane, task, dry_run, "replayed")


@app.command(name="discard")
def discard(
    queue: QueueArgument,
    ids: IdsArgument = None,
    lane: LaneOption = None,
    task: TaskOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    url: UrlOption = None,
) -> None:
    """Delete dead jobs for good; a sequence that one of them held goes on.

    Exit status 1 when an id was not among the dead.
    """
    with opened(queue, url) as target:
        _check_which(ids, lane, task, everything)
        which = "these jobs" if ids else f"all dead jobs{_chosen(lane, task)}"
        confirm(target, f"Discard {which} for good?", yes=yes, dry_run=dry_run)
        _act(target, ids, lane, task, dry_run, "discarded")


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
    if ids:
        _act_on_ids(queue, given_ids(ids), dry_run, done)
    else:
        _act_on_filter(queue, lane, task, dry_run, done)


def _act_on_ids(queue: Queue, ids: list[str], dry_run: bool, done: str) -> None:
    dead = queue.sync.dead
    act: Callable[..., list[DeadAnswer]] = dead.replay if done == "replayed" else dead.discard
    if dry_run:
        done = f"would be {done}"
        answers: list[DeadAnswer] = [
            "ok" if state_of(queue, id) == "dead" else "none" for id in ids
        ]
    else:
        answers = act(*ids)
    for id, answer in zip(ids, answers, strict=True):
        if answer != "ok":
            why = "not among the dead" if answer == "none" else "its record cannot be read"
            say(f"{id}: {why}")
    say(f"{answers.count('ok')} {done}")
    if answers.count("ok") < len(ids):
        raise typer.Exit(FAILED)


def _act_on_filter(
    queue: Queue, lane: str | None, task: str | None, dry_run: bool, done: str
) -> None:
    dead = queue.sync.dead
    if dry_run:
        with progress("counting dead jobs"):
            count = sum(1 for _ in dead.iterate(lane=lane, task=task))
        say(f"{count} would be {done}")
        return
    act = dead.replay_all if done == "replayed" else dead.discard_all
    total = queue.sync.info().dead if lane is None and task is None else None
    with progress("dead jobs", total, lambda: queue.sync.info().dead):
        count = act(lane=lane, task=task)
    say(f"{count} {done}")
