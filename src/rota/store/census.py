"""A census of a queue's lanes: how many are in which state, and how long they wait.

One walk over all lanes in pages, in constant memory: the figures of all together, and of the few
that wait longest by name. `shares` knows what is due to each; here stands what can be said of
many lanes without their names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappush, heapreplace

from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Operation
from rota.store.shares import part_kept_waiting
from rota.values import config
from rota.values.model import LaneInfo

PAGE = 100
MAX_TOP = 100
STATES = (
    "ready",
    "running",
    "at ceiling",
    "out of rate",
    "blocked",
    "held",
    "paused",
    "stopped",
    "idle",
)
"""What a lane may be; see `LaneInfo.state`."""


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


@dataclass(slots=True)
class _Paces:
    """What lanes that were kept waiting all through were given for their weight."""

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
    def figures(self) -> tuple[float | None, float | None, float | None]:
        """Index, least and most."""
        if self.n < 2 or not self.squares:
            return None, None, None
        mean = self.total / self.n
        index = min(1.0, self.total**2 / (self.n * self.squares))
        return index, self.least / mean, self.most / mean


@dataclass(slots=True)
class _Count:
    """A census under way."""

    limit: int
    states: Counter[str] = field(default_factory=Counter)
    paces: _Paces = field(default_factory=_Paces)
    waiting: int = 0
    running: int = 0
    ready_wait: float | None = None
    longest: list[tuple[float, str, LaneInfo]] = field(default_factory=list)
    """A heap: the first is the one to go."""

    def add(self, lane: LaneInfo) -> None:
        self.states[lane.state] += 1
        self.waiting += lane.waiting
        self.running += lane.running
        if lane.in_ring:
            self.ready_wait = _longer(self.ready_wait, lane.oldest_wait)
        if part_kept_waiting(lane) == 1:
            self.paces.add(lane.charged / lane.window / lane.weight)
        if lane.oldest_wait is not None:
            self._rank(lane, lane.oldest_wait)

    def _rank(self, lane: LaneInfo, wait: float) -> None:
        """Keeps one more than is asked for: it tells how long the others wait."""
        row = (wait, lane.name, lane)
        if any(name == lane.name for _, name, _ in self.longest):
            return  # it changed between pages and came again
        if len(self.longest) <= self.limit:
            heappush(self.longest, row)
        elif row > self.longest[0]:
            heapreplace(self.longest, row)

    def result(self) -> Census:
        ranked = [lane for _, _, lane in sorted(self.longest, reverse=True)]
        top, behind = ranked[: self.limit], ranked[self.limit :]
        index, least, most = self.paces.figures
        return Census(
            lanes={state: self.states[state] for state in STATES},
            oldest_wait=ranked[0].oldest_wait if ranked else None,
            ready_wait=self.ready_wait,
            index=index,
            least=least,
            most=most,
            top=top,
            others=Others(
                waiting=self.waiting - sum(lane.waiting for lane in top),
                running=self.running - sum(lane.running for lane in top),
                oldest_wait=behind[0].oldest_wait if behind else None,
            ),
        )


def _longer(one: float | None, other: float | None) -> float | None:
    return max((wait for wait in (one, other) if wait is not None), default=None)


class CensusTaker:
    """Takes the census of one queue, bounded."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def census(self, top: int) -> Operation[Census]:
        """Names the `top` lanes that wait longest, at most 100."""
        count = _Count(config.whole(top, 0, MAX_TOP, "top"))
        cursor = ""
        while True:
            cursor, lanes = yield from stubs.lanes_page(self._keys, cursor=cursor, limit=PAGE)
            for lane in lanes:
                count.add(lane)
            if not cursor:
                return count.result()
