"""The values that travel between the parts: what a job is before, while and after it runs."""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from rota import config, names
from rota.errors import ConfigError, PayloadError
from rota.limits import Rate
from rota.names import shown
from rota.timing import MAX_DELAY_S, Backoff, BackoffRule, instant

Outcome = Literal["created", "duplicate", "lane_full"]
Answer = Literal["ok", "settled", "lost"]
DeadAnswer = Literal["ok", "none", "unreadable"]
CancelAnswer = Literal["cancelled", "asked", "dead", "none"]
OnDead = Literal["skip", "hold"]
Charge = Literal["cost", "time"]
JobState = Literal["waiting", "delayed", "running", "dead"]
LaneOrder = Literal["waiting", "oldest_wait", "running", "served"]

DEFAULT_LANE = "default"
DEFAULT_MAX_ATTEMPTS = 5
DEFAULT_BACKOFF = Backoff()
PREFIX_WIDTH = 46
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
MAX_DELAY_MS = MAX_DELAY_S * 1000
LAST_INSTANT_MS = instant(datetime(2200, 1, 1, tzinfo=UTC), "the last instant")


class Header(msgspec.Struct, omit_defaults=True, frozen=True):
    """The one-line JSON in front of a job's payload: all that a worker must know of it."""

    task: str
    lane: str
    key: str | None = None
    priority: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    timeout: float | None = None
    on_dead: str = "skip"
    expires_in: int | None = None
    expires_at: int | None = None
    cost: float = 1
    charge: str = "cost"
    trace: str | None = None


encode_header = msgspec.json.Encoder().encode
decode_header = msgspec.json.Decoder(Header).decode


def time_limit(value: object) -> float:
    """How long a job may run, in seconds, above 0."""
    limit = config.number(value, 0, MAX_DELAY_S, "timeout")
    if limit > 0:
        return limit
    raise ConfigError(f"timeout: expected more than 0 s, given {shown(value)}")


def check_charge(value: object) -> None:
    if value not in ("cost", "time"):
        raise ConfigError(f"charge: expected 'cost' or 'time', given {shown(value)}")


def check_trace(value: object) -> None:
    if not isinstance(value, str) or _TRACEPARENT.fullmatch(value) is None:
        raise ConfigError(
            "trace: expected a W3C traceparent (00-<32 hex>-<16 hex>-<2 hex>), "
            f"given {shown(value)}"
        )


def new_id() -> str:
    """A fresh job id: 11 hex digits of milliseconds, so that ids sort by time, 60 random bits."""
    millis = time.time_ns() // 1_000_000
    return f"{millis:011x}{int.from_bytes(os.urandom(8)) >> 4:015x}"


def new_nonce() -> str:
    """A name nobody else uses: for a consumer, or one enqueue call."""
    return os.urandom(12).hex()


def process_name() -> str:
    """Host and process, as people look for them."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job to be enqueued; it needs no registered function.

    `payload` is the JSON of the arguments (an object: keywords, an array: positional). The id is
    made with the spec, so enqueueing the same spec again stores nothing while its job exists.
    Its times are milliseconds, as their names say (`task.options` takes seconds): `delay_ms` from
    the server's now, `at_ms` since 1970. A job not started `expires_in_ms` after it was enqueued,
    or by the instant `expires_at_ms`, goes to the dead unrun. `cost`, 0.001 … 1000: what its lane
    is charged for it, in turns; with `charge="time"` the seconds it ran instead. `trace`: the W3C
    traceparent its run is linked to. Every field is checked here: ConfigError, PayloadError.
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
    id: str = field(default_factory=new_id)
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
        if self.charge != "cost":
            check_charge(self.charge)
        if self.trace is not None:
            check_trace(self.trace)
        if self.on_dead != "skip" and self.on_dead != "hold":
            raise ConfigError(f"on_dead: expected 'skip' or 'hold', given {shown(self.on_dead)}")

    def _set(self, name: str, given: object, checked: object) -> None:
        """Only plain str, int and float travel; a subclass's value is read by the rules."""
        if given is not checked:
            object.__setattr__(self, name, checked)

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

    @property
    def body(self) -> bytes:
        """What follows the prefix in the record: header line and payload."""
        header = Header(
            self.task,
            self.lane,
            self.ordering_key,
            self.priority,
            self.max_attempts,
            self.timeout,
            self.on_dead,
            self.expires_in_ms,
            self.expires_at_ms,
            self.cost,
            self.charge,
            self.trace,
        )
        return encode_header(header) + b"\n" + self.payload


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The outcome of one job: `created`, `duplicate` (its id is taken) or `lane_full`."""

    id: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job in a consumer's hands, as the server gave it; `record` is None where it is missing."""

    id: str
    record: bytes | None
    attempts: int
    suspect: bool


