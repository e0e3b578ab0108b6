"""The blocking twin of `rota.consumer`."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from rota.consume.claims import Claims, Jobs, each
from rota.consume.deliveries import Decode
from rota.consume.station import Station
from rota.link import BlockingFace
from rota.values import config
from rota.values.model import Job
from rota.values.timing import seconds


class SyncConsumer(Claims, BlockingFace):
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
