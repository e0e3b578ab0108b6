"""A queue's dead jobs in a user's hands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from rota.link import Link
from rota.store.dead import START
from rota.values import config, names
from rota.values.model import DeadAnswer, DeadJob

MAX_LISTED = 100_000
Answers = list[DeadAnswer]


def _ids(ids: Iterable[str]) -> list[str]:
    return [names.job_id(id) for id in ids]


def _limit(limit: int) -> int:
    return config.whole(limit, 1, MAX_LISTED, "limit")


class DeadJobs:
    """Jobs that gave up, kept with their last error until replayed, discarded or too old."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(
        self, *, lane: str | None = None, task: str | None = None, limit: int = 100
    ) -> list[DeadJob]:
        """The first `limit`, oldest first, of a lane, of a task, or all."""
        return await self._link.run(
            self._link.dead.first(lane=lane, task=task, limit=_limit(limit))
        )

    async def iterate(
        self, *, lane: str | None = None, task: str | None = None
    ) -> AsyncIterator[DeadJob]:
        """All of them, page by page, oldest first."""
        cursor = START
        while True:
            cursor, jobs = await self._link.run(self._link.dead.page(cursor, lane=lane, task=task))
            for job in jobs:
                yield job
            if cursor == START:
                return

    async def replay(self, *ids: str) -> Answers:
        """Puts jobs back in their places, attempts forgiven: `ok`, `none`, or `unreadable`."""
        return await self._link.run(self._link.dead.replay(_ids(ids)))

    async def discard(self, *ids: str) -> Answers:
        """Deletes jobs for good; their ids are free again, and held sequences go on."""
        return await self._link.run(self._link.dead.discard(_ids(ids)))

    async def replay_all(self, *, lane: str | None = None, task: str | None = None) -> int:
        """Replays all of a lane or task, in pages; what is done when it breaks off stays done."""
        return await self._link.run(self._link.dead.replay_where(lane=lane, task=task))

    async def discard_all(self, *, lane: str | None = None, task: str | None = None) -> int:
        """Discards all of a lane or task, in pages."""
        return await self._link.run(self._link.dead.discard_where(lane=lane, task=task))


class SyncDeadJobs:
    """The blocking twin of `DeadJobs`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def list(
        self, *, lane: str | None = None, task: str | None = None, limit: int = 100
    ) -> list[DeadJob]:
        return self._link.run_sync(self._link.dead.first(lane=lane, task=task, limit=_limit(limit)))

    def iterate(self, *, lane: str | None = None, task: str | None = None) -> Iterator[DeadJob]:
        cursor = START
        while True:
            cursor, jobs = self._link.run_sync(self._link.dead.page(cursor, lane=lane, task=task))
            yield from jobs
            if cursor == START:
                return

    def replay(self, *ids: str) -> Answers:
        return self._link.run_sync(self._link.dead.replay(_ids(ids)))

    def discard(self, *ids: str) -> Answers:
        return self._link.run_sync(self._link.dead.discard(_ids(ids)))

    def replay_all(self, *, lane: str | None = None, task: str | None = None) -> int:
        return self._link.run_sync(self._link.dead.replay_where(lane=lane, task=task))

    def discard_all(self, *, lane: str | None = None, task: str | None = None) -> int:
        return self._link.run_sync(self._link.dead.discard_where(lane=lane, task=task))
