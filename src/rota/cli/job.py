"""`rota job`: looks at jobs, one or many; runs them again, cancels them."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated, NoReturn

import typer

from rota.cli import options
from rota.cli.exits import FAILED, fail, say
from rota.cli.options import noun
from rota.cli.printing import (
    Columns,
    print_explanation,
    print_facts,
    print_found,
    print_rows,
    row_of,
)
from rota.cli.queues import MOST, first_of, opened, shell_words, state_of
from rota.cli.terminal import confirm, given_ids, progress
from rota.cli.times import ago, moment, span, when
from rota.errors import ConfigError
from rota.queue import Queue
from rota.values.config import whole
from rota.values.failure import headline
from rota.values.model import JobInfo, JobState
from rota.values.names import text_of, visible

app = noun("job", "Look at jobs, run them again, cancel them.")

SHORTEST_S = 0.05
NO_JOB = "never enqueued, or done"
UNKNOWN = f"there is no such job: {NO_JOB}"
NOT_RETRIED = {
    "none": UNKNOWN,
    "running": "it runs",
    "waiting": "it waits for its turn already",
    "unreadable": "its record cannot be read",
}
WOULD_CANCEL = {"waiting": "cancelled", "delayed": "cancelled", "running": "asked"}
NOT_CANCELLED = {"none": UNKNOWN, "dead": "it is dead: rota dead discard deletes it"}


COLUMNS: Columns[JobInfo] = {
    "id": lambda job: job.id,
    "task": lambda job: job.task,
    "lane": lambda job: job.lane,
    "key": lambda job: job.ordering_key,
    "enqueued": lambda job: ago(job.enqueued_at),
    "attempts": lambda job: job.attempts,
}
LAST_COLUMNS: dict[JobState, Columns[JobInfo]] = {
    "waiting": {"priority": lambda job: job.priority},
    "delayed": {"due": lambda job: when(job.due)},
    "running": {"worker": lambda job: job.worker},
    "dead": {"died": lambda job: ago(job.due), "error": lambda job: headline(job.error)},
}


@app.command(name="ls")
def ls(
    name: options.Queue,
    state: Annotated[
        JobState | None,
        typer.Option(
            help="Which jobs; those waiting are told by --lane. [default: waiting with --lane, "
            "else running]"
        ),
    ] = None,
    lane: options.OfLane = None,
    task: options.OfTask = None,
    limit: options.Limit = 100,
    as_json: options.Json = False,
    ids_only: options.IdsOnly = False,
    url: options.Url = None,
) -> None:
    """Show jobs that run, wait, are delayed or dead; of one lane in order of turns, or of time."""
    with opened(name, url) as queue:
        whole(limit, 1, MOST, "--limit")
        which: JobState = state or ("running" if lane is None else "waiting")
        if which == "waiting" and lane is None:
            raise ConfigError("waiting jobs are told by --lane; rota lane ls shows the lanes")

        def page(cursor: str | None, most: int) -> tuple[list[JobInfo], str | None]:
            got = queue.sync.jobs(which, lane=lane, task=task, cursor=cursor, limit=most)
            return got.jobs, got.cursor

        with progress("looking for jobs"):
            found, more = first_of(limit, page)
        others = "" if found or lane or task else _others(queue, which)
        print_found(
            found,
            {**COLUMNS, **LAST_COLUMNS[which]},
            f"queue {queue.name} has no such jobs ({which}){others}",
            as_json=as_json,
            ids=(lambda job: job.id) if ids_only else None,
        )
        if more and found and not as_json and not ids_only:
            say(f"the first {limit} jobs; --limit shows more")


def _others(queue: Queue, asked: JobState) -> str:
    """The jobs there are in other states; how they are asked for."""
    info = queue.sync.info()
    counts = {
        "running": (info.running, "runs", "run"),
        "waiting": (info.waiting, "waits", "wait"),
        "delayed": (info.delayed, "is delayed", "are delayed"),
        "dead": (info.dead, "is dead", "are dead"),
    }
    told = [
        f"{count:,} {one if count == 1 else many}"
        for state, (count, one, many) in counts.items()
        if count and state != asked
    ]
    return f"; {', '.join(told)}: see --lane, --state" if told else ""


@app.command(name="show")
def show(
    name: options.Queue, id: options.Id, as_json: options.Json = False, url: options.Url = None
) -> None:
    """Show one job: where it stands, its attempts, its last error, its payload.

    Exit status 1 when there is no such job: never enqueued, or done.
    """
    with opened(name, url) as queue:
        job = queue.sync.job(id).info()
        if job is None:
            _fail_without(queue, id)
        print_facts(
            {
                "id": job.id,
                "state": job.state,
                "died" if job.state == "dead" else "due": when(job.due),
                "task": job.task,
                "lane": job.lane,
                "key": job.ordering_key,
                "priority": job.priority,
                "enqueued": when(job.enqueued_at),
                "attempts": job.attempts,
                "deaths": job.deaths or None,
                "payload": text_of(job.payload),
            },
            row_of(job),
            as_json=as_json,
        )
        for line in () if as_json else (job.error or "").splitlines():
            typer.echo(f"  {visible(line)}")


def _fail_without(queue: Queue, id: str) -> NoReturn:
    fail(f"queue {queue.name} has no job {id}: {NO_JOB}", FAILED)


@app.command(name="explain")
def explain(
    name: options.Queue, id: options.Id, as_json: options.Json = False, url: options.Url = None
) -> None:
    """Say why a job is not running now, and what would free it, the decisive reason first.

    Exit status 1 when there is no such job: never enqueued, or done.
    """
    with opened(name, url) as queue:
        found = queue.sync.job(id).explain(shell=shell_words(name, url))
        if found is None:
            _fail_without(queue, id)
        print_explanation(found, as_json=as_json)


@app.command(name="retry")
def retry(
    name: options.Queue,
    ids: options.Ids,
    dry_run: options.DryRun = False,
    url: options.Url = None,
) -> None:
    """Put dead jobs back in their places, and let delayed ones fall due now.

    Exit status 1 when there was no such job, or its record cannot be read.
    """
    with opened(name, url) as queue:
        answers: Counter[str] = Counter()
        for id in given_ids(ids):
            if dry_run:
                state = state_of(queue, id)
                answer = "ok" if state in ("dead", "delayed") else state
            else:
                answer = queue.sync.job(id).retry()
            answers[answer] += 1
            if answer != "ok":
                say(f"{id}: {NOT_RETRIED[answer]}")
        say(f"{answers['ok']} {'would be retried' if dry_run else 'retried'}")
        if answers["none"] or answers["unreadable"]:
            raise typer.Exit(FAILED)


@app.command(name="cancel")
def cancel(
    name: options.Queue,
    ids: options.Ids,
    by: options.By = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
) -> None:
    """Delete jobs that wait or are delayed, and ask those in flight to stop.

    Exit status 1 when there was no such job, or it is dead.
    """
    with opened(name, url) as queue:
        wanted = given_ids(ids)
        confirm(queue, f"Cancel {len(wanted)} jobs for good?", yes=yes, dry_run=dry_run)
        answers: Counter[str] = Counter()
        for id in wanted:
            if dry_run:
                state = state_of(queue, id)
                answer = WOULD_CANCEL.get(state, state)
            else:
                answer = queue.sync.job(id).cancel(by=by)
            answers[answer] += 1
            if answer in NOT_CANCELLED:
                say(f"{id}: {NOT_CANCELLED[answer]}")
        deleted = "would be deleted" if dry_run else "deleted"
        say(f"{answers['cancelled']} {deleted}, {answers['asked']} asked to stop")
        if answers["none"] or answers["dead"]:
            raise typer.Exit(FAILED)


@app.command(name="watch")
def watch(
    name: options.Queue,
    id: options.Id,
    interval: Annotated[str, typer.Option(metavar="TIME", help="How often to look.")] = "1s",
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long; without it until it ends.")
    ] = None,
    as_json: options.Json = False,
    url: options.Url = None,
) -> None:
    """Follow a job until it ends, with a line whenever something about it has changed.

    Exit status 0 when it is done (or was cancelled), 1 when it is dead, there is no such job, or
    the time is over.
    """
    with opened(name, url) as queue:
        pause = max(SHORTEST_S, span(interval, "--interval"))
        end = None if timeout is None else time.monotonic() + span(timeout, "--timeout")
        seen: JobInfo | None = None
        while (job := queue.sync.job(id).info()) is not None:
            if job != seen:
                _tell(job, as_json=as_json)
                seen = job
            if job.state == "dead":
                raise typer.Exit(FAILED)
            if end is not None and time.monotonic() + pause > end:
                fail(f"job {id} is still {job.state}; the time is over", FAILED)
            time.sleep(pause)
        if seen is None:
            _fail_without(queue, id)
        if as_json:
            print_rows([{"id": id, "state": "done"}])
        else:
            typer.echo("done")


def _tell(job: JobInfo, *, as_json: bool) -> None:
    if as_json:
        print_rows([row_of(job)])
        return
    due = f", due {moment(job.due)}" if job.state == "delayed" and job.due else ""
    error = headline(job.error)
    failed = f", {job.attempts} failed attempts" if job.attempts else ""
    typer.echo(visible(f"{job.state}{due}{failed}{': ' + error if error else ''}"))
