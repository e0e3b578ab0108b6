"""Tasks: functions that handle jobs, and the typed ways to enqueue them."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

from rota.errors import ConfigError
from rota.link import Producer
from rota.payload.codec import Codec
from rota.values import config, names
from rota.values.config import Durable
from rota.values.guide import OF_TASKS, Guide
from rota.values.jobspec import (
    DEFAULT_LANE,
    DEFAULT_MAX_ATTEMPTS,
    Charge,
    JobSpec,
    OnDead,
    check_charge,
    check_on_dead,
    time_limit,
)
from rota.values.model import Enqueued
from rota.values.timing import Backoff, BackoffRule, check_backoff, instant, milliseconds, seconds

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """How a task's jobs are run and where they go. `timeout` in seconds, None unbounded.

    `lane_from`, `ordering_key_from` and `id_from` name parameters whose value, as text, is the
    job's lane, ordering key or id.
    """

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    timeout: float | timedelta | None = None
    backoff: BackoffRule = field(default_factory=Backoff)
    on_dead: OnDead = "skip"
    cost: float = 1
    charge: Charge = "cost"
    lane_from: str | None = None
    ordering_key_from: str | None = None
    id_from: str | None = None

    def __post_init__(self) -> None:
        config.whole(self.max_attempts, 1, config.MAX_ATTEMPTS, "max_attempts")
        check_backoff(self.backoff)
        config.cost(self.cost)
        check_charge(self.charge)
        check_on_dead(self.on_dead)
        if self.timeout is not None:
            limit = time_limit(seconds(self.timeout, "timeout"))
            object.__setattr__(self, "timeout", limit)


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one enqueueing says of its job; what is None comes from the task."""

    lane: str | None = None
    ordering_key: str | None = None
    priority: int = 0
    delay: int = 0
    at: int | None = None
    expires_in: int | None = None
    expires_at: int | None = None
    id: str | None = None
    cost: float | None = None


class Enqueuer(Guide, Generic[P]):
    """Enqueues jobs of one task with given options, typed like its function."""

    _called_here = OF_TASKS

    def __init__(
        self,
        *,
        name: str,
        codec: Codec,
        policy: TaskPolicy,
        producer: Producer,
        options: JobOptions,
        durable: Durable | None = None,
    ) -> None:
        self.name = name
        self.codec = codec
        self.policy = policy
        self._producer = producer
        self._options = options
        self._durable = durable
        self._pattern: JobSpec | None = None

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """The job these arguments make, with its id.

        Raises PayloadError for arguments that do not fit the signature or cannot travel, and
        ConfigError for a lane, key or id outside the rules.
        """
        payload = self.codec.encode(args, kwargs)
        self._producer.check_size(payload)
        given, policy = self._options, self.policy
        if given.expires_in is not None or given.expires_at is not None:
            _check_expiry(given)
        lane, key, id = given.lane, given.ordering_key, given.id
        if lane is None and policy.lane_from is not None:
            lane = self._named(args, kwargs, policy.lane_from, "lane_from")
        if lane is None:
            lane = DEFAULT_LANE
        self._producer.check_lane(self.name, lane)
        if key is None and policy.ordering_key_from is not None:
            key = self._named(args, kwargs, policy.ordering_key_from, "ordering_key_from")
        if id is None and policy.id_from is not None:
            id = self._named(args, kwargs, policy.id_from, "id_from")
        if self._pattern is None:
            self._pattern = self._make_pattern()
        return self._pattern.with_call(payload, lane, key, id)

    def _make_pattern(self) -> JobSpec:
        """What all jobs of this enqueuer have in common."""
        given, policy = self._options, self.policy
        return JobSpec(
            task=self.name,
            priority=given.priority,
            delay_ms=given.delay,
            at_ms=given.at,
            expires_in_ms=given.expires_in,
            expires_at_ms=given.expires_at,
            max_attempts=policy.max_attempts,
            timeout=None if policy.timeout is None else seconds(policy.timeout, "timeout"),
            on_dead=policy.on_dead,
            cost=policy.cost if given.cost is None else given.cost,
            charge=policy.charge,
        )

    def _named(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], parameter: str, option: str
    ) -> str:
        value = self.codec.argument(args, kwargs, parameter)
        return names.as_name(value, f"{option}={parameter!r}")

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Stores one job and says whether it is new.

        Calls of one event loop made while another is in flight travel together in the next; those
        that wait to be durable travel alone.
        Raises PayloadError, ConfigError, LaneFull or LaneBroken before anything is stored,
        Unavailable when the server cannot be reached: then the job may exist, and the same id may
        be sent again.
        """
        return await self._producer.send(self.spec(*args, **kwargs), self._durable)

    @property
    def sync(self) -> SyncEnqueuer[P]:
        """The same, for code without an event loop."""
        return SyncEnqueuer(self)


class SyncEnqueuer(Guide, Generic[P]):
    """The blocking twin of an enqueuer."""

    _called_here = OF_TASKS

    def __init__(self, twin: Enqueuer[P]) -> None:
        self._twin = twin

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """The job these arguments make, with its id."""
        return self._twin.spec(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Stores one job and says whether it is new. Raises as `Enqueuer.enqueue` does."""
        twin = self._twin
        return twin._producer.send_blocking(twin.spec(*args, **kwargs), twin._durable)


