"""A lane in a user's hands: its limits, its pause, its block, its figures."""

from __future__ import annotations

from datetime import datetime, timedelta

from rota.link import Link
from rota.model import LaneInfo
from rota.store import UNSET, Unset


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
        backlog: int | Unset | None = UNSET,
    ) -> None:
        """Changes limits; what is not given stays, None removes a setting.

        `ceiling`: most entries in flight at once, 0 stops the lane. `weight`: 0.01 … 100, its
        share of turns. `backlog`: most jobs waiting and delayed. Applies at once to what is
        queued; jobs in flight go on. Raises ConfigError.
        """
        await self._link.run(
            self._link.store.lane_set(self.name, ceiling=ceiling, weight=weight, backlog=backlog)
        )

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

    async def info(self) -> LaneInfo:
        """The lane as it stands."""
        return await self._link.run(self._link.inspector.lane(self.name))


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
        backlog: int | Unset | None = UNSET,
    ) -> None:
        self._link.run_sync(
            self._link.store.lane_set(self.name, ceiling=ceiling, weight=weight, backlog=backlog)
        )

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

    def info(self) -> LaneInfo:
        return self._link.run_sync(self._link.inspector.lane(self.name))
