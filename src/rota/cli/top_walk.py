"""What `rota top` knows of a queue, gathered some pages a look: no look grows with the lanes."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from heapq import nsmallest

from rota.queue import Queue
from rota.values.model import ConsumerInfo, LaneInfo, LaneOrder, QueueInfo

CONSUMERS = 200
"""The most that are read."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One look. Rates are jobs a second since the look before, None at the first.

    `counted` lanes were gone through in the last whole walk, or so far in the first (then it is
    not `complete`).
    """

    info: QueueInfo
    arriving: float | None
    ending: float | None
    lanes: list[LaneInfo]
    states: Counter[str]
    counted: int
    complete: bool
    consumers: list[ConsumerInfo]


@dataclass(slots=True)
class _Round:
    """A walk over the lanes, under way."""

    cursor: str = ""
    counted: int = 0
    states: Counter[str] = field(default_factory=Counter)
    best: dict[str, LaneInfo] = field(default_factory=dict)


class Walk:
    """Goes round the lanes of a queue, and remembers the first `keep` of them by `by`."""

    def __init__(self, queue: Queue, by: LaneOrder, keep: int) -> None:
        self._queue = queue
        self._by = by
        self._keep = keep
        self._round = _Round()
        self._last: _Round | None = None
        self._totals: tuple[float, dict[str, int]] | None = None

    def look(self, budget: float) -> Frame:
        """Walks on for `budget` seconds, to the end of the round at most; then looks anew at those
        that are shown."""
        began, last = time.monotonic(), self._last
        while time.monotonic() - began < budget and self._last is last:
            self._step()
        shown = self._last or self._round
        sync, link = self._queue.sync, self._queue.link
        info = sync.info()
        names = {**shown.best, **self._round.best}
        lanes = self._first(link.run_sync(link.inspector.lanes_named(list(names))))
        arriving, ending = self._rates(info)
        return Frame(
            info=info,
            arriving=arriving,
            ending=ending,
            lanes=lanes[: self._keep],
            states=shown.states,
            counted=shown.counted,
            complete=self._last is not None,
            consumers=sync.consumers(CONSUMERS),
        )

    def _step(self) -> None:
        link, this = self._queue.link, self._round
        this.cursor, rows = link.run_sync(link.inspector.lanes_page(this.cursor))
        for row in rows:
            this.counted += 1
            this.states[row.state] += 1
            this.best[row.name] = row
        if len(this.best) > 4 * self._keep or not this.cursor:
            this.best = {row.name: row for row in self._first(list(this.best.values()))}
        if not this.cursor:
            self._last, self._round = this, _Round()

    def _first(self, lanes: list[LaneInfo]) -> list[LaneInfo]:
        return nsmallest(self._keep, lanes, key=lambda lane: (-lane.rank(self._by), lane.name))

    def _rates(self, info: QueueInfo) -> tuple[float | None, float | None]:
        now, before = time.monotonic(), self._totals
        self._totals = now, info.totals
        if before is None or now <= before[0]:
            return None, None
        passed = now - before[0]

        def grown(*names: str) -> float:
            return sum(info.totals.get(n, 0) - before[1].get(n, 0) for n in names) / passed

        return grown("enqueued"), grown("completed", "buried", "cancelled", "purged")
