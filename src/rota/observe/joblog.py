"""What is said of jobs in the log: one line for each that ends, with its fields.

The logger is `rota.job`. A job that is done is said at INFO, one that failed, or died without
being run, at WARNING. The fields (`queue`, `job`, `task`, `lane`, `ordering_key`, `attempt`,
`seconds`) are attributes of the log record, for formatters that write them.
"""

from __future__ import annotations

import logging

from rota.values.endings import Ending, Stopped
from rota.values.failure import headline
from rota.values.model import Job
from rota.values.names import visible
from rota.values.signals import Bury, RateLimited, Release, Retry
from rota.values.telling import Logger, safely

logger = Logger("rota.job")

FIELDS = ("queue", "job", "task", "lane", "ordering_key", "attempt", "seconds", "outcome")


def fields(queue: str, job: Job) -> dict[str, object]:
    """What a log record says of a job, as `extra`."""
    return {
        "queue": queue,
        "job": job.id,
        "task": job.task,
        "lane": job.lane,
        "ordering_key": job.ordering_key,
        "attempt": job.attempt,
    }


def tells_all() -> bool:
    """Whether jobs that are done are said too, not only failures."""
    return logger.isEnabledFor(logging.INFO)


def tell(queue: str, job: Job, ending: Ending, seconds: float) -> None:
    """Says how a job's run ended."""
    trouble = isinstance(ending, Bury) or (isinstance(ending, Retry) and ending.error)
    level = logging.WARNING if trouble else logging.INFO
    if not logger.isEnabledFor(level):
        return
    with safely:
        outcome, text = _words(job, ending)
        extra = fields(queue, job) | {"seconds": round(seconds, 6), "outcome": outcome}
        logger.log(
            level,
            "job %s of task %s in lane %s %s (%.3f s)",
            *map(visible, (job.id, job.task, job.lane, text)),
            seconds,
            extra=extra,
        )


def tell_refused(queue: str, id: str, job: Job | None, why: str, *, dead: bool) -> None:
    """Says that a job was not run, and whether it is dead; `job` is None where it could not be
    read."""
    where = "" if job is None else visible(f" of task {job.task} in lane {job.lane}")
    known = {"queue": queue, "job": id} if job is None else fields(queue, job)
    logger.warning(
        "job %s%s was not run and %s: %s",
        visible(id),
        where,
        "is dead" if dead else "goes back",
        headline(why),
        extra=known | {"outcome": "refused"},
    )


def tell_slowed(queue: str, job: Job) -> None:
    """Says, once for a row of releases, that the job stays away from now on."""
    logger.warning(
        "job %s of task %s in lane %s was released without a delay for the third time in a row: "
        "it waits 1 s, and twice as long each time, up to 60 s; rota.Release(delay) says how long",
        *map(visible, (job.id, job.task, job.lane)),
        extra=fields(queue, job) | {"outcome": "slowed"},
    )


def _words(job: Job, ending: Ending) -> tuple[str, str]:
    """The outcome, and the sentence's end."""
    match ending:
        case None:
            return "completed", "is done"
        case Stopped():
            return "cancelled", "is cancelled"
        case Release():
            return "released", "goes back"
        case RateLimited():
            return "blocked", f"goes back: {ending}"
        case Bury():
            return "buried", f"is buried: {headline(ending.reason)}"
        case Retry():
            outcome = "buried" if job.last_attempt else "retried"
            why = headline(ending.error) or "it asks for another"
            return outcome, f"failed, attempt {job.attempt} of {job.max_attempts}: {why}"
