"""The entries of one queue that are under way in a worker: their jobs, each in its own task."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from contextvars import Context, copy_context

from rota.consume.membership import Membership
from rota.errors import RotaError
from rota.observe import joblog, tracing
from rota.observe.observer import SILENT
from rota.queue import Queue
from rota.values.endings import Ending, Failed, Stopped, Unpaced, Unstarted
from rota.values.model import Job
from rota.values.signals import Release, Retry
from rota.values.telling import Logger, safely
from rota.work.caller import Caller
from rota.work.executor import Executor, Run
from rota.work.settling import Settling
from rota.work.slots import Slots

logger = Logger("rota.worker")

SUSPECT_PAUSE_S = 1.0
"""How long a job with a death behind it waits for another such job that runs here; then it is
given back, and stays away as long. Not started, it is not blamed if the process dies."""


class Runner:
    """Runs the handlers of one queue's jobs; an ending is noted first, then it is told."""

    def __init__(
        self, queue: Queue, executor: Executor, settling: Settling, *, state: object
    ) -> None:
        self.queue = queue
        self.executor = executor
        self.observer = SILENT
        self._settling = settling
        self._state = state
        self.look()

    def look(self) -> None:
        """Looks who wants to be told of jobs: once for many of them."""
        self._traced = tracing.is_on()
        self._silent = self.observer is SILENT and not joblog.tells_all()

    async def run(self, run: Run) -> None:
        """Whatever its handler does is an ending."""
        job = run.job
        if job.cancelled:
            self._settling.end(job, Stopped(begun=False))
            return
        job.state = self._state
        job.begin()
        began = time.monotonic()
        if self._traced:
            with tracing.processing(self.queue.name, job) as span:
                ending = await self._execute(run)
                self._settling.end(job, ending)
                tracing.end(span, job, ending)
        else:
            ending = await self._execute(run)
            self._settling.end(job, ending)
        if ending is not None or not self._silent:
            took = time.monotonic() - began
            with safely:
                self.observer.ran(job, took)
            joblog.tell(self.queue.name, job, ending, took)

    async def _execute(self, run: Run) -> Ending:
        try:
            ending = await self.executor.execute(run, self.queue.find_task(run.job.task))
        except asyncio.CancelledError:
            ending = Failed(error="the handler cancelled its own task", kind="CancelledError")
        return None if ending is None else self._judge(run, ending)

    def _judge(self, run: Run, ending: Ending) -> Ending:
        """What its handler's ending means: a stop or a cancel may have brought it about."""
        if isinstance(ending, Failed) and run.stopped:
            return Release()  # whatever it made of being cancelled
        if run.job.cancelled and isinstance(ending, Retry | Release):
            return Stopped(begun=True)
        if isinstance(ending, Release) and not ending.delay:
            return Unpaced()
        return ending


