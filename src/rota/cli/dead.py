"""`rota dead`: looks at a queue's dead jobs, puts them back, deletes them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from rota.cli.exits import reporting, say
from rota.cli.tables import print_table
from rota.cli.targets import find_queue
from rota.dead_jobs import SyncDeadJobs
from rota.errors import ConfigError
from rota.model import DeadAnswer, DeadJob
from rota.timing import duration

app = typer.Typer(
    name="dead",
    help="Look at jobs that gave up, put them back, delete them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="A queue's name, or module:queue.")
]
UrlOption = Annotated[str | None, typer.Option(help="The server; overrides the code.")]
LaneOption = Annotated[str | None, typer.Option("--lane", help="Only those of this lane.")]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only those of this task.")]
IdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Job ids; - reads them from stdin.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead jobs of the queue.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count them.")]


@app.callback()
def _dead() -> None:
    pass


@app.command(name="ls")
def ls(
    queue: QueueArgument,
    lane: LaneOption = None,
    task: TaskOption = None,
    limit: Annotated[int, typer.Option(help="Most jobs to show, oldest first.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    ids_only: Annotated[bool, typer.Option("--ids", help="Only ids, one a line.")] = False,
    url: UrlOption = None,
) -> None:
    """Show dead jobs: when they died, where they belong, their last error."""
    with reporting():
        target = find_queue(queue, url)
        try:
            jobs = target.sync.dead.list(lane=lane, task=task, limit=limit)
        finally:
            target.sync.close()
        if as_json or ids_only:
            for job in jobs:
                typer.echo(job.id if ids_only else _json(job))
        elif jobs:
            print_table(
                ("id", "died", "task", "lane", "attempts", "deaths", "error"),
                [_cells(job) for job in jobs],
                numbers=("attempts", "deaths"),
            )
        else:
            say(f"queue {target.name} has no such dead jobs")


def _json(job: DeadJob) -> str:
    row = {
        "id": job.id,
        "died_at": job.died_at,
        "task": job.task,
        "lane": job.lane,
        "ordering_key": job.ordering_key,
        "priority": job.priority,
        "enqueued_at": job.enqueued_at,
        "attempts": job.attempts,
        "deaths": job.deaths,
        "error": job.error,
        "worker": job.worker,
        "payload": job.payload.decode("utf-8", "replace"),
    }
    return msgspec.json.encode(row).decode()


def _cells(job: DeadJob) -> tuple[str, ...]:
    age = max(0.0, datetime.now(UTC).timestamp() - job.died_at)
    last_line = job.error.strip().rpartition("\n")[2]
    return (
        job.id,
        f"{duration(age)} ago",
        job.task or "-",
        job.lane or "-",
        str(job.attempts),
        str(job.deaths),
        last_line or "-",
    )


@app.command(name="replay")
def replay(
    queue: QueueArgument,
    ids: IdsArgument = None,
    lane: LaneOption = None,
    task: TaskOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    url: UrlOption = None,
) -> None:
    """Put dead jobs back in their places, their attempts forgiven.

    One that held its sequence runs before what waits behind it. Exit status 1 when an id was not
    among the dead.
    """
    _act(queue, ids, lane, task, everything, dry_run, url, "replayed")


@app.command(name="discard")
def discard(
    queue: QueueArgument,
    ids: IdsArgument = None,
    lane: LaneOption = None,
    task: TaskOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = None,
) -> None:
    """Delete dead jobs for good; a sequence that one of them held goes on.

    Exit status 1 when an id was not among the dead.
    """
    if not (yes or dry_run):
        with reporting():
            if not sys.stdin.isatty():
                raise ConfigError("discarding is for good: add --yes, or --dry-run to count first")
            typer.confirm("Discard these jobs for good?", abort=True, err=True)
    _act(queue, ids, lane, task, everything, dry_run, url, "discarded")


def _act(
    queue: str,
    ids: list[str] | None,
    lane: str | None,
    task: str | None,
    everything: bool,
    dry_run: bool,
    url: str | None,
    done: str,
) -> None:
    with reporting():
        if bool(ids) + bool(lane or task) + everything != 1:
            raise ConfigError("expected ids, or --lane and --task, or --all: one of the three")
        target = find_queue(queue, url)
        dead = target.sync.dead
        try:
            if ids:
                _act_on_ids(dead, _given(ids), dry_run, done)
            else:
                _act_on_filter(dead, lane, task, dry_run, done)
        finally:
            target.sync.close()


def _given(ids: list[str]) -> list[str]:
    if ids != ["-"]:
        return ids
    return [line.strip() for line in sys.stdin if line.strip()]


def _act_on_ids(dead: SyncDeadJobs, ids: list[str], dry_run: bool, done: str) -> None:
    if dry_run:
        say(f"{len(ids)} would be {done}")
        return
    act: Callable[..., list[DeadAnswer]] = dead.replay if done == "replayed" else dead.discard
    answers = act(*ids)
    for id, answer in zip(ids, answers, strict=True):
        if answer != "ok":
            why = "not among the dead" if answer == "none" else "its record cannot be read"
            say(f"{id}: {why}")
    say(f"{answers.count('ok')} {done}")
    if answers.count("ok") < len(ids):
        raise typer.Exit(1)


def _act_on_filter(
    dead: SyncDeadJobs, lane: str | None, task: str | None, dry_run: bool, done: str
) -> None:
    if dry_run:
        count = sum(1 for _ in dead.iterate(lane=lane, task=task))
        say(f"{count} would be {done}")
        return
    act = dead.replay_all if done == "replayed" else dead.discard_all
    say(f"{act(lane=lane, task=task)} {done}")
