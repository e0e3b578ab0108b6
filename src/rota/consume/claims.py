"""The rules of a consumer in a user's hands, without I/O, for its async and its blocking face.

A claim is a generator: a face carries out its steps and adds nothing of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rota.connection.faults import Lost
from rota.consume.deliveries import Decode, Deliveries, Taken
from rota.consume.metronome import Metronome
from rota.consume.station import Station
from rota.consume.thread_metronome import ThreadMetronome
from rota.errors import ConfigError, LeaseLost
from rota.script.loader import Operation
from rota.values import config
from rota.values.endings import Ending, check_ending, settlement
from rota.values.listing import Order
from rota.values.model import Answer, Job
from rota.values.timing import seconds

Jobs = Job | Iterable[Job]


def each(jobs: Jobs) -> list[Job]:
    return [jobs] if isinstance(jobs, Job) else list(jobs)


@dataclass(frozen=True, slots=True)
class Nap:
    """What a claim yields to sleep; it is sent whether it was poked before `until`, by the
    monotonic clock."""

    until: float


Claim = Generator[Operation[Any] | Nap, Any, list[Job]]
"""A claim, step by step: it yields operations, is sent what they return or thrown what they raise,
and returns the jobs it has brought."""


class Claims:
    """State and rules; `Consumer` and `SyncConsumer` add the waiting."""

    _woken: asyncio.Event | threading.Event

    def __init__(
        self, station: Station, *, lease: float | timedelta, prefetch: int, decode: Decode
    ) -> None:
        self._station = station
        self._link = station.link
        self._lease = config.number(
            seconds(lease, "lease"), config.MIN_LEASE_S, config.MAX_LEASE_S, "lease"
        )
        self._prefetch = config.whole(prefetch, 1, config.MAX_PREFETCH, "prefetch")
        self._deliveries = Deliveries(
            station.link.store, lease_ms=round(self._lease * 1000), decode=decode
        )
        self.asked: Order | None = None
        """What someone asked of this process by `queue.quiet` or `queue.stop`; it is up to you."""
        self._lost = False
        self._open = False

    @property
    def id(self) -> str:
        """The consumer's present identity; a new one after its lease was lost."""
        return self._deliveries.id

    @property
    def held(self) -> list[Job]:
        """The jobs in its hands, in the order they were claimed."""
        return list(self._deliveries.held.values())

    def _lose(self, consumer: str) -> None:
        """The lease of that name is lost: what it held is, or will be, others'."""
        self._station.keeper.lose(consumer)
        if consumer == self.id:  # else it has started anew already
            self._lost = True

    def _mark_asked(self, word: Order) -> None:
        self.asked = word

    def _join(self) -> Operation[None]:
        """Starts under a fresh identity. The lease counts from before the server made it."""
        self._check_open()
        self._station.keeper.remove(self.id)
        since, seconds = yield from self._deliveries.join()
        if not self._open:  # its block has ended meanwhile
            yield from self._deliveries.leave()
            self._check_open()
        self._lost = False
        self._station.keeper.add(
            self.id,
            self._lease,
            self._lose,
            self._deliveries.let_go,
            self._deliveries.mark_cancelled,
            self._mark_asked,
            hold=self._deliveries,
            since=since,
            seconds=seconds,
        )
        yield from self._deliveries.leave_former()

    def _check_open(self) -> None:
        if not self._open:
            raise ConfigError("consumer: expected to be used inside its `with` block")

    @property
    def _is_alive(self) -> bool:
        return not self._lost and self._station.keeper.is_alive(self.id)

    def _check_lease(self, jobs: Iterable[Job]) -> None:
        if not self._is_alive:
            self._lose(self.id)
        if self._lost or any(self._deliveries.is_of_lost_lease(job) for job in jobs):
            raise LeaseLost(f"the lease of consumer {self.id} is gone: its jobs are others' now")

    def _settle(self, pairs: Iterable[tuple[Job, Ending]]) -> Operation[list[Answer]]:
        pairs = list(pairs)
        for _, ending in pairs:
            check_ending(ending)
        settlements = [settlement(job, ending) for job, ending in pairs]
        self._check_lease(job for job, _ in pairs)
        asked = self.id
        answers = yield from self._deliveries.settle(settlements)
        if "lost" in answers:
            self._lose(asked)
            raise LeaseLost(f"the lease of consumer {asked} is gone: its jobs are others' now")
        return answers

    def _beat(self) -> Operation[float | None]:
        return self._link.store.beat(watched_ms=self._station.keeper.watched_ms)

    def _reconcile(self) -> Operation[object]:
        try:
            return (yield from self._deliveries.reconcile())
        except LeaseLost:
            self._lose(self.id)
            raise

    def _start(self, job: Job) -> Operation[bool]:
        may_start = yield from self._deliveries.start(job)
        self._check_lease([job])  # the answer may have come after its end
        return may_start

    def _exchange(self, done: list[Job], n: int, *, park: bool) -> Operation[Taken]:
        try:
            taken = yield from self._deliveries.exchange(
                want=n, prefetch=self._prefetch, park=park, done=done
            )
        except LeaseLost:
            self._lose(self.id)
            raise
        if taken.reply.status == "lost":
            self._lose(self.id)
        if taken.entries and not self._is_alive:
            # It stood still since it sent the claim: others may run these jobs by now.
            self._lose(self.id)
            self._deliveries.let_go(taken.jobs)
            if not done:
                raise LeaseLost(f"the lease of consumer {self.id} is gone")
            return Taken([], taken.reply)
        return taken

    def poke(self) -> None:
        self._woken.set()

    def _claim(
        self, bell: Metronome | ThreadMetronome, done: list[Job], n: int, deadline: float
    ) -> Claim:
        """Completes `done` and claims, until something came or `deadline` has passed."""
        try:
            return (yield from self._look(bell, done, n, deadline))
        except BaseException:
            bell.gone(self)  # else the bell would wait for a claim that is not sent
            raise

    def _look(
        self, bell: Metronome | ThreadMetronome, done: list[Job], n: int, deadline: float
    ) -> Claim:
        while True:
            self._woken.clear()  # before it looks: the end of its block wakes it
            self._check_open()
            park = time.monotonic() < deadline
            if self._deliveries.unsure:
                yield self._reconcile()
                bell.failed(self)  # again: only now can the lost claim act no more
            bell.sending(self)
            try:
                taken: Taken = yield self._exchange(done, n, park=park)
            except BaseException as error:
                bell.failed(self)
                if isinstance(error, Lost):
                    continue
                if isinstance(error, LeaseLost) and not done and not self.held:
                    yield self._join()
                    continue
                raise
            done = []
            reply = taken.reply
            if self._lost and not taken.entries:  # and yet what was done counts: no reason to raise
                bell.failed(self)
                bell.gone(self)
                return []
            if self._deliveries.unsure:
                bell.failed(self)
                continue
            if len(reply.entries) >= n:
                bell.busy(self, left=reply.left)
                return taken.jobs
            if reply.due == 0 and not reply.entries:
                yield self._beat()
                if park:
                    continue
            bell.idle(self, due_in=reply.due, taken=bool(reply.entries), left=reply.left)
            poked = park and not taken.entries and (yield Nap(deadline))
            if not poked:
                bell.gone(self)
                return taken.jobs
