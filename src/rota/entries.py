"""The entries of one queue that are under way in a worker: one task each, from start to end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable

from rota import joblog
from rota.deliveries import Deliveries
from rota.endings import Failed, Unstarted
from rota.executor import Executor
from rota.model import Job
from rota.runner import Runner
from rota.settling import Settling
from rota.telling import Logger

logger = Logger("rota.worker")

SUSPECT_PAUSE_S = 1.0
"""How long a job with a death behind it waits for another such job that runs here; then it is
given back, and stays away as long. Not started, it is not blamed if the process dies."""


class Entries:
    """Runs entries: a job, or the jobs of a sequence one after the other.

    Each entry has a task of its own, and so a context of its own. `freed` is told when an entry
    has come to its end, however it did. `may_begin` marks a job with a death behind it as
    started; False: it must not be run.
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
        """By the job each is at; None while a task takes its first step where it is made."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def jobs(self) -> list[Job]:
        """The jobs under way, one of each entry. The watchdog's thread asks too: one step."""
        return list(self._tasks)

    # ── from outside ────────────────────────────────────────────────────────────────────────

    def start(self, entries: Iterable[list[Job]]) -> None:
        loop = asyncio.get_running_loop()
        self._runner.look()
        for entry in entries:
            job = entry[0]
            self._tasks[job] = None
            task = self._begin(self._run(entry), loop)
            if job in self._tasks:  # else it has ended already
                self._tasks[job] = task

    async def until_ended(self, patience: float) -> None:
        """Waits, at most so many seconds, for the entries that run now."""
        tasks = [task for task in self._tasks.values() if task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)

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

    def _begin(
        self, entry: Coroutine[object, object, None], loop: asyncio.AbstractEventLoop
    ) -> _Task:
        """A task that, from Python 3.12 on, has taken its first step already: a handler that
        never waits needs no turn of the loop."""
        if sys.version_info >= (3, 12) and loop.get_task_factory() is None:
            return asyncio.Task(entry, loop=loop, eager_start=True)
        task = loop.create_task(entry)
        task.add_done_callback(self._never_ran)
        return task

    # ── one entry ───────────────────────────────────────────────────────────────────────────

    async def _run(self, entry: list[Job]) -> None:
        """`entry` loses the jobs that are through; its first is the one it is at."""
        task = self._tasks[entry[0]]
        if task is not None:
            task.remove_done_callback(self._never_ran)  # from here on `finally` does it
        try:
            while self._may_run(entry[0]):
                if entry[0].suspect:
                    await self._run_suspect(entry)
                else:
                    await self._runner.run(entry[0])
                if len(entry) == 1:
                    break
                await self._go_on(entry)
        except Exception as error:
            self._failed(entry[0], error)
            self._give_back_behind(entry)
        finally:
            # Now, not in a callback: the exchange that carries the ending asks for the slot.
            self._over(entry[0])

    async def _go_on(self, entry: list[Job]) -> None:
        """To a sequence's next job, once the server has accepted the settlement of this one."""
        job = entry[0]
        await self._until_accepted(entry)
        self._runner.cancelled.discard(job)
        del entry[0]
        self._tasks[entry[0]] = self._tasks.pop(job)

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

    def _over(self, job: Job) -> None:
        self._tasks.pop(job, None)
        self._runner.cancelled.discard(job)
        self._freed()

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
                self._over(job)


def _calm() -> None:
    """The task goes on: what asked its handler to stop has had its answer."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


_Task = asyncio.Task[None]
