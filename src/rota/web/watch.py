"""One look at a queue for everybody: it goes on while somebody looks, and ends soon after."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from rota.errors import RotaError
from rota.queue import Queue
from rota.values.figures import LaneShare, Shares
from rota.values.model import LaneInfo
from rota.web.looks import KEPT_LANES, SERIES, LaneLook, LaneRow, Point, Slice, Snapshot

logger = logging.getLogger("rota.web")

EVERY_S = 1.0
LANES_EVERY_S = 2.0
REST = 3
"""A look over the lanes is followed by a rest of so many times its length."""
SLOW_S = 1.0
LINGER_S = 15.0
"""A watch ends when nobody has looked for so long."""
QUICK_S = 0.3
HISTORY = 180
PATIENCE_S = 5.0
LOOK_PATIENCE_S = 600.0


class Watch:
    """Looks at one queue, or at the lanes of a scope, once a second for all who look.

    No call to the server grows with the data. A look over many lanes is made of many small calls,
    and the rest that follows keeps it to a quarter of the time.
    """

    def __init__(self, queue: Queue, scope: frozenset[str] | None = None) -> None:
        self._queue = queue
        self._scope = scope
        self._snapshot = Snapshot(0, 0.0, None)
        self._points: deque[Point] = deque(maxlen=HISTORY)
        self._slices: deque[Slice] = deque(maxlen=HISTORY)
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._asked = 0.0
        self._streams = 0

    async def now(self, *, patience: float = PATIENCE_S) -> Snapshot:
        """The newest snapshot, waiting for the first one if there is none yet."""
        self._wake()
        if not self._snapshot.number:
            changed = self._changed
            try:
                async with asyncio.timeout(patience):
                    await changed.wait()
            except TimeoutError:
                pass
        return self._snapshot

    async def changes(self) -> AsyncGenerator[Snapshot, None]:
        """The newest snapshot, then each new one; slow readers miss some."""
        self._streams += 1
        try:
            seen = 0
            while True:
                self._wake()
                changed = self._changed
                if self._snapshot.number > seen:
                    seen = self._snapshot.number
                    yield self._snapshot
                    continue
                await changed.wait()
                if self._task is None:  # closed
                    return
        finally:
            self._streams -= 1

    async def refresh(self) -> None:
        """Looks now: something was changed, and the next page is to show it. Only while somebody
        looks, and at the lanes only where that is quick."""
        if not self.is_running:
            return
        await self._attempt(self._look(), PATIENCE_S)
        look = self._snapshot.lanes
        if self._scope is None and look is not None and look.took < QUICK_S:
            await self._attempt(self._look_at_lanes(), PATIENCE_S)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        task, self._task = self._task, None
        self._changed.set()
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ── looking ─────────────────────────────────────────────────────────────────────────────

    def _wake(self) -> None:
        self._asked = time.monotonic()
        task = self._task
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._changed = asyncio.Event()
            self._snapshot = Snapshot(0, 0.0, None)  # what was seen before is old
            self._points.clear()
            self._slices.clear()
            self._task = asyncio.create_task(self._run(), name=f"rota-watch-{self._queue.name}")

    async def _run(self) -> None:
        lanes = asyncio.create_task(self._look_at_lanes_again_and_again())
        try:
            while self._streams or time.monotonic() - self._asked < LINGER_S:
                began = time.monotonic()
                await self._attempt(self._look(), PATIENCE_S)
                await asyncio.sleep(max(0.05, EVERY_S - (time.monotonic() - began)))
        finally:
            lanes.cancel()
            await asyncio.gather(lanes, return_exceptions=True)

    async def _look_at_lanes_again_and_again(self) -> None:
        while self._scope is None:
            began = time.monotonic()
            await self._attempt(self._look_at_lanes(), LOOK_PATIENCE_S)
            took = time.monotonic() - began
            await asyncio.sleep(max(LANES_EVERY_S - took, 0.05, took * REST - LANES_EVERY_S))

    async def _attempt(self, look: Coroutine[Any, Any, None], patience: float) -> None:
        """A look that fails is told with the snapshot, and tried again."""
        try:
            async with asyncio.timeout(patience):
                await look
        except (RotaError, TimeoutError, OSError) as error:
            self._publish(replace(self._snapshot, trouble=str(error) or "the server is silent"))
        except Exception:
            logger.exception("looking at queue %s failed", self._queue.name)
            self._publish(replace(self._snapshot, trouble="an error, see the log"))

    async def _look(self) -> None:
        if self._scope is not None:
            await self._look_at_scope()
            return
        info = await self._queue.info()
        done = (info.totals.get(event, 0) for event in ("enqueued", "completed"))
        self._points.append(Point(time.monotonic(), *done))
        history = tuple(self._points)
        self._publish(
            replace(self._snapshot, at=time.time(), info=info, history=history, trouble=None)
        )

    async def _look_at_lanes(self) -> None:
        """Walk after walk; where the first takes long, what it saw is told before the second."""
        began = time.monotonic()
        before = self._snapshot.lanes or LaneLook()
        found = await self._queue.highest_lanes(KEPT_LANES)
        waits = found["oldest_wait"]
        complete = len(waits) < KEPT_LANES
        known = _by_name(before.shares)
        if time.monotonic() - began > SLOW_S:
            first = [LaneRow(info, known.get(info.name)) for info in waits]
            self._publish_lanes(replace(before, rows=first, complete=complete), began)
        shares = await self._queue.shares(KEPT_LANES)
        known = _by_name(shares)
        orders: dict[str, list[LaneRow]] = {
            by: [LaneRow(info, known.get(info.name)) for info in lanes]
            for by, lanes in found.items()
        }
        rows = {share.lane.name: LaneRow(share.lane, share) for share in shares.top}
        rows |= {row.info.name: row for row in orders["oldest_wait"]}
        self._slice(shares, found["served"])
        look = LaneLook(shares=shares, rows=[*rows.values()], complete=complete, orders=orders)
        self._publish_lanes(look, began)

    def _publish_lanes(self, look: LaneLook, began: float) -> None:
        """Who hurts most first."""
        rows = sorted(look.rows, key=lambda row: row.hurt)[:KEPT_LANES]
        look = replace(look, at=time.time(), took=time.monotonic() - began, rows=rows)
        self._publish(replace(self._snapshot, lanes=look, slices=tuple(self._slices)))

    async def _look_at_scope(self) -> None:
        began = time.monotonic()
        found = await self._queue.lanes_named(sorted(self._scope or ()))
        self._snapshot = replace(self._snapshot, at=time.time(), trouble=None)
        self._publish_lanes(LaneLook(rows=[LaneRow(info) for info in found], complete=True), began)

    def _slice(self, shares: Shares, served: Sequence[LaneInfo]) -> None:
        """Remembers who was given most, for the picture."""
        pace = shares.pace
        given = {lane.name: lane.charged / lane.window / pace for lane in served if pace}
        most = sorted(given, key=lambda name: (-given[name], name))[:SERIES]
        self._slices.append(Slice(time.time(), {name: given[name] for name in most}))

    def _publish(self, snapshot: Snapshot) -> None:
        self._snapshot = replace(snapshot, number=self._snapshot.number + 1)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _by_name(shares: Shares | None) -> dict[str, LaneShare]:
    return {share.lane.name: share for share in shares.top} if shares else {}
