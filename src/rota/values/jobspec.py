"""A job as it is handed in: its specification, and the header in front of its payload."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec.structs import force_setattr

from rota.values import config, names
from rota.values.errors import ConfigError, PayloadError
from rota.values.ids import new_id
from rota.values.names import shown
from rota.values.timing import MAX_DELAY_S, instant, number

OnDead = Literal["skip", "hold"]
Charge = Literal["cost", "time"]

DEFAULT_LANE = "default"
DEFAULT_MAX_ATTEMPTS = 5
MAX_DELAY_MS = MAX_DELAY_S * 1000
LAST_INSTANT_MS = instant(datetime(2200, 1, 1, tzinfo=UTC), "the last instant")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


RECORD_VERSION = 1
"""The newest version of records that this code reads. A record names one where it is not 1, and
only where it has something that a reader must not skip; a field it may skip needs none."""


class Outline(msgspec.Struct, omit_defaults=True, frozen=True):
    """What the header of a record says in every version. The order of its fields is part of the
    format: see script/lua/lib/job/record.lua."""

    task: str
    lane: str
    key: str | None = None
    priority: int = 0
    v: int = 1


class Header(Outline, omit_defaults=True, frozen=True):
    """The one-line JSON in front of a job's payload: all that a worker must know of it."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    timeout: float | None = None
    on_dead: str = "skip"
    expires_in: int | None = None
    expires_at: int | None = None
    cost: float = 1
    charge: str = "cost"
    trace: str | None = None


encode_header = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_outline = msgspec.json.Decoder(Outline).decode


def decode_header(line: bytes) -> Header:
    """Raises DecodeError. Of a newer version's that cannot be read the outline, all else unset."""
    try:
        return _decode_header(line)
    except msgspec.ValidationError:
        outline = _decode_outline(line)
        if outline.v <= RECORD_VERSION:
            raise
        return Header(**msgspec.structs.asdict(outline))


def time_limit(value: object) -> float:
    """How long a job may run, in seconds, above 0."""
    limit = number(value, 0, MAX_DELAY_S, "timeout")
    if limit > 0:
        return limit
    raise ConfigError(f"timeout: expected more than 0 s, given {shown(value)}")


def check_charge(value: object) -> None:
    if value not in ("cost", "time"):
        raise ConfigError(f"charge: expected 'cost' or 'time', given {shown(value)}")


def check_on_dead(value: object) -> None:
    if value not in ("skip", "hold"):
        raise ConfigError(f"on_dead: expected 'skip' or 'hold', given {shown(value)}")


def check_trace(value: object) -> None:
    if not isinstance(value, str) or _TRACEPARENT.fullmatch(value) is None:
        raise ConfigError(
            "trace: expected a W3C traceparent (00-<32 hex>-<16 hex>-<2 hex>), "
            f"given {shown(value)}"
        )


