"""Runs one job's handler and says how the job ends. Knows nothing of the server."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

from rota.task import AnyTask
from rota.values.endings import Ending, Failed
from rota.values.model import Job
from rota.values.signals import Bury, RateLimited, Release, Retry, Signal, strongest
from rota.values.telling import Logger

logger = Logger("rota.executor")

THREADS = "rota-job"
"""How the names of threads that run handlers begin."""

_CURRENT: ContextVar[Job] = ContextVar("rota_current_job")


def current_job() -> Job:
    """The job whose handler is running here; raises LookupError outside a handler."""
    try:
        return _CURRENT.get()
    except LookupError:
        raise LookupError("current_job: no job's handler is running here") from None


class Run:
    """A job under way, and what is known of its handler."""

    __slots__ = ("awaited", "job", "stopped", "task")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.task: asyncio.Task[None] | None = None
        """None while it takes its first step where it is made."""
        self.awaited = False
        """Whether cancelling the task stops the handler: a thread cannot be stopped, and before and
        after the handler there is nothing to stop."""
        self.stopped = False
        """Whether the worker has cancelled the task, and not the handler itself."""


class Executor:
    """Async handlers run on the loop, plain functions in threads of its own.

    A time-out cancels an async handler. A thread cannot be stopped: its slot stays taken until
    the function returns, and its result stands, so that never two runs of one job overlap.
    """

    def __init__(self, *, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=THREADS)
        self.suspect = asyncio.Lock()
        """Held by the one job with a death behind it that may run in this process."""

    async def execute(self, run: Run, task: AnyTask) -> Ending:
        """Runs the handler; raises CancelledError only when it was cancelled from outside."""
        job = run.job
        _CURRENT.set(job)
        scope: asyncio.Timeout | None = None
        try:
            if task.is_async:
                answer = task.function(*job.args, **job.kwargs)
            else:
                answer = await self._in_thread(job, task)
            if inspect.isawaitable(answer):  # an async handler behind a plain wrapper is one too
                run.awaited = True
                if job.timeout is None:
                    answer = await answer
                else:
                    async with asyncio.timeout(job.timeout) as scope:
                        answer = await answer
            if answer is not None and (what := _unrun(answer)) is not None:
                return Failed(error=f"the handler returned {what}", kind="TypeError")
        except Signal as signal:
            return _ending(signal)
        except BaseExceptionGroup as group:
            found = strongest(group)
            return Failed.by(group) if found is None else _ending(found)
        except TimeoutError as error:
            if scope is not None and scope.expired():
                return Failed(error=f"timed out after {job.timeout:g} s", kind="TimeoutError")
            return Failed.by(error)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return Failed(error="the handler cancelled itself", kind="CancelledError")
        except BaseException as error:  # also SystemExit, and what libraries raise past Exception
            if isinstance(error, GeneratorExit) and _CURRENT.get(None) is not job:
                raise  # not the handler's own: what is left of an ended loop is closed
            return Failed.by(error)
        finally:
            run.awaited = False
        return None

    async def _in_thread(self, job: Job, task: AnyTask) -> object:
        context = contextvars.copy_context()
        began = time.monotonic()
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, context.run, _call, job, task
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_read_outcome)
            work.cancel()  # if no thread has begun it, none will
            raise
        finally:
            took = time.monotonic() - began
            if job.timeout is not None and took > job.timeout:
                logger.warning(
                    "task %s ran %.1f s in its thread, over its time-out of %g s; a thread "
                    "cannot be stopped (job %s)",
                    task.name,
                    took,
                    job.timeout,
                    job.id,
                )

    def close(self) -> None:
        """Starts nothing more; threads that still run are left to themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _read_outcome(work: asyncio.Future[object]) -> None:
    """Of a thread nobody waits for any more: an error unread would be logged as forgotten."""
    if not work.cancelled():
        work.exception()


def _call(job: Job, task: AnyTask) -> object:
    """In the thread. Neither of these can pass through a future: the job would never end."""
    try:
        return task.function(*job.args, **job.kwargs)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


def _ending(signal: Signal) -> Ending:
    if isinstance(signal, Retry | Release | RateLimited | Bury):
        return signal
    return Failed.by(signal)


def _unrun(answer: object) -> str | None:
    """What a handler's answer is, where its body has not run and nobody will run it."""
    if inspect.isgenerator(answer) and inspect.getgeneratorstate(answer) == inspect.GEN_CREATED:
        return "a generator, whose body nobody runs: iterate over it in the handler"
    if inspect.isasyncgen(answer) and answer.ag_frame is not None:
        return "an async generator, whose body nobody runs: `async for` in the handler runs it"
    if inspect.iscoroutine(answer) and inspect.getcoroutinestate(answer) == inspect.CORO_CREATED:
        answer.close()  # it is known now, and need not warn
        return "a coroutine, whose body nobody runs: await it in the handler"
    return None