class Entries:
    """Runs entries: a job, or the jobs of a sequence one after the other.

    Each job has a task of its own, and so a context of its own, in which no other has run. When an
    entry has come to its end, however it did, its slot is free again; with the last of them `woken`
    is set.
    """

    def __init__(
        self,
        runner: Runner,
        settling: Settling,
        membership: Membership,
        caller: Caller,
        slots: Slots,
        woken: asyncio.Event,
    ) -> None:
        self.starting = True
        """Where it is not, what comes to its turn is given back."""
        self._runner = runner
        self._settling = settling
        self._membership = membership
        self._caller = caller
        self._slots = slots
        self._woken = woken
        self._runs: dict[Job, Run] = {}
        """Of the job each entry is at."""

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def jobs(self) -> list[Job]:
        """The jobs under way, one of each entry. The watchdog's thread asks too: one step."""
        return list(self._runs)

    # ── from outside ────────────────────────────────────────────────────────────────────────

    def start(self, entries: Iterable[list[Job]]) -> None:
        self._runner.look()
        fresh = copy_context()
        for entry in entries:
            self._begin(entry, fresh)

    async def until_ended(self, patience: float) -> None:
        """Waits, at most so many seconds, for all entries."""
        deadline, left = time.monotonic() + patience, patience
        while left >= 0 and (tasks := [run.task for run in self._runs.values() if run.task]):
            await asyncio.wait(tasks, timeout=left)
            left = deadline - time.monotonic()

    def cancel_all(self) -> None:
        """Cancels the handlers that run; their jobs go back uncounted."""
        for run in list(self._runs.values()):
            if run.task is not None:
                run.stopped = True
                run.task.cancel()

    def interrupt(self, jobs: Iterable[Job]) -> None:
        """Stops the handlers of these jobs that are async and run; what has not begun will not."""
        for job in jobs:
            run = self._runs.get(job)
            if run is not None and run.task is not None and run.awaited:
                run.task.cancel()

    def _begin(self, entry: list[Job], fresh: Context) -> None:
        """The entry's first job, in a copy of the context that is current here."""
        run = self._runs[entry[0]] = Run(entry[0])
        run.task = self._task(self._run(run, entry, fresh))

    def _task(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """A task that, from Python 3.12 on, has taken its first step already: a handler that
        never waits needs no turn of the loop."""
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 12) and loop.get_task_factory() is None:
            return asyncio.Task(coroutine, loop=loop, eager_start=True)
        task = loop.create_task(coroutine)
        task.add_done_callback(self._never_ran)
        return task

    # ── one job of an entry ─────────────────────────────────────────────────────────────────

    async def _run(self, run: Run, entry: list[Job], fresh: Context) -> None:
        """The first job of `entry`; of a sequence the next follows, once the server has accepted
        the settlement of this one."""
        job, goes_on = run.job, False
        if run.task is not None:
            run.task.remove_done_callback(self._never_ran)  # from here on `finally` does it
        try:
            if not self._may_run(job):
                return
            if job.suspect:
                await self._run_suspect(run, entry)
            else:
                await self._runner.run(run)
            if len(entry) > 1:
                await self._until_accepted(entry)
                goes_on = True
        except Exception as error:
            self._failed(job, error)
            self._give_back_behind(entry)
        finally:
            # Now, not in a callback: the exchange that carries the ending asks for the slot.
            del self._runs[job]
            if goes_on:
                fresh.copy().run(self._begin, entry[1:], fresh)
            else:
                self._free()

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
        if self._membership.is_over() or not self._membership.deliveries.has(job):
            return False  # given back with the one before it, or another's by now
        if not self.starting:
            self._settling.end(job, Unstarted())  # and with it what was taken behind it
        return self.starting

    async def _run_suspect(self, run: Run, entry: list[Job]) -> None:
        """A job with a death behind it: alone of its kind in the process, from before the server
        has accepted its start until it has accepted its ending."""
        suspect = self._runner.executor.suspect
        try:
            async with asyncio.timeout(SUSPECT_PAUSE_S):
                await suspect.acquire()
        except TimeoutError:
            self._settling.end(run.job, Unstarted(SUSPECT_PAUSE_S))
            return
        try:
            started = False  # unless the server has marked it as started, it must not be run
            with suppress(RotaError):
                started = await self._caller.call(self._membership.start(run.job))
            if started:
                await self._runner.run(run)
            else:
                self._settling.end(run.job, Unstarted())
            await self._until_accepted(entry)
        finally:
            suspect.release()

    # ── its end ─────────────────────────────────────────────────────────────────────────────

    def _free(self) -> None:
        self._slots.give_back(1)
        if not self._runs:
            self._woken.set()

    def _failed(self, job: Job, error: Exception) -> None:
        self._settling.end(job, Failed.by(error))
        logger.error(
            "running job %s failed",
            job.id,
            exc_info=error,
            extra=joblog.fields(self._runner.queue.name, job),
        )

    def _never_ran(self, task: asyncio.Task[None]) -> None:
        for job, run in list(self._runs.items()):
            if run.task is task:
                self._settling.end(job, Unstarted())
                del self._runs[job]
                self._free()


def _calm() -> None:
    """The task goes on: what asked its handler to stop has had its answer."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
