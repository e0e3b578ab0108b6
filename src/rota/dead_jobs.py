"""A queue's dead jobs in a user's hands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from rota.link import AsyncFace, BlockingFace, Link, verb
from rota.script.loader import Operation
from rota.values import config, names
from rota.values.listing import JobsPage
from rota.values.model import DeadAnswer, JobInfo

MOST = 100_000
Answers = list[DeadAnswer]


def _ids(ids: Iterable[str]) -> list[str]:
    return [names.job_id(id) for id in ids]


class _DeadVerbs:
    def __init__(self, link: Link) -> None:
        self._link = link

    @verb
    def list(
        self, *, lane: str | None = None, task: str | None = None, limit: int = 100
    ) -> Operation[list[JobInfo]]:
        """At most `limit`, of a lane, of a task, or all; of one lane the oldest first."""
        most = config.whole(limit, 1, MOST, "limit")
        return self._link.inspector.first_dead(lane=lane, task=task, limit=most)

    @verb
    def replay(self, *ids: str) -> Operation[Answers]:
        """Puts jobs back in their places, attempts forgiven: `ok`, `none`, or `unreadable`."""
        return self._link.store.replay(_ids(ids))

    @verb
    def discard(self, *ids: str) -> Operation[Answers]:
        """Deletes jobs for good; their ids are free again, and held sequences go on."""
        return self._link.store.discard(_ids(ids))

    @verb
    def replay_all(self, *, lane: str | None = None, task: str | None = None) -> Operation[int]:
        """Replays all of a lane or task, in pages; what is done when it breaks off stays done."""
        return self._link.store.replay_where(lane=lane, task=task)

    @verb
    def discard_all(self, *, lane: str | None = None, task: str | None = None) -> Operation[int]:
        """Discards all of a lane or task, in pages."""
        return self._link.store.discard_where(lane=lane, task=task)

    def _page(self, cursor: str | None, lane: str | None, task: str | None) -> Operation[JobsPage]:
        return self._link.inspector.jobs(
            "dead", lane=lane, task=task, cursor=cursor, limit=config.MAX_LISTED
        )


class DeadJobs(_DeadVerbs, AsyncFace):
    """Jobs that gave up, kept with their last error until replayed, discarded or too old."""

    async def iterate(
        self, *, lane: str | None = None, task: str | None = None
    ) -> AsyncIterator[JobInfo]:
        """All of them, page by page; of one lane the oldest first."""
        cursor: str | None = None
        while True:
            page = await self._link.run(self._page(cursor, lane, task))
            for job in page.jobs:
                yield job
            cursor = page.cursor
            if cursor is None:
                return


class SyncDeadJobs(_DeadVerbs, BlockingFace):
    """Dead jobs for code without an event loop; its verbs are those of `DeadJobs`."""

    def iterate(self, *, lane: str | None = None, task: str | None = None) -> Iterator[JobInfo]:
        """All of them, page by page; of one lane the oldest first."""
        cursor: str | None = None
        while True:
            page = self._link.run_sync(self._page(cursor, lane, task))
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return
