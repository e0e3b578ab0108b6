"""A job by its id."""

from __future__ import annotations

from rota.link import Link
from rota.model import JobInfo


class JobHandle:
    def __init__(self, id: str, link: Link) -> None:
        self.id = id
        self._link = link

    async def info(self) -> JobInfo | None:
        """The job as it stands; None where there is none: never enqueued, or done."""
        return await self._link.run(self._link.inspector.job(self.id))


class SyncJobHandle:
    """The blocking twin of `JobHandle`."""

    def __init__(self, id: str, link: Link) -> None:
        self.id = id
        self._link = link

    def info(self) -> JobInfo | None:
        return self._link.run_sync(self._link.inspector.job(self.id))
