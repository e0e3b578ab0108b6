"""The blocking twin of `rota.consumer`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from rota.consume.claims import Claim, Claims, Jobs, Nap, each
from rota.consume.deliveries import Decode
from rota.consume.station import Station
from rota.script.loader import Operation
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
        self._station.thread_metronome.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._woken.set()  # a claim under way ends
        self._station.thread_metronome.gone(self)
        self._station.keeper.remove(self.id)
        try:
            self._link.run_sync(self._deliveries.leave())
        finally:
            self._station.thread_metronome.leave()

    def claim(self, n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        return self.exchange(n=n, wait=wait)

    def exchange(self, done: Jobs = (), n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        self._check_open()
        config.whole(n, 1, config.MAX_CLAIM, "n")
        deadline = time.monotonic() + seconds(wait, "wait")
        finished = each(done)
        metronome = self._station.thread_metronome
        with self._turn:
            self._check_open()
            if finished:
                self._check_lease(finished)
            elif not self._is_alive:
                self._link.run_sync(self._join())
            return self._carry_out(self._claim(metronome, finished, n, deadline))

    def _carry_out(self, claim: Claim) -> list[Job]:
        try:
            step = next(claim)
            while True:
                try:
                    got = self._take(step)
                except BaseException as error:
                    step = claim.throw(error)
                else:
                    step = claim.send(got)
        except StopIteration as end:
            jobs: list[Job] = end.value
            return jobs

    def _take(self, step: Operation[Any] | Nap) -> object:
        if not isinstance(step, Nap):
            return self._link.run_sync(step)
        return self._station.thread_metronome.wait(self._woken.is_set, step.until)

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
        return self._link.run_sync(self._start(job))
