"""A job by its id."""

from __future__ import annotations

from rota.explain import Explanation
from rota.link import Link
from rota.values.listing import RetryAnswer
from rota.values.model import CancelAnswer, JobInfo


class JobHandle:
    def __init__(self, id: str, link: Link) -> None:
        self.id = id
        self._link = link

    async def info(self) -> JobInfo | None:
        """The job as it stands; None where there is none: never enqueued, or done."""
        return await self._link.run(self._link.inspector.job(self.id))

    async def explain(self) -> Explanation | None:
        """Why the job is not running now, and what would free it; None where there is none."""
        return await self._link.run(self._link.explainer.job(self.id))

    async def retry(self) -> RetryAnswer:
        """Puts a dead job back in its place, or lets a delayed one fall due now: `ok`.

        Also the head of a sequence that waits for its retry. `waiting`, `running`: it needs no
        help. `none`: there is no such job (any more). `unreadable`: it is dead, and its record is
        damaged.
        """
        return await self._link.run(self._link.store.retry(self.id))

    async def cancel(self, *, by: str | None = None) -> CancelAnswer:
        """Deletes the job, or asks whoever runs it to stop; what is done is done.

        `cancelled`: it waited or was delayed, and is gone. `asked`: it is in flight. Its worker
        hears of it with the next beat, at most 5 s unless set otherwise, cancels an async handler
        and runs nothing more of it; a plain function sees `current_job().cancelled`. Unless it
        completes or is buried, it is deleted when it ends, or its worker dies. `dead`: it is among
        the dead and left there. `none`: there is no such job (any more). `by` is kept with the
        flag, at most 1,000 bytes.
        """
        return await self._link.run(self._link.store.cancel(self.id, by=by))


class SyncJobHandle:
    """The blocking twin of `JobHandle`."""

    def __init__(self, id: str, link: Link) -> None:
        self.id = id
        self._link = link

    def info(self) -> JobInfo | None:
        return self._link.run_sync(self._link.inspector.job(self.id))

    def explain(self) -> Explanation | None:
        return self._link.run_sync(self._link.explainer.job(self.id))

    def retry(self) -> RetryAnswer:
        return self._link.run_sync(self._link.store.retry(self.id))

    def cancel(self, *, by: str | None = None) -> CancelAnswer:
        return self._link.run_sync(self._link.store.cancel(self.id, by=by))