class Task(Enqueuer[P], Generic[P, R]):
    """A function registered with a queue. Calling it just runs the function.

    It has the function's name, module, docstring and signature, and is pickled as functions are:
    by that name in that module.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self, function: Callable[P, R], *, name: str, policy: TaskPolicy, producer: Producer
    ) -> None:
        codec = Codec(function)
        codec.check_from(policy.lane_from, "lane_from")
        codec.check_from(policy.ordering_key_from, "ordering_key_from")
        codec.check_from(policy.id_from, "id_from")
        super().__init__(
            name=name, codec=codec, policy=policy, producer=producer, options=JobOptions()
        )
        self.__name__ = self.__qualname__ = name
        # Without the function's own attributes: one named like a verb would hide the verb.
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<rota task {self.name}>"

    def __reduce__(self) -> str:
        return self.__qualname__

    def options(
        self,
        *,
        lane: str | None = None,
        ordering_key: str | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        at: datetime | float | None = None,
        expires: float | timedelta | datetime | None = None,
        id: str | None = None,
        cost: float | None = None,
        durable: Durable | None = None,
    ) -> Enqueuer[P]:
        """The task with options for the jobs enqueued through it.

        `priority`: −1000 … 1000, higher first. `delay` (seconds, `timedelta`) or `at` (aware
        `datetime`, Unix seconds): not before. `expires` (seconds from enqueueing, or an instant): a
        job not started by then goes to the dead unrun. `id`, unique within the lane, deduplicates
        while its job exists, dead ones included; `ordering_key` orders within the lane. `cost`,
        0.001 … 1000: what the lane is charged for the job, in turns. `durable`: what to wait for
        before `enqueue` returns. Raises ConfigError.
        """
        if delay is not None and at is not None:
            raise ConfigError("expected delay or at, given both")
        lane = None if lane is None else names.lane_name(lane)
        if ordering_key is not None:
            ordering_key = names.ordering_key(ordering_key, lane or DEFAULT_LANE)
        options = JobOptions(
            lane=lane,
            ordering_key=ordering_key,
            priority=names.priority(priority),
            delay=0 if delay is None else milliseconds(seconds(delay, "delay")),
            at=None if at is None else instant(at, "at"),
            id=None if id is None else names.job_id(id),
            cost=None if cost is None else config.cost(cost),
            **_expiry(expires),
        )
        return Enqueuer(
            name=self.name,
            codec=self.codec,
            policy=self.policy,
            producer=self._producer,
            options=options,
            durable=config.durable(durable),
        )


def _expiry(expires: float | timedelta | datetime | None) -> dict[str, int]:
    if expires is None:
        return {}
    if isinstance(expires, datetime):
        return {"expires_at": instant(expires, "expires")}
    return {"expires_in": milliseconds(seconds(expires, "expires"))}


def _check_expiry(options: JobOptions) -> None:
    """A job that could never start is refused; by this machine's clock, which is near enough."""
    now = round(time.time() * 1000)
    starts = now + options.delay if options.at is None else max(now, options.at)
    ends = options.expires_at
    if options.expires_in is not None:
        ends = now + options.expires_in
    if ends is not None and ends <= starts:
        raise ConfigError(
            "expires: expected an instant after the one from which the job may start, "
            f"given one {(starts - ends) / 1000:g} s before it"
        )


AnyTask = Task[Any, Any]
