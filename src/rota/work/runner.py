"""One run of a job's handler as the worker sees it: judged, settled, and told of."""

from __future__ import annotations

import asyncio
import time

from rota.observe import joblog, tracing
from rota.observe.observer import SILENT
from rota.queue import Queue
from rota.values.endings import Ending, Failed, Stopped, Unpaced
from rota.values.signals import Release, Retry
from rota.values.telling import safely
from rota.work.executor import Executor, Run
from rota.work.settling import Settling


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
