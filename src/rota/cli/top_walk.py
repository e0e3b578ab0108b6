"""What `rota top` knows of a queue, gathered some pages a look: no look grows with the lanes."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from rota.queue import Queue
from rota.values.figures import Highest
from rota.values.model import ConsumerInfo, LaneInfo, LaneSort, QueueInfo

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

    best: Highest
    cursor: str | None = None
    counted: int = 0
    states: Counter[str] = field(default_factory=Counter)


class Walk:
    """Goes round the lanes of a queue, and remembers the first `keep` of them by `by`."""

    def __init__(self, queue: Queue, by: LaneSort, keep: int) -> None:
        self._queue = queue
        self._by = by
        self._keep = keep
        self._round = self._new_round()
        self._last: _Round | None = None
        self._totals: tuple[float, dict[str, int]] | None = None

    def _new_round(self) -> _Round:
        return _Round(Highest(self._keep, self._by))

    def look(self, budget: float) -> Frame:
        """Walks on for `budget` seconds, to the end of the round at most; then looks anew at those
        that are shown."""
        began, last = time.monotonic(), self._last
        while time.monotonic() - began < budget and self._last is last:
            self._step()
        shown = self._last or self._round
        sync = self._queue.sync
        info = sync.info()
        seen = {lane.name for best in (shown.best, self._round.best) for lane in best.lanes}
        now = self._new_round().best
        for lane in sync.lanes_named(sorted(seen)):
            now.add(lane)
        arriving, ending = self._rates(info)
        return Frame(
            info=info,
            arriving=arriving,
            ending=ending,
            lanes=now.lanes,
            states=shown.states,
            counted=shown.counted,
            complete=self._last is not None,
            consumers=sync.consumers(CONSUMERS),
        )

    def _step(self) -> None:
        this = self._round
        page = self._queue.sync.lanes_page(this.cursor)
        this.cursor = page.cursor
        for lane in page.lanes:
            this.counted += 1
            this.states[lane.state] += 1
            this.best.add(lane)
        if this.cursor is None:
            self._last, self._round = this, self._new_round()

    def _rates(self, info: QueueInfo) -> tuple[float | None, float | None]:
        now, before = time.monotonic(), self._totals
        self._totals = now, info.totals
        if before is None or now <= before[0]:
            return None, None
        passed = now - before[0]

        def grown(*names: str) -> float:
            return sum(info.totals.get(n, 0) - before[1].get(n, 0) for n in names) / passed

        return grown("enqueued"), grown("completed", "buried", "cancelled", "purged")
