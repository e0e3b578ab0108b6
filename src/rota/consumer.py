"""A consumer in a user's hands: claim, then settle; the lease is kept meanwhile.

Its rules are operations, for those who await and those who block; a face carries them out, waits
where they say so, and adds nothing of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from datetime import timedelta

from rota.connection.faults import Lost
from rota.consume.bell import Bell
from rota.consume.deliveries import Decode, Taken
from rota.consume.membership import Consuming, Membership
from rota.errors import ConfigError, LeaseLost, RotaError
from rota.link import AsyncFace, BlockingFace, verb
from rota.script.loader import Operation
from rota.values import config
from rota.values.endings import Ending, check_ending, settlement
from rota.values.model import Answer, Instruction, Job
from rota.values.signals import Bury, Release, Retry
from rota.values.timing import number, seconds

Jobs = Job | Iterable[Job]


def each(jobs: Jobs) -> list[Job]:
    return [jobs] if isinstance(jobs, Job) else list(jobs)


class _ConsumerRules:
    """State and rules; `Consumer` and `SyncConsumer` add the waiting."""

    _woken: asyncio.Event | threading.Event

    def __init__(
        self, consuming: Consuming, *, lease: float | timedelta, prefetch: int, decode: Decode
    ) -> None:
        self._consuming = consuming
        self._link = consuming.link
        length = number(seconds(lease, "lease"), config.MIN_LEASE_S, config.MAX_LEASE_S, "lease")
        self._prefetch = config.whole(prefetch, 1, config.MAX_PREFETCH, "prefetch")
        self._membership = Membership(
            consuming, lease=length, decode=decode, on_instruction=self._mark_asked
        )
        self._deliveries = self._membership.deliveries
        self.asked: Instruction | None = None
        """What someone asked of this process by `queue.quiet` or `queue.stop`; it is up to you."""
        self._open = False

    @property
    def id(self) -> str:
        """The consumer's present identity; a new one after its lease was lost."""
        return self._membership.id

    @property
    def held(self) -> list[Job]:
        """The jobs in its hands, in the order they were claimed."""
        return list(self._deliveries.jobs.values())

    def poke(self) -> None:
        self._woken.set()

    def _mark_asked(self, word: Instruction) -> None:
        self.asked = word

    def _join(self) -> Operation[None]:
        self._check_open()
        yield from self._membership.join()
        if not self._open:  # its block has ended meanwhile
            yield from self._membership.leave()
            self._check_open()

    def _check_open(self) -> None:
        if not self._open:
            raise ConfigError("consumer: expected to be used inside its `with` block")

    def _deadline(self, n: int, wait: float | timedelta) -> float:
        """Of a claim, until when it waits; checks what it is given."""
        self._check_open()
        config.whole(n, 1, config.MAX_CLAIM, "n")
        return time.monotonic() + seconds(wait, "wait")

    def _prepare(self, done: list[Job]) -> Operation[None]:
        """Before it claims: what is done must be its own, and it needs a lease."""
        self._check_open()
        if done:
            self._membership.check(done)
        elif self._membership.is_over():
            yield from self._join()

    def _look(
        self, bell: Bell, done: list[Job], n: int, deadline: float
    ) -> Operation[list[Job] | None]:
        """Completes `done` and claims up to `n` entries. None: nothing has come, and until
        `deadline` it is to wait for the bell, and then to look again."""
        while True:
            self._woken.clear()  # before it looks: the end of its block wakes it
            self._check_open()
            park = time.monotonic() < deadline
            if self._deliveries.unsure:
                yield from self._membership.reconcile()
                bell.failed(self)  # again: only now can the lost claim act no more
            bell.sending(self)
            try:
                taken = yield from self._exchange(done, n, park=park)
            except BaseException as error:
                bell.failed(self)
                if isinstance(error, Lost):
                    continue
                if isinstance(error, LeaseLost) and not done and not self._deliveries.jobs:
                    yield from self._join()
                    continue
                raise
            done = []
            reply = taken.reply
            if self._membership.lost and not taken.entries:
                bell.failed(self)
                return []  # and yet what was done counts: no reason to raise
            if self._deliveries.unsure:
                bell.failed(self)
                continue
            if len(reply.entries) >= n:
                bell.busy(self, left=reply.left)
                return taken.jobs
            if reply.due == 0 and not reply.entries:
                yield from self._link.store.beat(watched_ms=self._membership.keeper.watched_ms)
                if park:
                    continue
            bell.idle(self, due_in=reply.due, taken=bool(reply.entries), left=reply.left)
            return None if park and not taken.entries else taken.jobs

    def _exchange(self, done: list[Job], n: int, *, park: bool) -> Operation[Taken]:
        taken = yield from self._membership.noting(
            self._deliveries.exchange(want=n, prefetch=self._prefetch, park=park, done=done)
        )
        if taken.reply.lost:
            self._membership.lose()
        if taken.entries and self._membership.is_over():
            # It stood still since it sent the claim: others may run these jobs by now.
            self._deliveries.let_go(taken.jobs)
            if not done:
                raise LeaseLost(f"the lease of consumer {self.id} is gone")
            return Taken([], taken.reply)
        return taken

    # ── how jobs end ────────────────────────────────────────────────────────────────────────

    @verb
    def complete(self, jobs: Jobs) -> Operation[list[Answer]]:
        """Ends jobs as done. Answers per job: `ok`, or `settled` where this consumer does not hold
        this delivery of it: it has ended, or another holds the job. Then nothing changes."""
        return self._settle((job, None) for job in each(jobs))

    @verb
    def retry(
        self, jobs: Jobs, *, delay: float | timedelta | None = None, error: str | None = None
    ) -> Operation[list[Answer]]:
        """Gives jobs back and counts the attempt; at the last attempt they go to the dead."""
        return self._settle((job, Retry(delay, error)) for job in each(jobs))

    @verb
    def release(self, jobs: Jobs, *, delay: float | timedelta = 0) -> Operation[list[Answer]]:
        """Gives jobs back to their places, uncounted; by hand they do not stay away by themselves,
        however often."""
        return self._settle((job, Release(delay)) for job in each(jobs))

    @verb
    def bury(self, jobs: Jobs, reason: str) -> Operation[list[Answer]]:
        """Sends jobs to the dead."""
        return self._settle((job, Bury(reason)) for job in each(jobs))

    @verb
    def settle(self, pairs: Iterable[tuple[Job, Ending]]) -> Operation[list[Answer]]:
        """Ends each job in its own way; None completes it. Raises LeaseLost.

        One that this consumer does not hold, as it has ended or another has it, answers `settled`,
        and nothing changes.
        """
        return self._settle(pairs)

    @verb
    def start(self, job: Job) -> Operation[bool]:
        """For a job whose worker died before (`job.suspect`): False means do not run it."""
        return self._membership.start(job)

    def _settle(self, pairs: Iterable[tuple[Job, Ending]]) -> Operation[list[Answer]]:
        pairs = list(pairs)
        for _, ending in pairs:
            check_ending(ending)
        settlements = [settlement(job, ending) for job, ending in pairs]
        self._membership.check(job for job, _ in pairs)
        return (yield from self._membership.settle(settlements))


