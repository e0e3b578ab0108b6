"""What `--json` promises: the keys of each row, and what they hold."""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

T = TypeVar("T", bound="Row")


class Row(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A row has these keys, each of them, and no other."""


class Rate(Row, frozen=True):
    n: float
    per: float
    burst: int


class QueueRow(Row, frozen=True):
    queue: str
    prefix: str
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


class LaneRow(Row, frozen=True):
    lane: str
    state: str
    waiting: int
    delayed: int
    running: int
    ceiling: int | None
    weight: float
    paused: bool
    blocked_until: float | None
    oldest_wait: float | None
    backlog: int | None
    pause_reason: str | None
    paused_by: str | None
    paused_until: float | None
    rate: Rate | None
    template: str | None
    rated_until: float | None
    served: int
    wait_mean: float | None
    charged: float
    window: float


class JobRow(Row, frozen=True):
    id: str
    state: Literal["waiting", "delayed", "running", "dead"]
    task: str
    lane: str
    ordering_key: str | None
    priority: int
    enqueued_at: float
    payload: str
    attempts: int
    deaths: int
    error: str | None
    due: float | None
    worker: str | None


class DeadRow(Row, frozen=True):
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
    payload: str


class SequenceRow(Row, frozen=True):
    lane: str
    ordering_key: str
    state: Literal["ready", "held", "blocked"]
    waiting: int
    head: str | None
    held_by: str | None
    jobs_held: list[str]
    blocked_until: float | None
    reason: str | None
    head_dead: bool


class ConsumerRow(Row, frozen=True):
    id: str
    name: str
    lease_left: float
    held: int
    asked: Literal["quiet", "stop"] | None


class CheckOne(Row, frozen=True):
    name: str
    ok: bool
    text: str
    vital: bool


class CheckRow(Row, frozen=True):
    queue: str
    healthy: bool
    checks: list[CheckOne]


def rows(text: str, kind: type[T]) -> list[T]:
    """Each line of `text` as a row of that kind."""
    return [msgspec.json.decode(line, type=kind) for line in text.splitlines()]
