"""A job by its id."""

from __future__ import annotations

from collections.abc import Sequence

from rota.explain import Explanation, explain_job
from rota.link import AsyncFace, BlockingFace, Link, verb
from rota.script.loader import Operation
from rota.values.listing import RetryAnswer
from rota.values.model import CancelAnswer, JobInfo


class _JobVerbs:
    def __init__(self, id: str, link: Link) -> None:
        self.id = id
        self._link = link

    @verb
    def info(self) -> Operation[JobInfo | None]:
        """The job as it stands; None where there is none: never enqueued, or done."""
        return self._link.inspector.job(self.id)

    @verb
    def explain(self, *, shell: Sequence[str] = ()) -> Operation[Explanation | None]:
        """Why the job is not running now, and what would free it; None where there is none.

        `shell`: as of `Lane.explain`.
        """
        return explain_job(self._link.keys, self.id, shell=shell)

    @verb
    def retry(self) -> Operation[RetryAnswer]:
        """Puts a dead job back in its place, or lets a delayed one fall due now: `ok`.

        Also the head of a sequence that waits for its retry. `waiting`, `running`: it needs no
        help. `none`: there is no such job (any more). `unreadable`: it is dead, and its record is
        damaged.
        """
        return self._link.store.retry(self.id)

    @verb
    def cancel(self, *, by: str | None = None) -> Operation[CancelAnswer]:
        """Deletes the job, or asks whoever runs it to stop; what is done is done.

        `cancelled`: it waited or was delayed, and is gone. `asked`: it is in flight. Its worker
        hears of it with the next beat, at most 5 s unless set otherwise, cancels an async handler
        and runs nothing more of it; a plain function sees `current_job().cancelled`. Unless it
        completes or is buried, it is deleted when it ends, or its worker dies. `dead`: it is among
        the dead and left there. `none`: there is no such job (any more). `by` is kept with the
        flag, at most 1,000 bytes.
        """
        return self._link.store.cancel(self.id, by=by)


class JobHandle(_JobVerbs, AsyncFace):
    """A job by its id, whether there is one or not."""


class SyncJobHandle(_JobVerbs, BlockingFace):
    """A job for code without an event loop; its verbs are those of `JobHandle`."""
