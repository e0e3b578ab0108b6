"""`rota job`: looks at jobs, one or many; `job_acts` changes them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from rota.cli.exits import FAILED, fail, say
from rota.cli.explaining import print_explanation
from rota.cli.options import (
    IdArgument,
    IdsOption,
    JsonOption,
    LaneOption,
    LimitOption,
    QueueArgument,
    TaskOption,
    UrlOption,
)
from rota.cli.printing import print_facts, print_ids, print_table
from rota.cli.queues import shell_words
from rota.cli.root import noun
from rota.cli.rows import job_row, print_rows
from rota.cli.terminal import opened, progress
from rota.cli.times import ago, moment, when
from rota.errors import ConfigError
from rota.queue import Queue
from rota.store.jobs import MAX_LISTED
from rota.values.config import whole
from rota.values.failure import headline
from rota.values.model import JobInfo
from rota.values.names import text_of, visible

app = noun("job", "Look at jobs, run them again, cancel them.")
MOST = 100_000
NO_JOB = "never enqueued, or done"


class State(StrEnum):
    """What `ls --state` takes."""

    WAITING = "waiting"
    DELAYED = "delayed"
    RUNNING = "running"
    DEAD = "dead"


@app.command(name="ls")
def ls(
    queue: QueueArgument,
    state: Annotated[
        State | None,
        typer.Option(
            help="Which jobs; those waiting are told by --lane. [default: waiting with --lane, "
            "else running]"
        ),
    ] = None,
    lane: LaneOption = None,
    task: TaskOption = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    ids_only: IdsOption = False,
    url: UrlOption = None,
) -> None:
    """Show jobs: waiting in the order of their turns, delayed and dead by time, or running."""
    with opened(queue, url) as target:
        whole(limit, 1, MOST, "--limit")
        which = state or (State.RUNNING if lane is None else State.WAITING)
        if which is State.WAITING and lane is None:
            raise ConfigError("waiting jobs are told by --lane; rota lane ls shows the lanes")
        with progress("looking for jobs"):
            found, more = _listed(target, which, lane, task, limit)
        if as_json:
            print_rows(map(job_row, found))
        elif ids_only:
            print_ids(job.id for job in found)
        elif found:
            headings, last = _HEADINGS[which], _LAST[which]
            print_table(headings, [(*_cells(job), *last(job)) for job in found])
            if more:
                say(f"the first {limit} jobs; --limit shows more")
        else:
            others = _others(target, which) if lane is None and task is None else ""
            say(f"queue {target.name} has no such jobs ({which}){others}")


def _others(queue: Queue, asked: State) -> str:
    """The jobs there are in other states; how they are asked for."""
    info = queue.sync.info()
    counts = {
        State.RUNNING: (info.running, "runs", "run"),
        State.WAITING: (info.waiting, "waits", "wait"),
        State.DELAYED: (info.delayed, "is delayed", "are delayed"),
        State.DEAD: (info.dead, "is dead", "are dead"),
    }
    told = [
        f"{count:,} {one if count == 1 else many}"
        for state, (count, one, many) in counts.items()
        if count and state is not asked
    ]
    return f"; {', '.join(told)}: see --lane, --state" if told else ""


def _listed(
    queue: Queue, state: State, lane: str | None, task: str | None, limit: int
) -> tuple[list[JobInfo], bool]:
    """The first jobs, and whether there may be more."""
    found: list[JobInfo] = []
    cursor = None
    while len(found) < limit:
        most = min(MAX_LISTED, limit - len(found))
        page = queue.sync.jobs(state.value, lane=lane, task=task, cursor=cursor, limit=most)
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found, False
    return found, True


_FIRST = ("id", "task", "lane", "key", "enqueued", "attempts")
_HEADINGS = {
    State.WAITING: (*_FIRST, "priority"),
    State.DELAYED: (*_FIRST, "due"),
    State.RUNNING: (*_FIRST, "worker"),
    State.DEAD: (*_FIRST, "died", "error"),
}


def _cells(job: JobInfo) -> tuple[str, ...]:
    enqueued = ago(job.enqueued_at) if job.enqueued_at else "-"
    key = job.ordering_key or "-"
    return (job.id, job.task or "-", job.lane or "-", key, enqueued, str(job.attempts))


_LAST: dict[State, Callable[[JobInfo], tuple[str, ...]]] = {
    State.WAITING: lambda job: (str(job.priority),),
    State.DELAYED: lambda job: (moment(job.due) if job.due else "-",),
    State.RUNNING: lambda job: (job.worker or "-",),
    State.DEAD: lambda job: (ago(job.due) if job.due else "-", headline(job.error) or "-"),
}


@app.command(name="show")
def show(
    queue: QueueArgument, id: IdArgument, as_json: JsonOption = False, url: UrlOption = None
) -> None:
    """Show one job: where it stands, its attempts, its last error, its payload.

    Exit status 1 when there is no such job: never enqueued, or done.
    """
    with opened(queue, url) as target:
        job = target.sync.job(id).info()
        if job is None:
            fail(f"queue {target.name} has no job {id}: {NO_JOB}", FAILED)
        if as_json:
            print_rows([job_row(job)])
            return
        what = "died" if job.state == "dead" else "due"
        print_facts(
            [
                ("id", job.id),
                ("state", job.state),
                (what, when(job.due)),
                ("task", job.task),
                ("lane", job.lane),
                ("key", job.ordering_key),
                ("priority", str(job.priority)),
                ("enqueued", moment(job.enqueued_at) if job.enqueued_at else None),
                ("attempts", str(job.attempts)),
                ("deaths", str(job.deaths) if job.deaths else None),
                ("payload", text_of(job.payload)),
            ]
        )
        for line in (job.error or "").splitlines():
            typer.echo(f"  {visible(line)}")


@app.command(name="explain")
def explain(
    queue: QueueArgument, id: IdArgument, as_json: JsonOption = False, url: UrlOption = None
) -> None:
    """Say why a job is not running now, and what would free it, the decisive reason first.

    Exit status 1 when there is no such job: never enqueued, or done.
    """
    with opened(queue, url) as target:
        asked = target.link.explainer.job(target.sync.job(id).id, shell=shell_words(queue, url))
        found = target.link.run_sync(asked)
        if found is None:
            fail(f"queue {target.name} has no job {id}: {NO_JOB}", FAILED)
        print_explanation(found, as_json=as_json)
