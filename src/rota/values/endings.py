"""How a job ends: from what its handler did to what the server is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, assert_never

import msgspec

from rota.values.errors import ConfigError
from rota.values.failure import brief, report
from rota.values.model import UNPACED, Action, Job, Settlement, process_name
from rota.values.signals import Bury, RateLimited, Release, Retry
from rota.values.timing import backoff_delay, milliseconds

Ending: TypeAlias = Retry | Release | RateLimited | Bury | None
"""None: done. The others are the signals a handler may raise."""


class Failed(Retry):
    """A retry that the handler did not ask for: it raised, or ran out of time.

    `kind` is the name of the exception's class.
    """

    def __init__(self, *, error: str, kind: str) -> None:
        super().__init__(error=error)
        self.kind = kind

    @classmethod
    def by(cls, error: BaseException) -> Failed:
        """What was raised, with its traceback."""
        return cls(error=report(error), kind=type(error).__qualname__)


class Stopped(Release):
    """The end of a job that was asked to be cancelled and was not done: it is deleted."""

    def __init__(self, *, begun: bool) -> None:
        super().__init__()
        self.begun = begun


class Unpaced(Release):
    """A release whose handler named no delay."""


class Unstarted(Release):
    """The end of a job that was not begun: its lane's rate gets it back."""


ERROR_MAX = 4000
_to_json = msgspec.json.Encoder().encode


def error_text(error: str) -> str:
    """What is kept with a failed job: the error, bounded, and who had it."""
    bounded = brief(error, ERROR_MAX).encode("utf-8", "replace").decode("utf-8")
    return _to_json({"error": bounded, "worker": process_name()}).decode()


def burial(id: str, delivery: str, reason: str, *, hold: bool) -> Settlement:
    return Settlement(id, delivery, "bury", error=error_text(reason), hold=hold)


def settlement(job: Job, ending: Ending) -> Settlement:
    """What the server is told. A retry at the last attempt buries the job."""
    match ending:
        case None:
            return Settlement(job.id, job.delivery, ran=job.ran())
        case Stopped():
            ran = job.ran() if ending.begun else None
            return Settlement(job.id, job.delivery, "cancel", unstarted=not ending.begun, ran=ran)
        case Unstarted():
            delay = milliseconds(ending.delay)
            return Settlement(job.id, job.delivery, "release", delay, unstarted=True)
        case Unpaced():
            return Settlement(job.id, job.delivery, "release", UNPACED, ran=job.ran())
        case Release():
            delay = milliseconds(ending.delay)
            return Settlement(job.id, job.delivery, "release", delay, ran=job.ran())
        case RateLimited():
            action: Action = "block_lane" if ending.scope == "lane" else "block_sequence"
            delay = milliseconds(ending.delay)
            return Settlement(job.id, job.delivery, action, delay, ran=job.ran())
        case Bury():
            return _bury(job, ending.reason)
        case Retry():
            return _retry(job, ending)
        case _:
            assert_never(ending)


def check_ending(ending: object) -> None:
    if not isinstance(ending, Retry | Release | RateLimited | Bury | None):
        raise ConfigError(
            "expected None, rota.Retry, rota.Release, rota.RateLimited or rota.Bury, "
            f"given {ending!r}"
        )


def _retry(job: Job, ending: Retry) -> Settlement:
    if job.last_attempt:
        return _bury(job, ending.error or "no attempts left")
    delay = backoff_delay(job.backoff, job.attempt) if ending.delay is None else ending.delay
    error = error_text(ending.error) if ending.error else None
    return Settlement(job.id, job.delivery, "retry", milliseconds(delay), error, ran=job.ran())


def _bury(job: Job, reason: str) -> Settlement:
    return replace(burial(job.id, job.delivery, reason, hold=job.on_dead == "hold"), ran=job.ran())
