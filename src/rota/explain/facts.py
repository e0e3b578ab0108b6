"""The facts an explanation is made of, as `lua/explain_job.lua` and `lua/explain_lane.lua` tell
them: instants in Unix milliseconds, None for what does not hold."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.values.model import LaneState, lane_state
from rota.values.names import text_of


class QueueFacts(msgspec.Struct, frozen=True):
    now: float
    consumers: int
    permits: int
    paused: str | None = None
    paused_until: float | None = None
    sealed: str | None = None
    ceiling: int | None = None
    sweeping: bool = False


class LaneFacts(msgspec.Struct, frozen=True):
    """`permits` are entries in flight; `out` counts sequences that may not be claimed now."""

    name: str
    waiting: int
    delayed: int
    permits: int
    pending: int
    out: int
    weight: float
    paused: bool
    in_ring: bool
    since: float | None = None
    next_due: float | None = None
    template: str | None = None
    ceiling: int | None = None
    ceiling_from: str | None = None
    rate_interval: float | None = None
    rate_burst: float | None = None
    rate_from: str | None = None
    rate_until: float | None = None
    pause_why: str | None = None
    pause_until: float | None = None
    block_until: float | None = None
    block_why: str | None = None

    @property
    def state(self) -> LaneState:
        return lane_state(
            paused=self.paused,
            ceiling=self.ceiling,
            blocked=self.block_until is not None,
            out_of_rate=self.rate_until is not None,
            in_ring=self.in_ring,
            running=self.permits,
            waiting=self.waiting,
        )


class ConsumerFacts(msgspec.Struct, frozen=True):
    """`lease`: when it ends; None once the consumer has been marked gone."""

    id: str
    name: str
    lease: float | None = None


class SequenceFacts(msgspec.Struct, frozen=True):
    """`waits_for`: the job whose delay or death keeps the sequence out."""

    key: str
    jobs: int
    in_flight: int
    running: list[str]
    head: str | None = None
    consumer: ConsumerFacts | None = None
    block_until: float | None = None
    block_why: str | None = None
    waits_for: str | None = None
    waits_until: float | None = None
    dead_since: float | None = None


class JobFacts(msgspec.Struct, frozen=True):
    """`rank`: entries of its lane before its own; `place`: jobs of its sequence before it."""

    id: str
    state: str
    attempts: int
    deaths: int
    note: str
    task: str | None = None
    key: str | None = None
    rank: int | None = None
    place: int | None = None
    due: float | None = None
    dead_since: float | None = None
    cancelled: str | None = None
    consumer: ConsumerFacts | None = None
    behind: int = 0
    first: str | None = None


class RingFacts(msgspec.Struct, frozen=True):
    """`lanes` stand in the ring up to the turn asked for; the first 1,000 of them are told.
    `costs`: some jobs of the queue cost more or less than 1."""

    tag: float
    weight: float
    before: int
    costs: bool
    ahead: int
    lanes: int
    names: list[str]
    tags: list[float]
    weights: list[float]
    waiting: list[int]


class LaneCase(msgspec.Struct, frozen=True):
    """All that is told of a lane that is explained."""

    queue: QueueFacts
    lane: LaneFacts
    sequences: list[SequenceFacts]
    ring: RingFacts | None = None


class JobCase(msgspec.Struct, frozen=True):
    """All that is told of a job that is explained; `job` is None where there is none."""

    queue: QueueFacts
    job: JobFacts | None = None
    lane: LaneFacts | None = None
    sequence: SequenceFacts | None = None
    ring: RingFacts | None = None


class Holder(msgspec.Struct, frozen=True):
    """An entry of a lane in flight: its job, or the first of its jobs, and who has it.

    `behind`: further jobs of its sequence taken with it. Since when it runs the server does not
    know.
    """

    job: str
    task: str
    consumer: str
    name: str
    behind: int = 0
    since: float | None = None


def read_lane(reply: bytes) -> LaneCase:
    return msgspec.convert(_read(_unpack(reply)), LaneCase, strict=False)


def read_job(reply: bytes) -> JobCase:
    return msgspec.convert(_read(_unpack(reply)), JobCase, strict=False)


_unpack = msgspec.msgpack.Decoder().decode


def _read(fact: Any) -> Any:
    """Texts come as the characters of their bytes' numbers: see `spelled` in lua/lib/explain."""
    if isinstance(fact, str):
        return text_of(fact.encode("latin-1"))
    if isinstance(fact, dict):
        return {name: _read(value) for name, value in fact.items()}
    return [_read(value) for value in fact] if isinstance(fact, list) else fact
