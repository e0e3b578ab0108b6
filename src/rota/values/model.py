"""The values that travel between the parts: what a job is before, while and after it runs."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from rota.values import names
from rota.values.errors import PayloadError
from rota.values.jobspec import RECORD_VERSION, Header, decode_header
from rota.values.limits import Rate
from rota.values.misfit import misfit
from rota.values.timing import Backoff, BackoffRule

Outcome = Literal["created", "duplicate", "lane_full", "lane_broken"]
OnFull = Literal["outcome", "raise", "wait"]
"""What is done about jobs that their lane has no room for."""
Answer = Literal["ok", "settled", "lost", "slowed"]
"""`slowed`: ok, and a job that its handler releases over and over stays away from now on."""
DeadAnswer = Literal["ok", "none", "unreadable"]
CancelAnswer = Literal["cancelled", "asked", "dead", "none"]
JobState = Literal["waiting", "delayed", "running", "dead"]
Instruction = Literal["quiet", "stop"]
"""What the process of a consumer may be asked."""
LaneSort = Literal["waiting", "oldest_wait", "running", "served"]
LaneState = Literal[
    "ready",
    "running",
    "at ceiling",
    "out of rate",
    "blocked",
    "held",
    "paused",
    "stopped",
    "idle",
]

DEFAULT_BACKOFF = Backoff()
PREFIX_WIDTH = 46
"""Of a record: see script/lua/lib/job/record.lua."""


def process_name() -> str:
    """Host and process, as people look for them."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one job: `created`, `duplicate` (its id is taken in its lane; where it is
    another lane's job that has it, either), `lane_full`, or `lane_broken` (see LaneBroken).

    `holder`: what the job does that has a duplicate's id; None where its record cannot be read. One
    that is dead keeps the id until someone replays or discards it.
    """

    id: str
    outcome: Outcome
    holder: JobState | None = None


class Claimed(msgspec.Struct, frozen=True):
    """A job in a consumer's hands, as the server gave it; `record` is None where it is missing."""

    id: str
    record: bytes | None
    attempts: int
    suspect: bool


class Job(msgspec.Struct, eq=False):
    """A claimed job. `args` and `kwargs` are set where the task is known, `payload` always.

    `cancelled` becomes true, while it is held, some seconds after someone asked to cancel it.
    Compared and hashed by identity.
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
    trace: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = msgspec.field(default_factory=dict)
    state: Any = None
    backoff: BackoffRule = DEFAULT_BACKOFF
    cancelled: bool = False
    began: float = 0.0
    took: float | None = None

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


class Record(msgspec.Struct, frozen=True):
    """A record, read: header, score, time of enqueueing (Unix seconds), payload."""

    header: Header
    place: int
    enqueued_at: float
    payload: bytes


def parse_record(record: bytes) -> Record:
    """Raises PayloadError where the record is cut or its header is not one."""
    parts = record.split(b"\n", 3)
    if len(parts) < 4 or len(parts[0]) != PREFIX_WIDTH - 1:
        raise PayloadError("the record is cut: it has no payload")
    prefix, head, _, payload = parts
    try:
        header = decode_header(head)
        place, enqueued = int(prefix[:17]), int(prefix[32:]) / 1000
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise PayloadError(f"the record's header cannot be read: {misfit(error)}") from None
    return Record(header, place, enqueued, payload)


def read_note(text: bytes) -> dict[str, Any]:
    """What was kept with a failed job: `error`, `worker`; with what is paused or blocked: `reason`,
    `by`, and `at` (Unix ms), a number. Damage to it must not hide the job."""
    try:
        note = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {"error": names.text_of(text)}
    if not isinstance(note, dict):
        return {}
    said = {name: str(value) for name, value in note.items() if value is not None and name != "at"}
    at = note.get("at")
    return said | {"at": at} if isinstance(at, int | float) else said


def _expiry(header: Header, enqueued: float) -> int | None:
    if header.expires_in is None:
        return header.expires_at
    ends = round(enqueued * 1000) + header.expires_in
    return ends if header.expires_at is None else min(ends, header.expires_at)


class NewerRecord(Exception):
    """The record of `job` is of a version that this code does not know. What the job says beyond
    its task, lane, ordering key and priority may be wrong."""

    def __init__(self, job: Job, version: int) -> None:
        super().__init__(
            f"its record is of version {version}, and {RECORD_VERSION} is the newest known here: "
            "a newer rota has to run it"
        )
        self.job = job


def job_from(claimed: Claimed, delivery: str) -> Job:
    """The job of a claimed record; raises PayloadError where it cannot be read, NewerRecord."""
    if claimed.record is None:
        raise PayloadError("the record is missing")
    record = parse_record(claimed.record)
    header, enqueued_at = record.header, record.enqueued_at
    # By position: named, the fields cost five times as much, and this is done for every job.
    job = Job(
        claimed.id,
        header.task,
        header.lane,
        header.key,
        header.priority,
        claimed.attempts + 1,
        header.max_attempts,
        header.timeout,
        header.on_dead,
        header.charge,
        _expiry(header, enqueued_at),
        enqueued_at,
        record.payload,
        delivery,
        claimed.suspect,
        record.place,
        header.trace,
    )
    if header.v > RECORD_VERSION:
        raise NewerRecord(job, header.v)
    return job


UNPACED = -1
"""The server spaces out such releases of a job: the third in a row stays away for 1 s, each further
one twice as long, up to 60 s."""
UNFIT = -2
"""The same from the first on: who cannot run the job lets go of it for others."""

Action = Literal["complete", "retry", "release", "bury", "block_lane", "block_sequence", "cancel"]


@dataclass(frozen=True, slots=True)
class Settlement:
    """How one delivery ends. `delay` in milliseconds, of a release also `UNPACED`, whose handler
    named none, or `UNFIT`; `error` is JSON kept with the job.

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