@dataclass(slots=True, eq=False)
class Job:
    """A claimed job. `args` and `kwargs` are set where the task is known, `payload` always.

    `cancelled` becomes true, while it is held, some seconds after someone asked to cancel it.
    """

    id: str
    task: str
    lane: str
    ordering_key: str | None
    priority: int
    attempt: int
    max_attempts: int
    timeout: float | None
    on_dead: str
    charge: str
    expires: int | None
    enqueued_at: float
    payload: bytes
    delivery: str
    suspect: bool
    place: int
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    state: Any = None
    backoff: BackoffRule = DEFAULT_BACKOFF
    cancelled: bool = False
    began: float = 0.0
    took: float | None = None
    trace: str | None = None

    def begin(self) -> None:
        """Its time runs from now, where that is what it is charged."""
        if self.charge == "time":
            self.began, self.took = time.monotonic(), None

    def ran(self) -> float | None:
        """For how many seconds it has run, where it is charged for them; asked once, it stands."""
        if self.took is None and self.charge == "time":
            self.took = time.monotonic() - self.began
        return self.took

    @property
    def last_attempt(self) -> bool:
        return self.attempt >= self.max_attempts

    @property
    def sequence(self) -> tuple[str, str] | None:
        """Lane and ordering key of its sequence; an ordered lane is one with the empty key."""
        if names.is_ordered_lane(self.lane):
            return self.lane, ""
        return None if self.ordering_key is None else (self.lane, self.ordering_key)


@dataclass(frozen=True, slots=True)
class Record:
    """A record, read: header, score, time of enqueueing (Unix seconds), payload."""

    header: Header
    place: int
    enqueued_at: float
    payload: bytes


def parse_record(record: bytes) -> Record:
    """Raises PayloadError where the record is cut or its header is not one."""
    newline = record.find(b"\n", PREFIX_WIDTH)
    if newline < 0 or record[PREFIX_WIDTH - 1 : PREFIX_WIDTH] != b"\n":
        raise PayloadError("the record is cut: it has no header line")
    try:
        header = decode_header(record[PREFIX_WIDTH:newline])
        place, enqueued = int(record[:17]), int(record[32:45]) / 1000
    except (msgspec.DecodeError, ValueError) as error:
        raise PayloadError(f"the record's header cannot be read: {error}") from None
    return Record(header, place, enqueued, record[newline + 1 :])


def read_note(text: bytes) -> dict[str, Any]:
    """What was kept with a failed job: `error`, `worker`. Damage to it must not hide the job."""
    try:
        note = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {"error": text.decode("utf-8", "replace")}
    return note if isinstance(note, dict) else {}


def _expiry(header: Header, enqueued: float) -> int | None:
    ends = [header.expires_at] if header.expires_at is not None else []
    if header.expires_in is not None:
        ends.append(round(enqueued * 1000) + header.expires_in)
    return min(ends, default=None)


def job_from(claimed: Claimed, delivery: str) -> Job:
    """The job of a claimed record; raises PayloadError where it cannot be read."""
    if claimed.record is None:
        raise PayloadError("the record is missing")
    record = parse_record(claimed.record)
    header = record.header
    return Job(
        id=claimed.id,
        task=header.task,
        lane=header.lane,
        ordering_key=header.key,
        priority=header.priority,
        attempt=claimed.attempts + 1,
        max_attempts=header.max_attempts,
        timeout=header.timeout,
        on_dead=header.on_dead,
        charge=header.charge,
        expires=_expiry(header, record.enqueued_at),
        enqueued_at=record.enqueued_at,
        payload=record.payload,
        delivery=delivery,
        suspect=claimed.suspect,
        place=record.place,
        trace=header.trace,
    )


Action = Literal["complete", "retry", "release", "bury", "block_lane", "block_sequence", "cancel"]


