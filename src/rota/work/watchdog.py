"""Notices an event loop that hangs. It looks from the thread that keeps leases."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import time
from collections.abc import Iterator, Sequence

from rota.consume.lease_thread import lease_thread
from rota.values.telling import Logger, safely
from rota.work.fetcher import Fetcher

logger = Logger("rota.worker")

WARN_AFTER_S = 5.0
HUNG_EXIT = 70
LOOK_MOST_S = 2.0
"""The most that counts from one look to the next: while nobody looked, the whole process stood
still, suspended perhaps, and that is no fault of its loop."""


class Watchdog:
    """Warns, naming the tasks that run, when the loop has not turned for some seconds.

    A loop that hangs longer than the longest time-out of its jobs plus the grace period can
    neither time its jobs out nor stop: the watchdog dumps all stacks and ends the process, so
    that the leases run out and others take the jobs. A job without a time-out may take for ever.
    """

    def __init__(self, fetchers: Sequence[Fetcher], *, grace: float) -> None:
        self._fetchers = fetchers
        self._grace = grace
        self._loop = asyncio.get_running_loop()
        self._turned = self._looked = time.monotonic()
        self._asked = False
        self._counted = 0.0
        self._warned = False
        self.lag = 0.0
        """How many seconds the loop took to turn when it was asked last."""

    @property
    def hung(self) -> float:
        """For how many seconds the loop has not turned, as far as was looked; 0 where it turns."""
        if not self._asked:
            return 0.0
        return self._counted + min(time.monotonic() - self._looked, LOOK_MOST_S)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        lease_thread.watch(self.look)
        try:
            yield
        finally:
            lease_thread.unwatch(self.look)

    def _turn(self) -> None:
        now = time.monotonic()
        self.lag, self._turned = now - self._turned, now
        self._asked = self._warned = False

    def look(self) -> None:
        """Called from that thread about once a second."""
        self._counted, self._looked = self.hung, time.monotonic()
        hung = self._counted
        if not self._asked:
            self._asked = True
            self._turned = self._looked
            try:
                self._loop.call_soon_threadsafe(self._turn)
            except RuntimeError:
                return
        elif hung > self._limit():
            logger.critical(
                "the event loop has hung for %.0f s, longer than any job here may take: "
                "this worker ends",
                hung,
            )
            with safely:
                faulthandler.dump_traceback(all_threads=True)
            os._exit(HUNG_EXIT)
        elif hung > WARN_AFTER_S and not self._warned:
            self._warned = True
            names = sorted({job.task for f in self._fetchers for job in f.running_jobs})
            logger.warning(
                "the event loop has not turned for %.0f s; tasks running: %s (blocking calls "
                "belong in plain functions, which run in threads)",
                hung,
                ", ".join(names),
            )

    def _limit(self) -> float:
        jobs = [job for fetcher in self._fetchers for job in fetcher.running_jobs]
        if not jobs or any(job.timeout is None for job in jobs):
            return float("inf")
        return max(job.timeout or 0.0 for job in jobs) + self._grace