class Holdings(NamedTuple):
    """What a consumer holds by the word of the server: its last claim, and how many jobs."""

    claim: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The answer to an exchange.

    `entries` are in turn order, each the jobs of one entry. `due` is seconds until the next
    thing falls due, told when slots stayed free; None when nothing will. `left`: work stands
    in the ring after the call. `delivery`: that of the jobs in `entries`.
    """

    status: Literal["ok", "lost", "stale"]
    now: int
    due: float | None
    left: bool
    answers: list[Answer]
    entries: list[list[Claimed]]
    delivery: str = ""

    @property
    def lost(self) -> bool:
        """Whether the lease is gone, and nothing was claimed. What was done may count even so,
        where nobody had taken its jobs yet."""
        return self.status == "lost"


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

    def rank(self, by: LaneSort) -> float:
        """Where it stands among lanes that are sorted by a figure, the highest first."""
        figure: float | None = getattr(self, by)
        return -1.0 if figure is None else float(figure)

    @property
    def state(self) -> LaneState:
        """For people; see `lane_state`."""
        return lane_state(
            paused=self.paused,
            ceiling=self.ceiling,
            blocked=self.blocked_until is not None,
            out_of_rate=self.rated_until is not None,
            in_ring=self.in_ring,
            running=self.running,
            waiting=self.waiting,
        )


def lane_state(
    *,
    paused: bool,
    ceiling: int | None,
    blocked: bool,
    out_of_rate: bool,
    in_ring: bool,
    running: int,
    waiting: int,
) -> LaneState:
    """The first that holds of paused, stopped (its ceiling is 0), blocked, out of rate, ready (in
    the ring), at ceiling, held (behind the heads of its sequences), running and idle."""
    if paused:
        return "paused"
    if ceiling == 0:
        return "stopped"
    if blocked:
        return "blocked"
    if out_of_rate:
        return "out of rate"
    if in_ring:
        return "ready"
    if ceiling is not None and running >= ceiling and waiting:
        return "at ceiling"
    return "held" if waiting else "running" if running else "idle"


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """Totals of a queue. `permits`: entries in flight, of which a sequence's is one. `totals`
    counts since the queue began: enqueued, completed, retried, …; `paused_until` in Unix seconds.

    Signs of life: `served`, jobs handed out so far in the running minute and the one before;
    `beat_age`, seconds since someone kept the queue's time, None: nobody ever did; `overdue`, for
    how many seconds something has been due, 0: nothing is. `sealed`: nothing starts, as the queue
    is about to move.
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
    served: int = 0
    beat_age: float | None = None
    overdue: float = 0.0
    sealed: bool = False

    @property
    def unattended(self) -> bool:
        """Work waits, nothing keeps it from being handed out, and nobody is there to take it."""
        return self.waiting > 0 and not (self.consumers or self.paused or self.sealed)

    @property
    def state(self) -> Literal["sealed", "paused", "no worker", "at ceiling", "open"]:
        """For people: the first that holds."""
        if self.sealed:
            return "sealed"
        if self.paused:
            return "paused"
        if self.unattended:
            return "no worker"
        full = self.ceiling is not None and self.permits >= self.ceiling
        return "at ceiling" if full else "open"


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job as it stands. `due`, in Unix seconds: when a delayed job falls due, a dead one died.
    `worker` (host:pid): who has a job in flight, as far as a list of such jobs tells it; who had
    one that is dead."""

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

    @property
    def died_at(self) -> float | None:
        """When it died, in Unix seconds; None for one that is not dead."""
        return self.due if self.state == "dead" else None


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
class ConsumerInfo:
    """A consumer with a lease. `lease_left` in seconds; 0 when it has ended. `asked`: `quiet` or
    `stop`, where someone has asked that of its process."""

    id: str
    name: str
    lease_left: float
    held: int
    asked: str | None = None
