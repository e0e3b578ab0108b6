"""What is said of many lanes: a census of all, their shares, the highest by a figure."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import Literal

from rota.values.model import LaneInfo, LaneSort

ShareSort = Literal["behind", LaneSort]

ADDED = 100
"""How many lanes may be added to the highest before they are sorted again: a page of them."""


@dataclass(frozen=True, slots=True)
class Others:
    """The lanes that are not named, together. `oldest_wait` in seconds, None: nothing waits."""

    waiting: int = 0
    running: int = 0
    oldest_wait: float | None = None


@dataclass(frozen=True, slots=True)
class Census:
    """What one walk over the lanes saw; lanes that changed meanwhile may be counted as they were.

    `lanes`: how many are in each state. `oldest_wait`: of all that waits; `ready_wait`: of the
    lanes that may be served now, which nothing but others' turns keeps waiting. `index`: Jain's,
    over lanes whose next entry was kept waiting all through the last one to two minutes; `least`
    and `most`: what the one that was given least and most for its weight got, against their mean.
    These three are None where there are fewer than two such lanes, or none was served. `top`: the
    lanes that wait longest, the first the longest.
    """

    lanes: dict[str, int]
    oldest_wait: float | None
    ready_wait: float | None
    index: float | None
    least: float | None
    most: float | None
    top: list[LaneInfo]
    others: Others


@dataclass(frozen=True, slots=True)
class LaneShare:
    """What a lane was given and what was due to it, as parts of what all were charged.

    `ratio` is received / due, None where nothing was due. `behind`: the part of its full share that
    it lacks, 1 where it was kept waiting all through; below 0 it was given more than was due.
    """

    lane: LaneInfo
    received: float
    due: float
    ratio: float | None
    behind: float


@dataclass(frozen=True, slots=True)
class Shares:
    """How fairly `lanes` lanes were served: those in the ring or served in the `window` (seconds).
    `pace`: what all of them were charged together, in turns a second.

    `index` is Jain's, 1 where all were given the same for their weight, 1/n where one of n was
    given all: over the lanes that may be served and whose next entry has been available since
    before the window began. None where there are fewer than two of them, or none was served.
    """

    index: float | None
    lanes: int
    window: float
    pace: float
    top: list[LaneShare]


class Highest:
    """The `limit` lanes that stand highest by a figure; it keeps at most twice as many and a page,
    however many are added."""

    def __init__(self, limit: int, by: LaneSort) -> None:
        self._limit = limit
        self._by = by
        self._found: dict[str, LaneInfo] = {}

    def add(self, lane: LaneInfo) -> None:
        self._found[lane.name] = lane
        if len(self._found) >= 2 * self._limit + ADDED:
            self._found = {lane.name: lane for lane in self.lanes}

    @property
    def lanes(self) -> list[LaneInfo]:
        """The highest first."""
        return nsmallest(
            self._limit, self._found.values(), key=lambda lane: (-lane.rank(self._by), lane.name)
        )
