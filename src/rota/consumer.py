"""Consumers in a user's hands: claim, then settle; the lease is kept meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import TracebackType

from rota import config
from rota.connection.faults import Lost
from rota.deliveries import Decode, Deliveries, Taken
from rota.endings import Ending, check_ending, settlement
from rota.errors import ConfigError, LeaseLost, RotaError
from rota.listing import Order
from rota.model import Answer, Job
from rota.scripting import Operation
from rota.signals import Bury, Release, Retry
from rota.station import Station
from rota.timing import seconds

Jobs = Job | Iterable[Job]


def _each(jobs: Jobs) -> list[Job]:
    return [jobs] if isinstance(jobs, Job) else list(jobs)


class _Shared:
    """What the async and the blocking consumer have in common: state and rules, no waiting."""

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

    def _mark_lost(self) -> None:
        self._lost = True

    def _mark_asked(self, word: Order) -> None:
        self.asked = word

    def _join(self) -> Operation[None]:
        """Starts under a fresh identity. The lease counts from before the server made it."""
        self._station.keeper.remove(self.id)
        began = time.monotonic()
        yield from self._deliveries.join()
        self._lost = False
        self._station.keeper.add(
            self.id,
            self._lease,
            self._mark_lost,
            self._deliveries.mark_cancelled,
            self._mark_asked,
            since=began,
        )

    def _check_open(self) -> None:
        if not self._open:
            raise ConfigError("consumer: expected to be used inside its `with` block")

    @property
    def _is_alive(self) -> bool:
        return not self._lost and self._station.keeper.is_alive(self.id)

    def _check_lease(self, jobs: Iterable[Job]) -> None:
        if not self._is_alive:
            self._lost = True
        if self._lost or any(self._deliveries.is_of_lost_lease(job) for job in jobs):
            raise LeaseLost(f"the lease of consumer {self.id} is gone: its jobs are others' now")

    def _settle(self, pairs: Sequence[tuple[Job, Ending]]) -> Operation[list[Answer]]:
        for _, ending in pairs:
            check_ending(ending)
        settlements = [settlement(job, ending) for job, ending in pairs]
        self._check_lease(job for job, _ in pairs)
        answers = yield from self._deliveries.settle(settlements)
        if "lost" in answers:
            self._lost = True
            raise LeaseLost(f"the lease of consumer {self.id} is gone: its jobs are others' now")
        return answers

    def _beat(self) -> Operation[float | None]:
        return self._link.store.beat(watched_ms=self._station.keeper.watched_ms)

    def _reconcile(self) -> Operation[None]:
        try:
            yield from self._deliveries.reconcile()
        except LeaseLost:
            self._lost = True
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
            self._lost = True
            raise
        if taken.entries and not self._is_alive:
            # It stood still since it sent the claim: others may run these jobs by now.
            self._lost = True
            self._deliveries.let_go(taken.jobs)
            if not done:
                raise LeaseLost(f"the lease of consumer {self.id} is gone")
            return Taken([], taken.reply)
        return taken


class Consumer(_Shared):
    """Claims jobs and settles them by hand; `async with` joins and leaves.

    Leaving gives back what is held, uncounted. When the lease is lost (the process or the
    server stood still for longer), settling raises LeaseLost and the next claim starts anew
    under another identity.
    """

    def __init__(
        self, station: Station, *, lease: float | timedelta, prefetch: int, decode: Decode
    ) -> None:
        super().__init__(station, lease=lease, prefetch=prefetch, decode=decode)
        self._woken = asyncio.Event()
        self._turn = asyncio.Lock()
        self._mending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Consumer:
        await self._link.run(self._join())
        self._station.metronome().enter()
        self._open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._open = False
        if self._mending is not None:
            self._mending.cancel()  # leaving gives back all it holds
        self._station.metronome().gone(self)
        self._station.keeper.remove(self.id)
        try:
            await self._link.run(self._deliveries.leave())
        finally:
            await self._station.metronome().leave()

    def poke(self) -> None:
        self._woken.set()

    async def claim(self, n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        """Up to `n` entries' jobs, in turn order; waits up to `wait` seconds for the first.

        A sequence's entry yields up to `prefetch` jobs, to be run in the order given.
        """
        return await self.exchange(n=n, wait=wait)

    async def exchange(
        self, done: Jobs = (), n: int = 1, *, wait: float | timedelta = 0
    ) -> list[Job]:
        """Completes `done` and claims, in one round trip. Raises LeaseLost for `done`."""
        self._check_open()
        config.whole(n, 1, config.MAX_CLAIM, "n")
        patience = seconds(wait, "wait")
        finished = _each(done)
        async with self._turn:
            if finished:
                self._check_lease(finished)
            elif not self._is_alive:
                await self._link.run(self._join())
            try:
                return await self._claim(finished, n, time.monotonic() + patience)
            except asyncio.CancelledError:
                if self._deliveries.unsure:
                    self._mending = asyncio.get_running_loop().create_task(self._mend())
                raise

    async def _mend(self) -> None:
        """What a cancelled claim may have brought goes back, even if no other claim follows."""
        async with self._turn:
            if self._deliveries.unsure:
                try:
                    await self._link.run(self._reconcile())
                except RotaError:
                    return  # the next claim tries again
                self._station.metronome().failed(self)

    async def _claim(self, done: list[Job], n: int, deadline: float) -> list[Job]:
        metronome = self._station.metronome()
        while True:
            park = time.monotonic() < deadline
            self._woken.clear()
            if self._deliveries.unsure:
                await self._link.run(self._reconcile())
                metronome.failed(self)  # again: only now can the lost claim act no more
            metronome.sending(self)
            try:
                taken = await self._link.run(self._exchange(done, n, park=park))
            except BaseException as error:
                metronome.failed(self)
                if isinstance(error, Lost):
                    continue
                if isinstance(error, LeaseLost) and not done and not self.held:
                    await self._link.run(self._join())
                    continue
                raise
            done = []
            reply = taken.reply
            if self._deliveries.unsure:
                metronome.failed(self)
                continue
            if len(reply.entries) >= n:
                metronome.busy(self, left=reply.left)
                return taken.jobs
            if reply.due == 0 and not reply.entries:
                await self._link.run(self._beat())
                if park:
                    continue
            metronome.idle(self, due_in=reply.due, taken=bool(reply.entries), left=reply.left)
            if taken.entries or not park or not await self._woken_before(deadline):
                metronome.gone(self)
                return taken.jobs

    async def _woken_before(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await self._woken.wait()
        except TimeoutError:
            return False
        except BaseException:
            self._station.metronome().gone(self)
            raise
        return True

    async def complete(self, jobs: Jobs) -> list[Answer]:
        """Ends jobs as done. Answers per job: `ok`, or `settled` where it had ended before."""
        return await self.settle([(job, None) for job in _each(jobs)])

    async def retry(
        self, jobs: Jobs, *, delay: float | timedelta | None = None, error: str | None = None
    ) -> list[Answer]:
        """Gives jobs back and counts the attempt; at the last attempt they go to the dead."""
        return await self.settle([(job, Retry(delay, error)) for job in _each(jobs)])

    async def release(self, jobs: Jobs, *, delay: float | timedelta = 0) -> list[Answer]:
        """Gives jobs back to their places, uncounted."""
        return await self.settle([(job, Release(delay)) for job in _each(jobs)])

    async def bury(self, jobs: Jobs, reason: str) -> list[Answer]:
        """Sends jobs to the dead."""
        return await self.settle([(job, Bury(reason)) for job in _each(jobs)])

    async def settle(self, pairs: Sequence[tuple[Job, Ending]]) -> list[Answer]:
        """Ends each job in its own way; None completes it. Raises LeaseLost.

        One that had ended before answers `settled` and changes nothing.
        """
        return await self._link.run(self._settle(pairs))

    async def start(self, job: Job) -> bool:
        """For a job whose worker died before (`job.suspect`): False means do not run it."""
        return await self._link.run(self._start(job))


class SyncConsumer(_Shared):
    """The blocking twin of `Consumer`; used by one thread at a time."""

    def __init__(
        self, station: Station, *, lease: float | timedelta, prefetch: int, decode: Decode
    ) -> None:
        super().__init__(station, lease=lease, prefetch=prefetch, decode=decode)
        self._woken = threading.Event()
        self._turn = threading.Lock()

    def __enter__(self) -> SyncConsumer:
        self._link.run_sync(self._join())
        self._station.thread_metronome.enter()
        self._open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._open = False
        self._station.thread_metronome.gone(self)
        self._station.keeper.remove(self.id)
        try:
            self._link.run_sync(self._deliveries.leave())
        finally:
            self._station.thread_metronome.leave()

    def poke(self) -> None:
        self._woken.set()

    def claim(self, n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        return self.exchange(n=n, wait=wait)

    def exchange(self, done: Jobs = (), n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        self._check_open()
        config.whole(n, 1, config.MAX_CLAIM, "n")
        patience = seconds(wait, "wait")
        finished = _each(done)
        with self._turn:
            if finished:
                self._check_lease(finished)
            elif not self._is_alive:
                self._link.run_sync(self._join())
            return self._claim(finished, n, time.monotonic() + patience)

    def _claim(self, done: list[Job], n: int, deadline: float) -> list[Job]:
        metronome = self._station.thread_metronome
        while True:
            park = time.monotonic() < deadline
            self._woken.clear()
            if self._deliveries.unsure:
                self._link.run_sync(self._reconcile())
                metronome.failed(self)
            metronome.sending(self)
            try:
                taken = self._link.run_sync(self._exchange(done, n, park=park))
            except BaseException as error:
                metronome.failed(self)
                if isinstance(error, Lost):
                    continue
                if isinstance(error, LeaseLost) and not done and not self.held:
                    self._link.run_sync(self._join())
                    continue
                raise
            done = []
            reply = taken.reply
            if self._deliveries.unsure:
                metronome.failed(self)
                continue
            if len(reply.entries) >= n:
                metronome.busy(self, left=reply.left)
                return taken.jobs
            if reply.due == 0 and not reply.entries:
                self._link.run_sync(self._beat())
                if park:
                    continue
            metronome.idle(self, due_in=reply.due, taken=bool(reply.entries), left=reply.left)
            if taken.entries or not park or not metronome.wait(self._woken.is_set, deadline):
                metronome.gone(self)
                return taken.jobs

    def complete(self, jobs: Jobs) -> list[Answer]:
        return self.settle([(job, None) for job in _each(jobs)])

    def retry(
        self, jobs: Jobs, *, delay: float | timedelta | None = None, error: str | None = None
    ) -> list[Answer]:
        return self.settle([(job, Retry(delay, error)) for job in _each(jobs)])

    def release(self, jobs: Jobs, *, delay: float | timedelta = 0) -> list[Answer]:
        return self.settle([(job, Release(delay)) for job in _each(jobs)])

    def bury(self, jobs: Jobs, reason: str) -> list[Answer]:
        return self.settle([(job, Bury(reason)) for job in _each(jobs)])

    def settle(self, pairs: Sequence[tuple[Job, Ending]]) -> list[Answer]:
        return self._link.run_sync(self._settle(pairs))

    def start(self, job: Job) -> bool:
        return self._link.run_sync(self._start(job))
