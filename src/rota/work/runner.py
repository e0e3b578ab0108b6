"""One run of a job's handler as the worker sees it: judged, settled, and told of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rota.observe import joblog, tracing
from rota.observe.meter import SILENT, Observer
from rota.task import AnyTask
from rota.values.endings import Ending, Failed, Stopped, Unpaced
from rota.values.model import Job
from rota.values.signals import Release, Retry
from rota.values.telling import safely
from rota.work.executor import Executor


class Runner:
    """Runs the handlers of one queue's jobs; an ending goes to `end` first, then it is told."""

    def __init__(
        self,
        queue: str,
        *,
        executor: Executor,
        find_task: Callable[[str], AnyTask],
        state: object,
        end: Callable[[Job, Ending], None],
        observer: Observer = SILENT,
    ) -> None:
        self.cancelled: set[Job] = set()
        """Those whose handlers were cancelled by the worker, not by what they do themselves."""
        self._queue = queue
        self._executor = executor
        self._find_task = find_task
        self._state = state
        self._end = end
        self._observer = observer
        self.look()

    @property
    def observer(self) -> Observer:
        return self._observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._observer = observer
        self.look()

    def look(self) -> None:
        """Looks who wants to be told of jobs: once for many of them."""
        self._traced = tracing.is_on()
        self._silent = self._observer is SILENT and not joblog.tells_all()

    async def run(self, job: Job) -> None:
        """Whatever its handler does is an ending."""
        if job.cancelled:
            self._end(job, Stopped(begun=False))
            return
        job.state = self._state
        job.begin()
        began = time.monotonic()
        if self._traced:
            with tracing.processing(self._queue, job) as span:
                ending = await self._execute(job)
                self._end(job, ending)
                tracing.end(span, job, ending)
        else:
            ending = await self._execute(job)
            self._end(job, ending)
        if ending is not None or not self._silent:
            took = time.monotonic() - began
            with safely:
                self._observer.ran(job, took)
            joblog.tell(self._queue, job, ending, took)

    async def _execute(self, job: Job) -> Ending:
        try:
            ending = await self._executor.execute(job, self._find_task(job.task))
        except asyncio.CancelledError:
            ending = Failed(error="the handler cancelled its own task", kind="CancelledError")
        return None if ending is None else self._judge(job, ending)

    def _judge(self, job: Job, ending: Ending) -> Ending:
        """What its handler's ending means: a stop or a cancel may have brought it about."""
        if isinstance(ending, Failed) and job in self.cancelled:
            return Release()  # whatever it made of being cancelled
        if job.cancelled and isinstance(ending, Retry | Release):
            return Stopped(begun=True)
        if isinstance(ending, Release) and not ending.delay:
            return Unpaced()
        return ending
