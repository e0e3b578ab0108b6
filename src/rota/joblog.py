"""What is said of jobs in the log: one line for each that ends, with its fields.

The logger is `rota.job`. A job that is done is said at INFO, one that failed at WARNING. The
fields (`queue`, `job`, `task`, `lane`, `ordering_key`, `attempt`, `seconds`) are attributes of
the log record, for formatters that write them.
"""

from __future__ import annotations

import logging

from rota.endings import Ending, Stopped, Unstarted
from rota.model import Job
from rota.signals import Bury, RateLimited, Release, Retry

logger = logging.getLogger("rota.job")

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
    level = logging.WARNING if _is_trouble(ending) else logging.INFO
    if not logger.isEnabledFor(level):
        return
    outcome, text = _words(job, ending)
    extra = fields(queue, job) | {"seconds": round(seconds, 6), "outcome": outcome}
    logger.log(
        level,
        "job %s of task %s in lane %s %s (%.3f s)",
        job.id,
        job.task,
        job.lane,
        text,
        seconds,
        extra=extra,
    )


def _is_trouble(ending: Ending) -> bool:
    return isinstance(ending, Bury) or (isinstance(ending, Retry) and bool(ending.error))


def _words(job: Job, ending: Ending) -> tuple[str, str]:
    """The outcome, and the sentence's end."""
    match ending:
        case None:
            return "completed", "is done"
        case Stopped():
            return "cancelled", "is cancelled"
        case Unstarted() | Release():
            return "released", "goes back"
        case RateLimited():
            return "blocked", f"goes back: {ending}"
        case Bury():
            return "buried", f"is buried: {ending.reason}"
        case Retry():
            outcome = "buried" if job.last_attempt else "retried"
            why = (ending.error or "it asks for another").strip().rpartition("\n")[2]
            return outcome, f"failed, attempt {job.attempt} of {job.max_attempts}: {why}"