class Consumer(_ConsumerRules, AsyncFace):
    """Claims jobs and settles them by hand; `async with` joins and leaves.

    Leaving gives back what is held, uncounted. When the lease is lost (the process or the
    server stood still for longer), settling raises LeaseLost and the next claim starts anew
    under another identity.
    """

    def __init__(
        self, consuming: Consuming, *, lease: float | timedelta, prefetch: int, decode: Decode
    ) -> None:
        super().__init__(consuming, lease=lease, prefetch=prefetch, decode=decode)
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
        self._consuming.bell().enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open = False
        self._woken.set()  # a claim under way ends
        if self._mending is not None:
            self._mending.cancel()  # leaving gives back all it holds
        self._consuming.bell().gone(self)
        try:
            await self._link.run(self._membership.leave())
        finally:
            await self._consuming.bell().leave()

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
        deadline = self._deadline(n, wait)
        async with self._turn:
            try:
                return await self._claim(each(done), n, deadline)
            except asyncio.CancelledError:
                if self._deliveries.unsure:
                    self._mending = asyncio.get_running_loop().create_task(self._mend())
                raise

    async def _claim(self, done: list[Job], n: int, deadline: float) -> list[Job]:
        await self._link.run(self._prepare(done))
        bell = self._consuming.bell()
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
                self._consuming.bell().failed(self)


class SyncConsumer(_ConsumerRules, BlockingFace):
    """The blocking twin of `Consumer`; used by one thread at a time."""

    def __init__(
        self, consuming: Consuming, *, lease: float | timedelta, prefetch: int, decode: Decode
    ) -> None:
        super().__init__(consuming, lease=lease, prefetch=prefetch, decode=decode)
        self._woken: threading.Event = threading.Event()
        self._turn = threading.Lock()

    def __enter__(self) -> SyncConsumer:
        self._open = True
        try:
            self._link.run_sync(self._join())
        except BaseException:
            self._open = False
            raise
        self._consuming.thread_bell.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._woken.set()  # a claim under way ends
        self._consuming.thread_bell.gone(self)
        try:
            self._link.run_sync(self._membership.leave())
        finally:
            self._consuming.thread_bell.leave()

    def claim(self, n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        """Up to `n` entries' jobs, as `Consumer.claim` does."""
        return self.exchange(n=n, wait=wait)

    def exchange(self, done: Jobs = (), n: int = 1, *, wait: float | timedelta = 0) -> list[Job]:
        """Completes `done` and claims, in one round trip, as `Consumer.exchange` does."""
        deadline = self._deadline(n, wait)
        with self._turn:
            return self._claim(each(done), n, deadline)

    def _claim(self, done: list[Job], n: int, deadline: float) -> list[Job]:
        self._link.run_sync(self._prepare(done))
        bell = self._consuming.thread_bell
        try:
            while True:
                jobs = self._link.run_sync(self._look(bell, done, n, deadline))
                if jobs is not None or not bell.wait(self._woken.is_set, deadline):
                    return jobs or []
                done = []
        finally:
            bell.gone(self)
