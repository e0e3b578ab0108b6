"""The blocking twin of `rota.consumer`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from datetime import timedelta

from rota.consume.claims import Claims, Jobs, each
from rota.consume.deliveries import Decode
from rota.consume.station import Station
from rota.values import config
from rota.values.endings import Ending
from rota.values.model import Answer, Job
from rota.values.signals import Bury, Release, Retry
from rota.values.timing import seconds


class SyncConsumer(Claims):
    """The blocking twin of `Consumer`; used by one thread at a time."""

    def __init__(
        self, station: Station, *, lease: float | timedelta, prefetch: int, decode: Decode
    ) -> None:
        super().__init__(station, lease=lease, prefetch=prefetch, decode=decode)
        self._woken: threading.Event = threading.Event()
        self._turn = threading.Lock()

    def __enter__(self) -> SyncConsumer:
        self._open = True
        try:
            self._link.run_sync(self._join())
        except BaseException:
            self._open = False
            raise
        self._station.thread_bell.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._woken.set()  # a claim under way ends
        self._station.thread_bell.gone(self)
        try:
            self._link.run_sync(self._membership.leave())
        finally:
            self._station.thread_bell.leave()

    def claim(self, n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        return self.exchange(n=n, wait=wait)

    def exchange(self, done: Jobs = (), n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        self._check_open()
        config.whole(n, 1, config.MAX_CLAIM, "n")
        deadline = time.monotonic() + seconds(wait, "wait")
        with self._turn:
            return self._claim(each(done), n, deadline)

    def _claim(self, done: list[Job], n: int, deadline: float) -> list[Job]:
        self._link.run_sync(self._prepare(done))
        bell = self._station.thread_bell
        try:
            while True:
                jobs = self._link.run_sync(self._look(bell, done, n, deadline))
                if jobs is not None or not bell.wait(self._woken.is_set, deadline):
                    return jobs or []
                done = []
        finally:
            bell.gone(self)

    def complete(self, jobs: Jobs) -> list[Answer]:
        return self.settle([(job, None) for job in each(jobs)])

    def retry(
        self, jobs: Jobs, *, delay: float | timedelta | None = None, error: str | None = None
    ) -> list[Answer]:
        return self.settle([(job, Retry(delay, error)) for job in each(jobs)])

    def release(self, jobs: Jobs, *, delay: float | timedelta = 0) -> list[Answer]:
        return self.settle([(job, Release(delay)) for job in each(jobs)])

    def bury(self, jobs: Jobs, reason: str) -> list[Answer]:
        return self.settle([(job, Bury(reason)) for job in each(jobs)])

    def settle(self, pairs: Iterable[tuple[Job, Ending]]) -> list[Answer]:
        return self._link.run_sync(self._settle(pairs))

    def start(self, job: Job) -> bool:
        return self._link.run_sync(self._membership.start(job))