@dataclass(frozen=True, slots=True)
class Settlement:
    """How one delivery ends. `delay` in milliseconds; `error` is JSON kept with the job.

    `unstarted`: a job released without having been run; its lane's rate gets it back. `ran`: for
    how many seconds, told of jobs that are charged by time.
    """

    id: str
    delivery: str
    action: Action = "complete"
    delay: int = 0
    error: str | None = None
    hold: bool = False
    unstarted: bool = False
    ran: float | None = None


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The answer to an exchange.

    `entries` are in turn order, each the jobs of one entry. `due` is seconds until the next
    thing falls due, told when slots stayed free; None when nothing will. `left`: work stands
    in the ring after the call.
    """

    status: Literal["ok", "lost", "stale"]
    now: int
    due: float | None
    left: bool
    answers: list[Answer]
    entries: list[list[Claimed]]


@dataclass(frozen=True, slots=True)
class LaneInfo:
    """A lane as it stands: its counts, its limits as they hold (its own, else its template's, else
    the queue's), its figures.

    `oldest_wait`: seconds since the first of what waits was first available, of the next entry and
    the sequences that are out; `next_wait`: the same of the next entry alone. None: there is none.
    `served`: jobs handed out in the last `window` seconds (the running minute and the one before),
    a job handed out again counts again; `wait_mean`: how long these had waited since they were
    first available, in seconds; `charged`: what they cost, in turns. Instants are Unix seconds,
    None where there is no end.
    """

    name: str
    waiting: int
    delayed: int
    running: int
    ceiling: int | None
    weight: float
    paused: bool
    blocked_until: float | None
    in_ring: bool
    oldest_wait: float | None
    backlog: int | None = None
    pause_reason: str | None = None
    paused_by: str | None = None
    paused_until: float | None = None
    rate: Rate | None = None
    template: str | None = None
    rated_until: float | None = None
    next_wait: float | None = None
    served: int = 0
    wait_mean: float | None = None
    charged: float = 0.0
    window: float = 0.0

    def rank(self, by: LaneOrder) -> float:
        """Where it stands among lanes that are ordered by a figure, the highest first."""
        figure: float | None = getattr(self, by)
        return -1.0 if figure is None else float(figure)

    @property
    def state(self) -> str:
        """For people: paused, stopped, blocked, out of rate, ready, at ceiling, held, running or
        idle."""
        if self.paused:
            return "paused"
        if self.ceiling == 0:
            return "stopped"
        if self.blocked_until is not None:
            return "blocked"
        if self.rated_until is not None:
            return "out of rate"
        if self.in_ring:
            return "ready"
        if self.ceiling is not None and self.running >= self.ceiling and self.waiting:
            return "at ceiling"
        return "held" if self.waiting else "running" if self.running else "idle"


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """Totals of a queue. `permits`: entries in flight, of which a sequence's is one. `totals`
    counts since the queue began: enqueued, completed, retried, …; `paused_until` in Unix seconds.
    """

    waiting: int
    running: int
    permits: int
    delayed: int
    dead: int
    lanes_waiting: int
    lanes_ready: int
    lanes_paused: int
    consumers: int
    default_ceiling: int | None
    default_weight: float | None
    ceiling: int | None
    paused: bool
    pause_reason: str | None
    paused_by: str | None
    paused_until: float | None
    totals: dict[str, int]


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job as it stands. `due`, in Unix seconds: when a delayed job falls due, a dead one died.
    `worker` (host:pid): who has a job in flight, as far as a list of such jobs tells it."""

    id: str
    state: JobState
    task: str
    lane: str
    ordering_key: str | None
    priority: int
    enqueued_at: float
    payload: bytes
    attempts: int
    deaths: int
    error: str | None
    due: float | None
    worker: str | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What cancelling a lane did: jobs deleted, and jobs in flight that were asked to stop."""

    removed: int
    asked: int


@dataclass(frozen=True, slots=True)
class Moved:
    """What moving a lane's jobs did: how many went, how many wait or are delayed there still."""

    moved: int
    left: int


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A job that gave up. `error` is its last one, `worker` who had it; times in Unix seconds."""

    id: str
    died_at: float
    task: str
    lane: str
    ordering_key: str | None
    priority: int
    enqueued_at: float
    attempts: int
    deaths: int
    error: str
    worker: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """A consumer with a lease. `lease_left` in seconds; 0 when it has ended. `asked`: `quiet` or
    `stop`, where someone has asked that of its process."""

    id: str
    name: str
    lease_left: float
    held: int
    asked: str | None = None
