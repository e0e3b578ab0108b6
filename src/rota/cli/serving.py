"""Runs a worker to its end: signals, the loop, and leaving although handlers hang on."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType

from rota.cli.exits import FAILED, INTERRUPTED
from rota.errors import RotaError
from rota.executor import THREADS
from rota.process import Leash
from rota.telling import Logger
from rota.worker import Drained, Worker

logger = Logger("rota.worker")

HELPERS = "rota-helper"
LEAVE_S = 0.3
"""How long the end waits for handlers that were cancelled, and for idle threads to go."""


class _StopSignals:
    """SIGTERM and the first SIGINT stop the worker gently, the second SIGINT ends the process.

    They are handlers of the system's, not of the loop's, so that the second SIGINT also ends a
    process whose loop hangs.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._interrupts = 0

    @contextmanager
    def handled(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._on) for number in _STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                os._exit(INTERRUPTED)
        self._loop.call_soon_threadsafe(self._stop)


_STOPPING = (signal.SIGTERM, signal.SIGINT)


def serve(worker: Worker, *, burst: bool, leash: Leash | None) -> int:
    """Runs the worker until it is stopped; returns the exit code.

    Does not return, but ends the process, when a handler still runs that can be neither
    stopped nor waited for: a plain function in its thread, or one that ignores cancelling.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(worker, burst=burst, leash=leash))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(worker: Worker, *, burst: bool, leash: Leash | None) -> int:
    helpers = ThreadPoolExecutor(thread_name_prefix=HELPERS)
    asyncio.get_running_loop().set_default_executor(helpers)

    def stop() -> None:
        if not worker.stopping:
            logger.info(
                "stopping: waiting up to %g s for %d running jobs",
                worker.config.grace,
                worker.running,
            )
        worker.stop()

    def on_parent_gone() -> None:
        logger.warning("the parent process is gone")
        stop()

    with _StopSignals(stop).handled():
        running = asyncio.create_task(worker.run(burst=burst))
        announcing = asyncio.create_task(_announce(worker, leash))
        if leash is not None:
            leash.watch(on_parent_gone)
        try:
            drained = await running
        except RotaError:
            raise  # a queue could not be reached at the start, or a lifespan's own: nothing runs
        except Exception:
            logger.exception("the worker failed")
            code = FAILED
        else:
            code = 0
            _report(drained)
        finally:
            announcing.cancel()
            if leash is not None:
                leash.unwatch()
            await _close(worker)
            helpers.shutdown(wait=False, cancel_futures=True)
        await _leave_if_held(code)
    return code


def _report(drained: Drained) -> None:
    logger.info(
        "ended: %d jobs done, %d retried, %d dead, %s left",
        drained.done,
        drained.retried,
        drained.dead,
        "an unknown number" if drained.left is None else drained.left,
    )


async def _announce(worker: Worker, leash: Leash | None) -> None:
    await worker.started.wait()
    logger.info("working")
    if leash is not None:
        leash.ready()


async def _close(worker: Worker) -> None:
    for queue in worker.queues:
        await queue.close()


async def _leave_if_held(code: int) -> None:
    """Ends the process here if handlers would keep the interpreter from ending."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=LEAVE_S)
    threads = await _busy_threads()
    if tasks or threads:
        logger.warning(
            "leaving with %d handlers that ignore being cancelled and %d in threads; their jobs "
            "were given back",
            len(tasks),
            threads,
        )
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


async def _busy_threads() -> int:
    """Threads of ours that do not end; idle ones do, now that their pools are shut."""
    deadline = time.monotonic() + LEAVE_S
    while True:
        busy = sum(thread.name.startswith((THREADS, HELPERS)) for thread in threading.enumerate())
        if not busy or time.monotonic() > deadline:
            return busy
        await asyncio.sleep(0.01)
