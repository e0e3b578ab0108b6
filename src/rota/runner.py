"""One run of a job's handler as the worker sees it: traced, measured, logged, and judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rota import joblog, tracing
from rota.endings import Ending, Failed, Stopped
from rota.executor import Executor
from rota.meter import SILENT, Observer
from rota.model import Job
from rota.signals import Release, Retry
from rota.task import AnyTask


class Runner:
    """Runs the handlers of one queue's jobs."""

    def __init__(
        self,
        queue: str,
        *,
        executor: Executor,
        find_task: Callable[[str], AnyTask],
        state: object,
        observer: Observer = SILENT,
    ) -> None:
        self.cancelled: set[Job] = set()
        """Those whose handlers were cancelled by the worker, not by what they do themselves."""
        self._queue = queue
        self._executor = executor
        self._find_task = find_task
        self._state = state
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

    async def run(self, job: Job) -> Ending:
        """Raises nothing: whatever its handler does is an ending."""
        if job.cancelled:
            return Stopped(begun=False)
        job.state = self._state
        job.begin()
        began = time.monotonic()
        ending = await (self._run_traced(job) if self._traced else self._execute(job))
        if ending is not None or not self._silent:
            took = time.monotonic() - began
            self._observer.ran(job, took)
            joblog.tell(self._queue, job, ending, took)
        return ending

    async def _run_traced(self, job: Job) -> Ending:
        with tracing.processing(self._queue, job) as span:
            ending = await self._execute(job)
            tracing.end(span, job, ending)
        return ending

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
        return ending
