"""Every exception rota raises of its own.

    RotaError
    ├── ConfigError (also ValueError)     a setting, name, limit or option outside its rules
    ├── PayloadError (also ValueError)    arguments that do not fit the signature or cannot travel
    ├── UnknownTask                       no task of that name is registered with the queue
    ├── LaneFull                          a lane's backlog limit refused the job
    ├── LaneBroken                        a key of the lane is damaged: the job was not stored
    ├── LeaseLost                         the consumer's lease is gone; its jobs belong to others
    ├── BatchInterrupted                  a chunk of a bulk enqueue failed half-way
    ├── NotDurable                        the write was made, the asked durability was not reached
    └── Unavailable                       the server could not be reached or refused to serve
        ├── QueueBroken                   a key of the whole queue is damaged
        ├── QueueClosed                   the queue is not this program's to write to, or not now
        ├── ServerFull                    the server is out of memory
        └── ServerTooOld                  the server lacks what rota needs

Exceptions a *handler* raises to steer its job (`Retry`, `Release`, …) are signals, not
errors: see `rota.values.signals`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.values.errors import ConfigError, PayloadError, RotaError
from rota.values.jobspec import JobSpec
from rota.values.model import Enqueued

__all__ = [
    "BatchInterrupted",
    "ConfigError",
    "LaneBroken",
    "LaneFull",
    "LeaseLost",
    "NotDurable",
    "PayloadError",
    "QueueBroken",
    "QueueClosed",
    "RotaError",
    "ServerFull",
    "ServerTooOld",
    "Unavailable",
    "UnknownTask",
]


class UnknownTask(RotaError, LookupError):
    """No task of that name is registered with the queue."""


class _Refused(RotaError):
    def __init__(self, lane: str, outcomes: Sequence[Enqueued] = ()) -> None:
        super().__init__(lane, outcomes)
        self.lane = lane
        self.outcomes = list(outcomes)


class LaneFull(_Refused):
    """The lane's backlog limit refused a job; nothing of that was stored.

    Of a bulk enqueue with `on_full="raise"`, `outcomes` are those of the jobs sent so far, in
    input order: the ones `created` are stored. Else they are empty: one job, or a batch of which
    nothing is stored.
    """

    def __str__(self) -> str:
        return f"lane {self.lane!r} is full: its backlog limit is reached"


class LaneBroken(_Refused):
    """A key of the lane, or of the job's sequence, is damaged; nothing of the job was stored.

    Other lanes' jobs are none the worse. Of a bulk enqueue, `outcomes` are those of all its jobs,
    in input order: all but the ones `lane_broken` and `lane_full` are stored. Once the lane is
    mended, enqueueing the same specs again adds what is missing. Else they are empty: one job, or a
    batch of which nothing is stored.
    """

    def __str__(self) -> str:
        return (
            f"lane {self.lane!r} is broken: a key of it, or of the job's sequence, has a wrong "
            "type, and the job was not stored. `rota doctor QUEUE` names the key: move it away, "
            "then `rota doctor QUEUE --repair` puts back what was in it"
        )


class LeaseLost(RotaError):
    """The consumer's lease is gone: its jobs were, or will be, given to others."""


class BatchInterrupted(RotaError):
    """A bulk enqueue stopped half-way.

    `outcomes` are those of the jobs known to be stored or refused, in input order; `unsure`
    are the specs whose fate the client could not learn: none where the server refused the call, as
    with ServerFull. Specs that are neither were not stored. Enqueueing the same spec objects
    again adds only what is missing.
    """

    def __init__(self, outcomes: Sequence[Enqueued], unsure: Sequence[JobSpec], cause: str) -> None:
        super().__init__(outcomes, unsure, cause)
        self.outcomes = list(outcomes)
        self.unsure = list(unsure)
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"bulk enqueue interrupted after {len(self.outcomes)} jobs, "
            f"{len(self.unsure)} unsure: {self.cause}"
        )


class NotDurable(RotaError):
    """The jobs were written, but the durability asked for was not confirmed in time.

    They exist, with these `outcomes`, and will run; a server that fails now may lose them.
    """

    def __init__(self, message: str, outcomes: Sequence[Enqueued] = ()) -> None:
        super().__init__(message, outcomes)
        self.message = message
        self.outcomes = list(outcomes)

    def __str__(self) -> str:
        return self.message


class Unavailable(RotaError):
    """The server could not be reached, or refused to serve; the message names it."""


class QueueBroken(Unavailable):
    """A key of the whole queue has a wrong type, and the call needs it: nothing was written.

    Lua has no rollback, so every script looks first. Workers try again by themselves.
    """

    def __init__(self, key: str, type: str, expected: str) -> None:
        super().__init__(key, type, expected)
        self.key = key
        self.type = type
        self.expected = expected

    def __str__(self) -> str:
        return (
            f"key {self.key} is a {self.type} and should be a {self.expected}: the queue is "
            "broken, nothing was written. Move it away, then `rota doctor QUEUE --repair` puts "
            "back what the other keys tell of it"
        )


class QueueClosed(Unavailable):
    """The queue is not this program's to write to, or not now, and the message says why: it needs
    a newer rota, it is sealed while it moves, or it is a part of one over several hash slots, for
    which the program does not take it. Nothing was written.
    """


class ServerFull(Unavailable):
    """The server is out of memory and refused the write; nothing was written."""


class ServerTooOld(Unavailable):
    """The server is older than Valkey 7.2 or Redis 7.0."""
