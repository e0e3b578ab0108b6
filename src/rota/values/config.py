"""Settings and their rules, checked when they are given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rota.values.errors import ConfigError
from rota.values.names import shown
from rota.values.timing import milliseconds, number, seconds

MIN_LEASE_S = 1.0
MAX_LEASE_S = 86_400.0
MAX_CEILING = 1_000_000
MAX_BACKLOG = 1_000_000_000
MIN_WEIGHT, MAX_WEIGHT = 0.01, 100.0
MIN_COST, MAX_COST = 0.001, 1000.0
MAX_CONCURRENCY = 10_000
MAX_CONFIRM_S = 8.0
MIN_TIMEOUT_S, MAX_TIMEOUT_S = 0.1, 30.0
"""A call that is sent again must not outlive its receipt of 60 s."""
MAX_DEAD = 10_000_000
MAX_LISTED = 200
"""Jobs or sequences on a page of theirs."""
MAX_CONSUMERS = 1_000_000
MAX_TOP = 100
"""Lanes that a census names."""
MAX_PREFETCH = 100
MAX_CLAIM = 1000
MAX_ATTEMPTS = 10_000
DEFAULT_PREFIX = "emq"
DEFAULT_MAX_PAYLOAD = 1024 * 1024
MAX_MAX_PAYLOAD = 64 * 1024 * 1024

CONCURRENCY = 100
PREFETCH = 10
LEASE_S = 30.0
BEAT_S = 5.0
MIN_BEAT_S, MAX_BEAT_S = 0.1, 60.0
GRACE_S = 25.0
TIMEOUT_S = 10.0


def whole(value: object, low: int, high: int, name: str) -> int:
    """A plain int from low to high; a bool or anything else is refused."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(
            f"{name}: expected a whole number from {low} to {high}, given {shown(value)}"
        )
    return int(value)


def timeout(value: object) -> float:
    """Of a call to the server, in seconds."""
    return number(seconds(value, "timeout"), MIN_TIMEOUT_S, MAX_TIMEOUT_S, "timeout")


def ceiling(value: object) -> int | None:
    """Most permits a lane may hold; 0 stops it, None removes the setting."""
    return None if value is None else whole(value, 0, MAX_CEILING, "ceiling")


def weight(value: object) -> float | None:
    return None if value is None else number(value, MIN_WEIGHT, MAX_WEIGHT, "weight")


def check_shards(value: object) -> None:
    if type(value) is not int or value != 1:
        raise ConfigError(
            f"shards: expected 1 (several hash slots are yet to come), given {shown(value)}"
        )


def cost(value: object) -> float:
    """What a job's lane is charged for it, in turns."""
    return number(value, MIN_COST, MAX_COST, "cost")


def dead_max(value: object) -> int | None:
    return None if value is None else whole(value, 0, MAX_DEAD, "dead_max")


def dead_age(value: object) -> int | None:
    """In milliseconds."""
    return None if value is None else milliseconds(seconds(value, "dead_age"))


def durable(value: object) -> Durable | None:
    if value is None or isinstance(value, Durable):
        return value
    raise ConfigError(f"durable: expected a rota.Durable or None, given {shown(value)}")


def backlog(value: object) -> int | None:
    return None if value is None else whole(value, 0, MAX_BACKLOG, "backlog")


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """What an enqueue waits for once it has written, at most `timeout` seconds (up to 8). With all
    that is tried before it takes the queue's `timeout` at most, or a second more than this one.

    `fsync`: the server has its append-only file on disk. `replicas`: so many replicas have the
    jobs too, with `fsync` on disk. Raises ConfigError.
    """

    fsync: bool = True
    replicas: int = 0
    timeout: float | timedelta = 5

    def __post_init__(self) -> None:
        if not isinstance(self.fsync, bool):
            raise ConfigError(f"fsync: expected True or False, given {shown(self.fsync)}")
        whole(self.replicas, 0, 100, "replicas")
        if not self.fsync and not self.replicas:
            raise ConfigError("durable: expected fsync=True, or replicas above 0")
        given = seconds(self.timeout, "timeout")
        number(given, 0.001, MAX_CONFIRM_S, "timeout")
        object.__setattr__(self, "timeout", given)

    @property
    def timeout_ms(self) -> int:
        return milliseconds(seconds(self.timeout, "timeout"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """How a worker runs. Times in seconds.

    `concurrency`: slots, shared by its queues. `prefetch`: jobs one sequence's entry may yield.
    `lease`: how long the server waits for a heartbeat before it gives the worker's jobs to
    others. `grace`: how long a stop waits for running jobs.
    """

    concurrency: int = CONCURRENCY
    prefetch: int = PREFETCH
    lease: float = LEASE_S
    grace: float = GRACE_S

    def __post_init__(self) -> None:
        whole(self.concurrency, 1, MAX_CONCURRENCY, "concurrency")
        whole(self.prefetch, 1, MAX_PREFETCH, "prefetch")
        number(self.lease, MIN_LEASE_S, MAX_LEASE_S, "lease")
        number(self.grace, 0, 86_400, "grace")
