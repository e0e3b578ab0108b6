"""A lane in a user's hands: its limits, its pause, its block, its figures."""

from __future__ import annotations

from datetime import datetime, timedelta

from rota.explain import Explanation
from rota.link import Link
from rota.values import names
from rota.values.limits import UNSET, Rate, Unset
from rota.values.listing import SequenceInfo
from rota.values.model import Cancelled, LaneInfo, Moved


class Lane:
    """One tenant's line in a queue. Settings last until they are removed, jobs or none."""

    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self._link = link

    async def set(
        self,
        *,
        ceiling: int | Unset | None = UNSET,
        weight: float | Unset | None = UNSET,
        rate: Rate | Unset | None = UNSET,
        backlog: int | Unset | None = UNSET,
        template: str | Unset | None = UNSET,
    ) -> None:
        """Changes limits; what is not given stays, None removes a setting.

        `ceiling`: most entries in flight at once, 0 stops the lane. `weight`: 0.01 … 100, its
        share of turns. `rate`: how fast its jobs may start. `backlog`: most jobs waiting and
        delayed. `template`: whose limits hold where the lane has none of its own (see
        `Queue.set_template`). Applies at once to what is queued; jobs in flight go on. Raises
        ConfigError, also for a template that does not exist.
        """
        await self._link.run(
            self._link.store.lane_set(
                self.name,
                ceiling=ceiling,
                weight=weight,
                rate=rate,
                backlog=backlog,
                template=template,
            )
        )

    async def reset(self) -> None:
        """Removes all limits of the lane: the template's and the queue's hold. A pause stays."""
        await self._link.run(self._link.store.lane_reset(self.name))

    async def pause(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: datetime | float | None = None,
    ) -> None:
        """Hands out nothing of the lane until `resume`, or until the instant `until`.

        What is in flight goes on. Pausing again replaces end and reason.
        """
        await self._link.run(self._link.store.pause(self.name, reason=reason, by=by, until=until))

    async def resume(self) -> bool:
        """Ends a pause; False where there was none."""
        return await self._link.run(self._link.store.resume(self.name))

    async def block(
        self, delay: float | timedelta, *, reason: str | None = None, by: str | None = None
    ) -> None:
        """Hands out nothing of the lane for `delay` seconds; an earlier block only ever extends."""
        await self._link.run(self._link.store.block(self.name, delay, reason=reason, by=by))

    async def unblock(self) -> bool:
        """Ends a block before its time; False where there was none."""
        return await self._link.run(self._link.store.unblock(self.name))

    async def purge(self) -> int:
        """Deletes the lane's waiting and delayed jobs, in pages; what is in flight goes on."""
        return await self._link.run(self._link.store.purge(self.name))

    async def cancel(self, *, by: str | None = None) -> Cancelled:
        """Deletes the lane's waiting and delayed jobs, in pages, and asks those in flight to stop.

        Counts both. What becomes of a job in flight is said at `JobHandle.cancel`; `by` likewise.
        """
        return await self._link.run(self._link.store.cancel_lane(self.name, by=by))

    async def move(self, to: str) -> Moved:
        """Takes what waits and what is delayed over to another lane, in pages, places kept.

        Jobs in flight stay, and so does a sequence of which some are, or that is blocked; what the
        other lane's backlog limit leaves no room for stays too. While a long sequence moves, its
        rest is kept out; where the move breaks off, moving the lane there again finishes it. Jobs
        enqueued here meanwhile may stay. Raises ConfigError where one lane of the two is ordered.
        """
        return await self._link.run(self._link.store.move(self.name, to))

    async def reprioritize(self, priority: int) -> int:
        """Gives what waits and what is delayed this priority, in pages; says how many changed.

        Jobs that had the same priority keep their order. Those in flight keep theirs, also when
        they come back.
        """
        return await self._link.run(self._link.store.reprioritize(self.name, priority))

    async def sequence(self, ordering_key: str | None = None) -> SequenceInfo | None:
        """A sequence of the lane as it stands; an ordered lane is one, without an ordering key.

        None where there is nothing of it. Raises ConfigError where a key is missing, or too much.
        """
        key = names.sequence_key(ordering_key, self.name)
        return await self._link.run(self._link.inspector.sequence(self.name, key))

    async def skip(self, ordering_key: str | None = None, *, by: str | None = None) -> str | None:
        """Lets a sequence go on past the job that stops it; says which that was, None: none did.

        A dead job's hold ends, and the job stays dead; a head that waits for its retry goes to the
        dead, with `by` in its error. A rate limit's block stays.
        """
        key = names.sequence_key(ordering_key, self.name)
        return await self._link.run(self._link.store.skip(self.name, key, by=by))

    async def info(self) -> LaneInfo:
        """The lane as it stands."""
        return await self._link.run(self._link.inspector.lane(self.name))

    async def explain(self) -> Explanation:
        """Why the lane is not served now, and what would free it; its counts, its oldest wait."""
        return await self._link.run(self._link.explainer.lane(self.name))


class SyncLane:
    """The blocking twin of `Lane`."""

    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self._link = link

    def set(
        self,
        *,
        ceiling: int | Unset | None = UNSET,
        weight: float | Unset | None = UNSET,
        rate: Rate | Unset | None = UNSET,
        backlog: int | Unset | None = UNSET,
        template: str | Unset | None = UNSET,
    ) -> None:
        self._link.run_sync(
            self._link.store.lane_set(
                self.name,
                ceiling=ceiling,
                weight=weight,
                rate=rate,
                backlog=backlog,
                template=template,
            )
        )

    def reset(self) -> None:
        self._link.run_sync(self._link.store.lane_reset(self.name))

    def pause(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: datetime | float | None = None,
    ) -> None:
        self._link.run_sync(self._link.store.pause(self.name, reason=reason, by=by, until=until))

    def resume(self) -> bool:
        return self._link.run_sync(self._link.store.resume(self.name))

    def block(
        self, delay: float | timedelta, *, reason: str | None = None, by: str | None = None
    ) -> None:
        self._link.run_sync(self._link.store.block(self.name, delay, reason=reason, by=by))

    def unblock(self) -> bool:
        return self._link.run_sync(self._link.store.unblock(self.name))

    def purge(self) -> int:
        return self._link.run_sync(self._link.store.purge(self.name))

    def cancel(self, *, by: str | None = None) -> Cancelled:
        return self._link.run_sync(self._link.store.cancel_lane(self.name, by=by))

    def move(self, to: str) -> Moved:
        return self._link.run_sync(self._link.store.move(self.name, to))

    def reprioritize(self, priority: int) -> int:
        return self._link.run_sync(self._link.store.reprioritize(self.name, priority))

    def sequence(self, ordering_key: str | None = None) -> SequenceInfo | None:
        key = names.sequence_key(ordering_key, self.name)
        return self._link.run_sync(self._link.inspector.sequence(self.name, key))

    def skip(self, ordering_key: str | None = None, *, by: str | None = None) -> str | None:
        key = names.sequence_key(ordering_key, self.name)
        return self._link.run_sync(self._link.store.skip(self.name, key, by=by))

    def info(self) -> LaneInfo:
        return self._link.run_sync(self._link.inspector.lane(self.name))

    def explain(self) -> Explanation:
        return self._link.run_sync(self._link.explainer.lane(self.name))