def _as_plain(value: object) -> object:
    return str.__str__(value) if isinstance(value, str) else value


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job to be enqueued; it needs no registered function.

    `payload` is the JSON of the arguments (an object: keywords, an array: positional). The id is
    made with the spec, so enqueueing the same spec again stores nothing while its job exists. Ids
    are unique within a lane; what one taken in another lane answers is not specified. Its times are
    milliseconds, as their names say (`task.options` takes seconds): `delay_ms` from the server's
    now, `at_ms` since 1970. A job not started `expires_in_ms` after it was enqueued, or by the
    instant `expires_at_ms`, goes to the dead unrun. `cost`, 0.001 … 1000: what its lane is charged
    for it, in turns; with `charge="time"` the seconds it ran instead. `trace`: the W3C traceparent
    its run is linked to. Every field is checked here: ConfigError, PayloadError. A spec does not
    change; `msgspec.structs.replace` (from Python 3.13 on also `copy.replace`) makes a changed
    copy, checked as well.
    """

    task: str
    payload: bytes = b"{}"
    lane: str = DEFAULT_LANE
    ordering_key: str | None = None
    priority: int = 0
    delay_ms: int = 0
    at_ms: int | None = None
    expires_in_ms: int | None = None
    expires_at_ms: int | None = None
    id: str = msgspec.field(default_factory=new_id)
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    timeout: float | None = None
    on_dead: OnDead = "skip"
    cost: float = 1
    charge: Charge = "cost"
    trace: str | None = None

    def __post_init__(self) -> None:
        self._set("task", self.task, names.task_name(self.task))
        self._set("lane", self.lane, names.lane_name(self.lane))
        if self.ordering_key is not None:
            key = names.ordering_key(self.ordering_key, self.lane)
            self._set("ordering_key", self.ordering_key, key)
        self._set("priority", self.priority, names.priority(self.priority))
        self._set("id", self.id, names.job_id(self.id))
        if not isinstance(self.payload, bytes):
            raise PayloadError(f"payload: expected bytes, given a {type(self.payload).__name__}")
        timed = (
            self.at_ms is not None
            or self.expires_in_ms is not None
            or self.expires_at_ms is not None
        )
        if timed or self.delay_ms or type(self.delay_ms) is not int:
            self._check_times()
        attempts = config.whole(self.max_attempts, 1, config.MAX_ATTEMPTS, "max_attempts")
        self._set("max_attempts", self.max_attempts, attempts)
        if self.timeout is not None:
            self._set("timeout", self.timeout, time_limit(self.timeout))
        if type(self.cost) is not int or self.cost != 1:
            self._set("cost", self.cost, config.cost(self.cost))
        self._set("on_dead", self.on_dead, _as_plain(self.on_dead))
        self._set("charge", self.charge, _as_plain(self.charge))
        if self.charge != "cost":
            check_charge(self.charge)
        if self.trace is not None:
            check_trace(self.trace)
            self._set("trace", self.trace, _as_plain(self.trace))
        check_on_dead(self.on_dead)

    def _set(self, name: str, given: object, checked: object) -> None:
        """Only plain str, int and float travel; a subclass's value is read by the rules."""
        if given is not checked:
            force_setattr(self, name, checked)

    def _check_times(self) -> None:
        self._set(
            "delay_ms", self.delay_ms, config.whole(self.delay_ms, 0, MAX_DELAY_MS, "delay_ms")
        )
        for name in ("at_ms", "expires_at_ms"):
            given = getattr(self, name)
            if given is not None:
                self._set(name, given, config.whole(given, 0, LAST_INSTANT_MS, name))
        if self.delay_ms and self.at_ms is not None:
            raise ConfigError("expected delay or at, given both")
        if self.expires_in_ms is not None:
            ends = config.whole(self.expires_in_ms, 1, MAX_DELAY_MS, "expires_in_ms")
            self._set("expires_in_ms", self.expires_in_ms, ends)
            if ends <= self.delay_ms:
                raise ConfigError(
                    f"expires: expected later than the delay of {self.delay_ms} ms, "
                    f"given {ends} ms after enqueueing"
                )
        if (
            self.expires_at_ms is not None
            and self.at_ms is not None
            and self.expires_at_ms <= self.at_ms
        ):
            raise ConfigError(
                f"expires: expected an instant after `at` ({self.at_ms}), "
                f"given {self.expires_at_ms}"
            )

    def with_call(
        self, payload: bytes, lane: str, ordering_key: str | None, id: str | None
    ) -> JobSpec:
        """The job of another call: what else it says was checked when this one was made."""
        spec = _copy(self)
        force_setattr(spec, "payload", payload)
        force_setattr(spec, "lane", names.lane_name(lane))
        if ordering_key is not None:
            force_setattr(spec, "ordering_key", names.ordering_key(ordering_key, lane))
        force_setattr(spec, "id", new_id() if id is None else names.job_id(id))
        return spec

    @property
    def body(self) -> bytes:
        """What follows the prefix in the record: header line, a line that is empty, payload."""
        header = Header(
            self.task,
            self.lane,
            self.ordering_key,
            self.priority,
            1,
            self.max_attempts,
            self.timeout,
            self.on_dead,
            self.expires_in_ms,
            self.expires_at_ms,
            self.cost,
            self.charge,
            self.trace,
        )
        return encode_header(header) + b"\n\n" + self.payload


# What `copy.copy` would look up for every job; it runs no checks. The stubs do not know it.
_copy: Callable[[JobSpec], JobSpec] = JobSpec.__copy__  # type: ignore[attr-defined]


def check_size(payload: bytes, most: int) -> None:
    if len(payload) > most:
        raise PayloadError(
            f"payload: expected at most {most} bytes (max_payload), given {len(payload)}"
        )
