"""What a look at a queue saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rota.values.figures import LaneShare, Shares
from rota.values.model import LaneInfo, QueueInfo

KEPT_LANES = 500
"""Lanes a look keeps of each order; with fewer in the queue it has them all."""
SERIES = 8
"""Lanes with a colour of their own in the picture of shares; the rest is one."""


@dataclass(frozen=True, slots=True)
class Point:
    """How many jobs since the queue began, at one moment of this process's clock."""

    at: float
    enqueued: int
    completed: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Jobs a second."""

    into: float
    out: float

    @classmethod
    def between(cls, old: Point, new: Point) -> Rates:
        span = max(new.at - old.at, 0.001)
        into, out = new.enqueued - old.enqueued, new.completed - old.completed
        return cls(max(0, into) / span, max(0, out) / span)


@dataclass(frozen=True, slots=True)
class LaneRow:
    """A lane, and its share where it wanted turns of late."""

    info: LaneInfo
    share: LaneShare | None = None

    @property
    def hurt(self) -> tuple[float, float, str]:
        """Who lacks most of the share due comes first, then who has waited longest."""
        behind = self.share.behind if self.share and self.share.behind > 0.05 else 0.0
        return -round(behind, 2), -(self.info.oldest_wait or 0.0), self.info.name


@dataclass(frozen=True, slots=True)
class LaneLook:
    """One look over all lanes. `complete`: `rows` are all the lanes there are; else those that
    hurt most, and `orders` has the first by other figures. `took`: seconds it went on for."""

    at: float = 0.0
    took: float = 0.0
    shares: Shares | None = None
    rows: Sequence[LaneRow] = ()
    complete: bool = False
    orders: Mapping[str, Sequence[LaneRow]] = field(default_factory=dict)

    @property
    def oldest_wait(self) -> float | None:
        return max((r.info.oldest_wait for r in self.rows if r.info.oldest_wait), default=None)


@dataclass(frozen=True, slots=True)
class Slice:
    """What lanes were given at one moment: the first few by name, and all others together."""

    at: float
    given: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of a queue now. `info` is None for who sees only some lanes, whose figures are
    then those of these lanes. `trouble`: why the newest look failed; the rest is older."""

    number: int
    at: float
    info: QueueInfo | None
    history: tuple[Point, ...] = ()
    lanes: LaneLook | None = None
    slices: tuple[Slice, ...] = ()
    trouble: str | None = None

    @property
    def rates(self) -> Rates | None:
        """Over the last seconds."""
        if len(self.history) < 2:
            return None
        *before, last, new = self.history
        return Rates.between(next((p for p in before if new.at - p.at <= 10), last), new)

    @property
    def paces(self) -> list[Rates]:
        """Between one look and the next, of the last minutes."""
        return [Rates.between(old, new) for old, new in pairwise(self.history)]

    @property
    def nobody_works(self) -> bool:
        return self.info is not None and self.info.unattended
