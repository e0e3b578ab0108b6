"""The entries of one queue that are under way in a worker: their jobs, each in its own task."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import Context, copy_context

from rota.consume.deliveries import Deliveries
from rota.observe import joblog
from rota.values.endings import Failed, Unstarted
from rota.values.model import Job
from rota.values.telling import Logger
from rota.work.executor import Executor
from rota.work.runner import Runner
from rota.work.settling import Settling

logger = Logger("rota.worker")

SUSPECT_PAUSE_S = 1.0
"""How long a job with a death behind it waits for another such job that runs here; then it is
given back, and stays away as long. Not started, it is not blamed if the process dies."""


class Entries:
    """Runs entries: a job, or the jobs of a sequence one after the other.

    Each job has a task of its own, and so a context of its own, in which no other has run. `freed`
    is told when an entry has come to its end, however it did. `may_begin` marks a job with a death
    behind it as started; False: it must not be run.
    """

    def __init__(
        self,
        queue: str,
        *,
        runner: Runner,
        executor: Executor,
        deliveries: Deliveries,
        settling: Settling,
        lease_is_over: Callable[[], bool],
        may_begin: Callable[[Job], Awaitable[bool]],
        freed: Callable[[], None],
    ) -> None:
        self.starting = True
        """Where it is not, what comes to its turn is given back."""
        self._queue = queue
        self._runner = runner
        self._executor = executor
        self._deliveries = deliveries
        self._settling = settling
        self._lease_is_over = lease_is_over
        self._may_begin = may_begin
        self._freed = freed
        self._tasks: dict[Job, _Task | None] = {}
        """By the job each entry is at; None while a task takes its first step where it is made."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def jobs(self) -> list[Job]:
        """The jobs under way, one of each entry. The watchdog's thread asks too: one step."""
        return list(self._tasks)

    # ── from outside ────────────────────────────────────────────────────────────────────────

    def start(self, entries: Iterable[list[Job]]) -> None:
        self._runner.look()
        fresh = copy_context()
        for entry in entries:
            self._begin(entry, fresh)

    async def until_ended(self, patience: float) -> None:
        """Waits, at most so many seconds, for all entries."""
        deadline, left = time.monotonic() + patience, patience
        while left >= 0 and (tasks := [task for task in self._tasks.values() if task is not None]):
            await asyncio.wait(tasks, timeout=left)
            left = deadline - time.monotonic()

    def cancel_all(self) -> None:
        """Cancels the handlers that run; their jobs go back uncounted."""
        for job, task in list(self._tasks.items()):
            if task is not None:
                self._runner.cancelled.add(job)
                task.cancel()

    def interrupt(self, jobs: Iterable[Job]) -> None:
        """Stops the handlers of these jobs that are async and run; what has not begun will not."""
        for job in jobs:
            task = self._tasks.get(job)
            if task is not None and self._executor.awaits(job):
                task.cancel()

    def _begin(self, entry: list[Job], fresh: Context) -> None:
        """The entry's first job, in a copy of the context that is current here."""
        job = entry[0]
        self._tasks[job] = None
        task = self._task(self._run(entry, fresh))
        if job in self._tasks:  # else it has ended already
            self._tasks[job] = task

    def _task(self, run: Coroutine[object, object, None]) -> _Task:
        """A task that, from Python 3.12 on, has taken its first step already: a handler that
        never waits needs no turn of the loop."""
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 12) and loop.get_task_factory() is None:
            return asyncio.Task(run, loop=loop, eager_start=True)
        task = loop.create_task(run)
        task.add_done_callback(self._never_ran)
        return task

    # ── one job of an entry ─────────────────────────────────────────────────────────────────

    async def _run(self, entry: list[Job], fresh: Context) -> None:
        """The first job of `entry`; of a sequence the next follows, once the server has accepted
        the settlement of this one."""
        job, goes_on = entry[0], False
        task = self._tasks[job]
        if task is not None:
            task.remove_done_callback(self._never_ran)  # from here on `finally` does it
        try:
            if not self._may_run(job):
                return
            if job.suspect:
                await self._run_suspect(entry)
            else:
                await self._runner.run(job)
            if len(entry) > 1:
                await self._until_accepted(entry)
                goes_on = True
        except Exception as error:
            self._failed(job, error)
            self._give_back_behind(entry)
        finally:
            # Now, not in a callback: the exchange that carries the ending asks for the slot.
            self._forget(job)
            if goes_on:
                fresh.copy().run(self._begin, entry[1:], fresh)
            else:
                self._freed()

    async def _until_accepted(self, entry: list[Job]) -> None:
        """Until the server has the ending of the entry's job. If that is not waited for (before
        Python 3.13 a handler that cancelled its task as its last act cancels this), what was
        taken behind the job goes back."""
        _calm()
        try:
            await self._settling.answered(entry[0])
        except asyncio.CancelledError:
            self._give_back_behind(entry)
            raise

    def _give_back_behind(self, entry: list[Job]) -> None:
        """What was taken behind the entry's job is not run here; the first takes the rest along."""
        if len(entry) > 1:
            self._settling.end(entry[1], Unstarted())

    def _may_run(self, job: Job) -> bool:
        if self._lease_is_over() or not self._deliveries.is_held(job):
            return False  # given back with the one before it, or another's by now
        if not self.starting:
            self._settling.end(job, Unstarted())  # and with it what was taken behind it
        return self.starting

    async def _run_suspect(self, entry: list[Job]) -> None:
        """A job with a death behind it: alone of its kind in the process, from before the server
        has accepted its start until it has accepted its ending."""
        job = entry[0]
        try:
            async with asyncio.timeout(SUSPECT_PAUSE_S):
                await self._executor.suspect.acquire()
        except TimeoutError:
            self._settling.end(job, Unstarted(SUSPECT_PAUSE_S))
            return
        try:
            may_begin = await self._may_begin(job) and not self._lease_is_over()
            if may_begin:
                await self._runner.run(job)
            else:
                self._settling.end(job, Unstarted())
            await self._until_accepted(entry)
        finally:
            self._executor.suspect.release()

    # ── its end ─────────────────────────────────────────────────────────────────────────────

    def _forget(self, job: Job) -> None:
        self._tasks.pop(job, None)
        self._runner.cancelled.discard(job)

    def _failed(self, job: Job, error: Exception) -> None:
        self._settling.end(job, Failed.by(error))
        logger.error(
            "running job %s failed",
            job.id,
            exc_info=error,
            extra=joblog.fields(self._queue, job),
        )

    def _never_ran(self, ended: _Task) -> None:
        for job, task in list(self._tasks.items()):
            if task is ended:
                self._settling.end(job, Unstarted())
                self._forget(job)
                self._freed()


def _calm() -> None:
    """The task goes on: what asked its handler to stop has had its answer."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


_Task = asyncio.Task[None]
