"""Runs a worker to its end: signals, the loop, and leaving although handlers hang on."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rota.cli.exits import FAILED, INTERRUPTED
from rota.errors import RotaError
from rota.values.telling import Logger
from rota.work.executor import THREADS
from rota.work.fetcher import Fetcher
from rota.work.supervisor import HURRY_S, Leash, stop_signals
from rota.work.watchdog import HUNG_EXIT
from rota.worker import SLUGGISH_S, Worker

logger = Logger("rota.worker")

HELPERS = "rota-helper"
LEAVE_S = 0.3
"""How long the end waits for handlers that were cancelled, and for idle threads to go."""
HANDLED = 0x80
LOOK_S = 0.1
"""How often a process that stops is looked at: whether its loop turns, whether its time is over."""


class _Stops:
    """Every way in which this process is told to stop, counted: the first lets running jobs end,
    the second gives them back at once, the third ends the process as it is.

    It counts its own signals, and hears what its parent has counted: the same Ctrl-C or `systemctl
    stop` may reach both, so the higher count holds. A thread listens, and ends the process also
    where the event loop hangs.
    """

    def __init__(self, worker: Worker, leash: Leash | None) -> None:
        self._worker = worker
        self._leash = leash
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[int, Any] = {}
        self._sent = self._handled = 0
        self._over = self._orphaned = False
        self.count = 0
        self._told_loop = 0
        self._turned = True
        self._silent = 0.0
        self._hurried: float | None = None
        self._code = INTERRUPTED
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """While this lasts the signals are handled; children that are forked have the handlers that
        were there before."""
        global _active
        self._before = {number: signal.signal(number, self._on) for number in stop_signals()}
        signal.set_wakeup_fd(self._mouth, warn_on_full_buffer=False)
        _active = self
        threading.Thread(target=self._listen, name="rota-stops", daemon=True).start()
        if self._leash is not None:
            self._leash.say("listens")
        try:
            yield
        finally:
            _active = None
            self._put_back()
            other = signal.set_wakeup_fd(-1)
            if other != self._mouth:
                signal.set_wakeup_fd(other)
            self._over = True
            self._say(b"\0")

    def attach(self) -> None:
        """From now on the running loop is told."""
        self._loop = asyncio.get_running_loop()
        self._say(b"\0")

    def _on(self, number: int, _: FrameType | None) -> None:
        """A signal is also written by the system's own handler, and at once: this one may wait for
        a main thread that hangs. But a loop that has handlers of its own takes that away."""
        self._say(bytes([number | HANDLED]))

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # full: so many signals have been sent
            os.write(self._mouth, word)

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._on:  # else someone else's stands there by now
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def forked(self) -> None:
        """In the child: a signal must neither wait for a loop that does not run there, nor be told
        to the parent's."""
        self._put_back()
        signal.set_wakeup_fd(-1)

    # ── the thread ──────────────────────────────────────────────────────────────────────────

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            if self._leash is not None:
                selector.register(self._leash, selectors.EVENT_READ)
            looked = time.monotonic()
            while not self._over or self.count > 1:
                for key, _ in selector.select(LOOK_S if self.count else None):
                    if key.fd == self._ear:
                        words = os.read(self._ear, 64)
                        self._sent += sum(word in self._before for word in words)
                        self._handled += sum(word >= HANDLED for word in words)
                        self._count(max(self._sent, self._handled))
                    elif self._leash is not None:
                        times = self._leash.hear()
                        if times is None:  # the parent is gone: a stop, like the first
                            selector.unregister(self._leash)
                            self._orphaned = True
                        self._count(1 if times is None else times)
                now = time.monotonic()
                self._look(min(now - looked, 2 * LOOK_S))
                looked = now

    def _count(self, times: int) -> None:
        self.count = max(self.count, times)
        if self.count > 2:
            os._exit(INTERRUPTED)
        if self._loop is not None and self.count > self._told_loop:
            self._told_loop = self.count
            self._call(self._stop)

    def _look(self, passed: float) -> None:
        """`passed`: since the last look, and not more than was looked for: the whole machine may
        have stood still."""
        if self._loop is None or not self.count:
            return
        if self._turned:
            self._turned, self._silent = False, 0.0
            self._call(self._turn)
        else:
            self._silent += passed
        if self._hurried is None:
            if self._silent > max(self._worker.config.grace, SLUGGISH_S):
                self._code = HUNG_EXIT
            elif self.count < 2:
                return
            self._hurried = 0.0
        before, self._hurried = self._hurried, self._hurried + passed
        if before <= HURRY_S / 2 < self._hurried:
            self._give_back()
        elif self._hurried > HURRY_S:
            os._exit(self._code)

    def _give_back(self) -> None:
        """For the loop, in threads: it hangs, or waits for what takes too long."""
        threading.Thread(target=self._tell, daemon=True).start()  # a log may block as well
        for fetcher in self._worker.fetchers:
            threading.Thread(target=_evict, args=(fetcher,), daemon=True).start()

    def _tell(self) -> None:
        logger.critical(
            "%s: its jobs are given back, and this process ends",
            "the event loop hangs" if self._silent > LOOK_S else "the stop takes too long",
        )

    def _call(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # it is closed
            if self._loop is not None:
                self._loop.call_soon_threadsafe(what)

    # ── in the loop ─────────────────────────────────────────────────────────────────────────

    def _turn(self) -> None:
        self._turned = True

    def _stop(self) -> None:
        worker = self._worker
        if self._orphaned:
            logger.warning("the parent process is gone")
        if self.count > 1:
            logger.info("stopping at once: %d running jobs are given back", worker.running)
        elif not worker.stopping:
            logger.info(
                "stopping: waiting up to %g s for %d running jobs",
                worker.config.grace,
                worker.running,
            )
        worker.stop(now=self.count > 1)


def _evict(fetcher: Fetcher) -> None:
    try:
        fetcher.evict()
    except RotaError as error:
        logger.warning(
            "queue %s: its jobs cannot be given back, its lease will run out: %s",
            fetcher.queue.name,
            error,
        )


_active: _Stops | None = None
_masks = threading.local()


def _before_fork() -> None:
    """A signal that reaches the child before it has its own handlers would be lost."""
    _masks.before = (
        None if _active is None else signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals())
    )


