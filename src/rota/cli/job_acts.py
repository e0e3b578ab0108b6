"""`rota job retry`, `cancel` and `watch`."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated

import typer

from rota.cli.exits import FAILED, fail, say
from rota.cli.job import NO_JOB, app
from rota.cli.options import (
    ByOption,
    DryRunOption,
    IdArgument,
    IdsArgument,
    JsonOption,
    QueueArgument,
    UrlOption,
    YesOption,
)
from rota.cli.rows import job_row, print_rows
from rota.cli.terminal import confirm, given_ids, opened, state_of
from rota.cli.times import moment, span
from rota.values.failure import headline
from rota.values.model import JobInfo
from rota.values.names import visible

__all__ = ["app"]

SHORTEST_S = 0.05
_NOT_RETRIED = {
    "none": f"there is no such job: {NO_JOB}",
    "running": "it runs",
    "waiting": "it waits for its turn already",
    "unreadable": "its record cannot be read",
}
_WOULD_CANCEL = {
    "none": "none",
    "waiting": "cancelled",
    "delayed": "cancelled",
    "running": "asked",
    "dead": "dead",
}
_NOT_CANCELLED = {
    "none": f"there is no such job: {NO_JOB}",
    "dead": "it is dead: rota dead discard deletes it",
}


@app.command(name="retry")
def retry(
    queue: QueueArgument, ids: IdsArgument, dry_run: DryRunOption = False, url: UrlOption = None
) -> None:
    """Put dead jobs back in their places, and let delayed ones fall due now.

    Exit status 1 when there was no such job, or its record cannot be read.
    """
    with opened(queue, url) as target:
        answers: Counter[str] = Counter()
        for id in given_ids(ids):
            if dry_run:
                state = state_of(target, id)
                answer = "ok" if state in ("dead", "delayed") else state
            else:
                answer = target.sync.job(id).retry()
            answers[answer] += 1
            if answer != "ok":
                say(f"{id}: {_NOT_RETRIED[answer]}")
        say(f"{answers['ok']} {'would be retried' if dry_run else 'retried'}")
        if answers["none"] or answers["unreadable"]:
            raise typer.Exit(FAILED)


@app.command(name="cancel")
def cancel(
    queue: QueueArgument,
    ids: IdsArgument,
    by: ByOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    url: UrlOption = None,
) -> None:
    """Delete jobs that wait or are delayed, and ask those in flight to stop.

    Exit status 1 when there was no such job, or it is dead.
    """
    with opened(queue, url) as target:
        wanted = given_ids(ids)
        confirm(target, f"Cancel {len(wanted)} jobs for good?", yes=yes, dry_run=dry_run)
        answers: Counter[str] = Counter()
        for id in wanted:
            if dry_run:
                answer = _WOULD_CANCEL[state_of(target, id)]
            else:
                answer = target.sync.job(id).cancel(by=by)
            answers[answer] += 1
            if answer in _NOT_CANCELLED:
                say(f"{id}: {_NOT_CANCELLED[answer]}")
        deleted = "would be deleted" if dry_run else "deleted"
        say(f"{answers['cancelled']} {deleted}, {answers['asked']} asked to stop")
        if answers["none"] or answers["dead"]:
            raise typer.Exit(FAILED)


@app.command(name="watch")
def watch(
    queue: QueueArgument,
    id: IdArgument,
    interval: Annotated[str, typer.Option(metavar="TIME", help="How often to look.")] = "1s",
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long; without it until it ends.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Follow a job until it ends, with a line whenever something about it has changed.

    Exit status 0 when it is done (or was cancelled), 1 when it is dead, there is no such job, or
    the time is over.
    """
    with opened(queue, url) as target:
        pause = max(SHORTEST_S, span(interval, "--interval"))
        end = None if timeout is None else time.monotonic() + span(timeout, "--timeout")
        seen: JobInfo | None = None
        while True:
            job = target.sync.job(id).info()
            if job is None:
                if seen is None:
                    fail(f"queue {target.name} has no job {id}: {NO_JOB}", FAILED)
                _tell_end(id, as_json=as_json)
                return
            if job != seen:
                _tell(job, as_json=as_json)
                seen = job
            if job.state == "dead":
                raise typer.Exit(FAILED)
            if end is not None and time.monotonic() + pause > end:
                fail(f"job {id} is still {job.state}; the time is over", FAILED)
            time.sleep(pause)


def _tell(job: JobInfo, *, as_json: bool) -> None:
    if as_json:
        print_rows([job_row(job)])
        return
    due = f", due {moment(job.due)}" if job.state == "delayed" and job.due else ""
    error = headline(job.error)
    failed = f", {job.attempts} failed attempts" if job.attempts else ""
    typer.echo(visible(f"{job.state}{due}{failed}{': ' + error if error else ''}"))


def _tell_end(id: str, *, as_json: bool) -> None:
    if as_json:
        print_rows([{"id": id, "state": "done"}])
    else:
        typer.echo("done")
