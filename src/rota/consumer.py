"""A consumer in a user's hands: claim, then settle; the lease is kept meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import timedelta

from rota.consume.claims import Claims, Jobs, each
from rota.consume.deliveries import Decode
from rota.consume.station import Station
from rota.errors import RotaError
from rota.values import config
from rota.values.endings import Ending
from rota.values.model import Answer, Job
from rota.values.signals import Bury, Release, Retry
from rota.values.timing import seconds


class Consumer(Claims):
    """Claims jobs and settles them by hand; `async with` joins and leaves.

    Leaving gives back what is held, uncounted. When the lease is lost (the process or the
    server stood still for longer), settling raises LeaseLost and the next claim starts anew
    under another identity.
    """

    def __init__(
        self, station: Station, *, lease: float | timedelta, prefetch: int, decode: Decode
    ) -> None:
        super().__init__(station, lease=lease, prefetch=prefetch, decode=decode)
        self._woken: asyncio.Event = asyncio.Event()
        self._turn = asyncio.Lock()
        self._mending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Consumer:
        self._open = True
        try:
            await self._link.run(self._join())
        except BaseException:
            self._open = False
            raise
        self._station.bell().enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open = False
        self._woken.set()  # a claim under way ends
        if self._mending is not None:
            self._mending.cancel()  # leaving gives back all it holds
        self._station.bell().gone(self)
        try:
            await self._link.run(self._membership.leave())
        finally:
            await self._station.bell().leave()

    async def claim(self, n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        """Up to `n` entries' jobs, in turn order; waits up to `wait` seconds for the first.

        A sequence's entry yields up to `prefetch` jobs, to be run in the order given.
        """
        return await self.exchange(n=n, wait=wait)

    async def exchange(
        self, done: Jobs = (), n: int = 1, *, wait: float | timedelta = 0
    ) -> list[Job]:
        """Completes `done` and claims, in one round trip. Raises LeaseLost for `done`.

        One claim at a time: another caller's waits until this one has ended, which counts as part
        of its `wait`.
        """
        self._check_open()
        config.whole(n, 1, config.MAX_CLAIM, "n")
        deadline = time.monotonic() + seconds(wait, "wait")
        async with self._turn:
            try:
                return await self._claim(each(done), n, deadline)
            except asyncio.CancelledError:
                if self._deliveries.unsure:
                    self._mending = asyncio.get_running_loop().create_task(self._mend())
                raise

    async def _claim(self, done: list[Job], n: int, deadline: float) -> list[Job]:
        await self._link.run(self._prepare(done))
        bell = self._station.bell()
        try:
            while True:
                jobs = await self._link.run(self._look(bell, done, n, deadline))
                if jobs is not None or not await self._is_poked(deadline):
                    return jobs or []
                done = []
        finally:
            bell.gone(self)  # else the bell would wait for a claim that is not sent

    async def _is_poked(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True

    async def _mend(self) -> None:
        """What a cancelled claim may have brought goes back, even if no other claim follows."""
        async with self._turn:
            if self._deliveries.unsure:
                try:
                    await self._link.run(self._membership.reconcile())
                except RotaError:
                    return  # the next claim tries again
                self._station.bell().failed(self)

    async def complete(self, jobs: Jobs) -> list[Answer]:
        """Ends jobs as done. Answers per job: `ok`, or `settled` where this consumer does not hold
        this delivery of it: it has ended, or another holds the job. Then nothing changes."""
        return await self.settle([(job, None) for job in each(jobs)])

    async def retry(
        self, jobs: Jobs, *, delay: float | timedelta | None = None, error: str | None = None
    ) -> list[Answer]:
        """Gives jobs back and counts the attempt; at the last attempt they go to the dead."""
        return await self.settle([(job, Retry(delay, error)) for job in each(jobs)])

    async def release(self, jobs: Jobs, *, delay: float | timedelta = 0) -> list[Answer]:
        """Gives jobs back to their places, uncounted; by hand they do not stay away by themselves,
        however often."""
        return await self.settle([(job, Release(delay)) for job in each(jobs)])

    async def bury(self, jobs: Jobs, reason: str) -> list[Answer]:
        """Sends jobs to the dead."""
        return await self.settle([(job, Bury(reason)) for job in each(jobs)])

    async def settle(self, pairs: Iterable[tuple[Job, Ending]]) -> list[Answer]:
        """Ends each job in its own way; None completes it. Raises LeaseLost.

        One that this consumer does not hold, as it has ended or another has it, answers `settled`,
        and nothing changes.
        """
        return await self._link.run(self._settle(pairs))

    async def start(self, job: Job) -> bool:
        """For a job whose worker died before (`job.suspect`): False means do not run it."""
        return await self._link.run(self._membership.start(job))
