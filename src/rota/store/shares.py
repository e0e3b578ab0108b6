"""Share received against share due: how fairly the lanes of a queue were served of late.

What is due is the weighted max-min share of all that was charged in the window: a lane whose next
entry has been kept waiting all through is due its weight's part of what the others leave; one that
had nothing waiting, or might not be served, got what it wanted, but is not due more than that part.
In between, a lane is due what it got and its part of the time its next entry has been waiting.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from heapq import nsmallest
from typing import get_args

from rota.errors import ConfigError
from rota.script.loader import Operation
from rota.store.lanes import MAX_LANES, Lanes, walk
from rota.values import config
from rota.values.figures import LaneShare, Shares, ShareSort
from rota.values.model import LaneInfo, LaneSort
from rota.values.names import shown

NEARLY = 0.9
"""A lane that was given so much of what its rate allows is held back by its rate."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Turns:
    """What is remembered of each lane. `pace`: its charge in a second; `part`: for which part of
    the window its next entry has been kept waiting; `rank`: the figure it is ordered by."""

    pace: float
    weight: float
    part: float
    rank: float = 0.0

    def due(self, level: float) -> float:
        return min(level * self.weight, self.pace + level * self.weight * self.part)

    def behind(self, level: float) -> float:
        return (self.due(level) - self.pace) / (level * self.weight) if level else 0.0


@dataclass(slots=True)
class Paces:
    """What lanes were given for their weight, added up: how even it is."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    least: float = float("inf")
    most: float = 0.0

    def add(self, pace: float) -> None:
        self.n += 1
        self.total += pace
        self.squares += pace * pace
        self.least, self.most = min(self.least, pace), max(self.most, pace)

    @property
    def index(self) -> float | None:
        """Jain's, (Σx)² / (n Σx²); None for fewer than two paces, or where all are 0."""
        if self.n < 2 or not self.squares:
            return None
        return min(1.0, self.total**2 / (self.n * self.squares))

    @property
    def extremes(self) -> tuple[float | None, float | None]:
        """The least and the most, against the mean; None where there is no index."""
        if self.index is None:
            return None, None
        return self.least * self.n / self.total, self.most * self.n / self.total


class Fairness(Lanes):
    """The part of the inspector that tells how lanes share the turns, bounded."""

    def shares(self, limit: int, by: ShareSort) -> Operation[Shares]:
        config.whole(limit, 1, MAX_LANES, "limit")
        if by not in get_args(ShareSort):
            known = ", ".join(get_args(ShareSort))
            raise ConfigError(f"by: expected one of {known}, given {shown(by)}")
        lanes, window = yield from self._turns(None if by == "behind" else by)
        level, total = find_level(lanes.values()), sum(lane.pace for lane in lanes.values())

        def order(item: tuple[str, Turns]) -> tuple[float, str]:
            name, turns = item
            return -(turns.behind(level) if by == "behind" else turns.rank), name

        top = nsmallest(limit, lanes.items(), key=order)
        infos = yield from self.lanes_named([name for name, _ in top])
        paces = Paces()
        for lane in lanes.values():
            if lane.part == 1:
                paces.add(lane.pace / lane.weight)
        return Shares(
            index=paces.index,
            lanes=len(lanes),
            window=window,
            pace=total,
            top=[
                _share(info, turns, level, total)
                for info, (_, turns) in zip(infos, top, strict=True)
            ],
        )

    def _turns(self, by: LaneSort | None) -> Operation[tuple[dict[str, Turns], float]]:
        """Every lane that wants turns or had some, and the window the last were seen in.

        The window grows while the pages are read, so a charge counts as a pace.
        """
        lanes: dict[str, Turns] = {}

        def remember(lane: LaneInfo) -> None:
            rank = 0.0 if by is None else lane.rank(by)
            pace = lane.charged / lane.window
            lanes[lane.name] = Turns(pace, lane.weight, part_kept_waiting(lane), rank)

        window = yield from walk(self.keys, remember, served=True)
        return lanes, window


def part_kept_waiting(lane: LaneInfo) -> float:
    """0 … 1: for which part of the window its next entry has been available, where it may be
    served now and its rate is not what holds it back."""
    if not lane.in_ring or lane.next_wait is None:
        return 0.0
    if lane.rate and lane.served + 1 >= NEARLY * lane.window * 1000 / lane.rate.interval_ms:
        return 0.0
    return min(1.0, lane.next_wait / lane.window)


def find_level(lanes: Collection[Turns]) -> float:
    """What is due to a lane of weight 1 that wants more than it gets: the level at which all that
    is due adds up to all that was given."""
    left, slope = sum(lane.pace for lane in lanes), sum(lane.weight for lane in lanes)
    if not left:
        return 0.0
    # Up to its knee a lane is due its weight's part; beyond, what it got and part of its part.
    knees = sorted(
        ((lane.pace / (lane.weight * (1 - lane.part)), lane) for lane in lanes if lane.part < 1),
        key=lambda pair: pair[0],
    )
    for knee, lane in knees:
        if left <= knee * slope:
            return left / slope
        left -= lane.pace
        slope -= lane.weight * (1 - lane.part)
    # Summed anew: what is left of a difference of sums may be nothing but rounding.
    rest = sum(lane.weight * lane.part for lane in lanes)
    if rest <= ROUNDING * sum(lane.weight for lane in lanes):
        return knees[-1][0]
    return left / rest


def _share(info: LaneInfo, turns: Turns, level: float, total: float) -> LaneShare:
    due = turns.due(level)
    return LaneShare(
        lane=info,
        received=turns.pace / total if total else 0.0,
        due=due / total if total else 0.0,
        ratio=turns.pace / due if due else None,
        behind=turns.behind(level),
    )
