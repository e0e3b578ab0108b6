"""A queue's dead jobs in a user's hands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from rota.link import AsyncFace, BlockingFace, Link, verb
from rota.script.loader import Operation
from rota.store.dead import START
from rota.values import config, names
from rota.values.model import DeadAnswer, DeadJob

MAX_LISTED = 100_000
Answers = list[DeadAnswer]


def _ids(ids: Iterable[str]) -> list[str]:
    return [names.job_id(id) for id in ids]


def _limit(limit: int) -> int:
    return config.whole(limit, 1, MAX_LISTED, "limit")


class _DeadVerbs:
    def __init__(self, link: Link) -> None:
        self._link = link

    @verb
    def list(
        self, *, lane: str | None = None, task: str | None = None, limit: int = 100
    ) -> Operation[list[DeadJob]]:
        """The first `limit`, oldest first, of a lane, of a task, or all."""
        return self._link.dead.first(lane=lane, task=task, limit=_limit(limit))

    @verb
    def replay(self, *ids: str) -> Operation[Answers]:
        """Puts jobs back in their places, attempts forgiven: `ok`, `none`, or `unreadable`."""
        return self._link.dead.replay(_ids(ids))

    @verb
    def discard(self, *ids: str) -> Operation[Answers]:
        """Deletes jobs for good; their ids are free again, and held sequences go on."""
        return self._link.dead.discard(_ids(ids))

    @verb
    def replay_all(self, *, lane: str | None = None, task: str | None = None) -> Operation[int]:
        """Replays all of a lane or task, in pages; what is done when it breaks off stays done."""
        return self._link.dead.replay_where(lane=lane, task=task)

    @verb
    def discard_all(self, *, lane: str | None = None, task: str | None = None) -> Operation[int]:
        """Discards all of a lane or task, in pages."""
        return self._link.dead.discard_where(lane=lane, task=task)


class DeadJobs(_DeadVerbs, AsyncFace):
    """Jobs that gave up, kept with their last error until replayed, discarded or too old."""

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


class SyncDeadJobs(_DeadVerbs, BlockingFace):
    """Dead jobs for code without an event loop; its verbs are those of `DeadJobs`."""

    def iterate(self, *, lane: str | None = None, task: str | None = None) -> Iterator[DeadJob]:
        """All of them, page by page, oldest first."""
        cursor = START
        while True:
            cursor, jobs = self._link.run_sync(self._link.dead.page(cursor, lane=lane, task=task))
            yield from jobs
            if cursor == START:
                return