def _after_fork() -> None:
    if _masks.before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _after_fork_in_child() -> None:
    global _active
    stops, _active = _active, None
    if stops is not None:
        stops.forked()
    _after_fork()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)


def serve(
    worker: Worker, *, burst: bool, leash: Leash | None, set_up_logs: Callable[[], None]
) -> int:
    """Runs the worker until it is stopped; returns the exit code.

    Does not return, but ends the process, when a handler still runs that can be neither
    stopped nor waited for: a plain function in its thread, or one that ignores cancelling.
    """
    stops = _Stops(worker, leash)
    with stops.handled(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        serving = _serve(worker, stops, burst=burst, leash=leash, set_up_logs=set_up_logs)
        return runner.run(serving)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(
    worker: Worker,
    stops: _Stops,
    *,
    burst: bool,
    leash: Leash | None,
    set_up_logs: Callable[[], None],
) -> int:
    helpers = ThreadPoolExecutor(thread_name_prefix=HELPERS)
    asyncio.get_running_loop().set_default_executor(helpers)
    if leash is not None:
        worker.holding = leash.holding
    stops.attach()
    running = asyncio.create_task(worker.run(burst=burst))
    announcing = asyncio.create_task(_announce(worker, leash, set_up_logs))
    try:
        drained = await running
    except RotaError:
        raise  # a queue could not be reached at the start, or a lifespan's own: nothing runs
    except Exception:
        logger.exception("the worker failed")
        code = FAILED
    else:
        code = INTERRUPTED if stops.count > 1 else 0
        logger.info(
            "ended: %d jobs done, %d retried, %d dead, %s left",
            drained.done,
            drained.retried,
            drained.dead,
            "an unknown number" if drained.left is None else drained.left,
        )
    finally:
        announcing.cancel()
        for queue in worker.queues:
            await queue.close()
        helpers.shutdown(wait=False, cancel_futures=True)
    await _leave_if_held(code)
    return code


async def _announce(worker: Worker, leash: Leash | None, set_up_logs: Callable[[], None]) -> None:
    await worker.started.wait()
    set_up_logs()  # again: a lifespan may have set up others
    logger.info("working")
    if leash is not None:
        leash.say("works")


async def _leave_if_held(code: int) -> None:
    """Ends the process here if something would keep the interpreter from ending."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=LEAVE_S)
    threads = await _busy_threads()
    if tasks or threads:
        logger.warning(
            "leaving with %d tasks that ignore being cancelled and %d threads that do not end: "
            "handlers, whose jobs were given back, or a lifespan",
            len(tasks),
            threads,
        )
        if "multiprocessing" in sys.modules:  # of handlers: nobody else would end them
            for child in sys.modules["multiprocessing"].active_children():
                child.terminate()
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
