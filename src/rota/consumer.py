"""A consumer in a user's hands: claim, then settle; the lease is kept meanwhile."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from rota.consume.claims import Claims, Jobs, each
from rota.consume.deliveries import Decode
from rota.consume.station import Station
from rota.errors import RotaError
from rota.link import AsyncFace
from rota.values import config
from rota.values.model import Job
from rota.values.timing import seconds


class Consumer(Claims, AsyncFace):
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
