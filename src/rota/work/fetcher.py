"""One queue's loop in a worker: fetches entries for free slots, runs them, settles what ended.

One exchange is in flight at a time. It carries every job completed since the last one and asks
for as many entries as slots are free, so settlements wait for nothing while the line is idle,
and travel together when it is busy. What an answer brings is read and started when the next
exchange is on its way: the server works on that one meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from rota.consume.membership import Membership
from rota.errors import LeaseLost, RotaError
from rota.observe.observer import SILENT, Observer
from rota.queue import Queue
from rota.values.model import Exchanged, Instruction, Job
from rota.values.telling import safely
from rota.work.caller import Caller
from rota.work.entries import Entries, Runner
from rota.work.executor import Executor
from rota.work.settling import Settling
from rota.work.slots import Demand, Slots

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0
LEAVE_S = 1.5
"""How long a stop tries to tell the server that it leaves; then its lease has to run out."""
CANCEL_S = 0.3
"""How long a stop waits for handlers it has cancelled."""


class Fetcher:
    """Fetches and runs the jobs of one queue with a share of the worker's slots."""

    def __init__(
        self,
        queue: Queue,
        *,
        slots: Slots,
        executor: Executor,
        lease: float,
        prefetch: int,
        state: object,
        obey: Callable[[Instruction], None],
        holding: Callable[[Queue, str | None], None],
        observer: Observer = SILENT,
    ) -> None:
        self.queue = queue
        self._slots = slots
        self._holding = holding
        self._prefetch = prefetch
        self._waits_for_handlers = True
        self._opening: asyncio.Task[None] | None = None
        self.bell = queue.consuming.bell()
        self.keeper = queue.consuming.keeper
        self._membership = Membership(
            queue.consuming,
            lease=lease,
            decode=self._decode,
            on_lost=self._on_lost,
            on_stop=lambda jobs: self.entries.interrupt(jobs),
            on_instruction=obey,
            post=asyncio.get_running_loop().call_soon_threadsafe,
        )
        self._deliveries = self._membership.deliveries
        self._woken = woken = asyncio.Event()
        self._caller = Caller(queue)
        self._demand = Demand(slots, self.bell, woken)
        self._settling = Settling(queue.name, self._deliveries, woken)
        self.tally = self._settling.tally
        self._runner = Runner(queue, executor, self._settling, state=state)
        self.entries = Entries(
            self._runner, self._settling, self._membership, self._caller, slots, woken
        )
        self.observe(observer)

    # ── life ────────────────────────────────────────────────────────────────────────────────

    async def open(self, *, burst: bool) -> None:
        """Joins the queue; raises Unavailable where the server cannot be reached."""
        self._demand.burst = burst
        await self.queue.link.run(self._membership.join())
        self._holding(self.queue, self._deliveries.id)
        self.bell.enter()
        self._demand.ask()

    def stop_fetching(self) -> None:
        """Claims nothing more; what runs goes on."""
        self.entries.starting = False
        self._demand.stop()

    def quieten(self) -> None:
        """Claims nothing more, and works on; what is held goes on."""
        self._demand.quieten()

    async def finish(self) -> None:
        """What still runs is cancelled and given back.

        Handlers that ignore it are left to themselves: `run` ends without them.
        """
        self.entries.cancel_all()
        await self.entries.until_ended(CANCEL_S)
        self._waits_for_handlers = False
        self._woken.set()

    async def close(self) -> int:
        """Leaves the queue; returns how many jobs went back unfinished.

        Raises TimeoutError where the server does not answer.
        """
        try:
            async with asyncio.timeout(LEAVE_S):
                back = await self.queue.link.run(self._membership.leave())
            self._holding(self.queue, None)
            return back
        finally:
            self._demand.failed()
            with contextlib.suppress(TimeoutError):  # its blocker waits for a frozen server
                async with asyncio.timeout(LEAVE_S):
                    await self.bell.leave()

    def evict(self) -> None:
        """Leaves from another thread, blocking: for a loop that hangs, and cannot."""
        client = self.queue.link.apart(timeout=LEAVE_S, resend=False).client
        with contextlib.closing(client):
            client.run(self.queue.link.store.leave(self._deliveries.id))
            self._holding(self.queue, None)

    # ── what it tells of itself ─────────────────────────────────────────────────────────────

    @property
    def running_jobs(self) -> list[Job]:
        """From any thread."""
        return self.entries.jobs

    @property
    def is_quiet(self) -> bool:
        return self._demand.quiet

    def observe(self, observer: Observer) -> None:
        """It is told what happens to its jobs."""
        self._observer = self._caller.observer = observer
        self._runner.observer = self._settling.observer = observer
        self._runner.look()

    def troubles(self) -> dict[str, str | None]:
        """What is wrong with its parts, by their names; None where all is well."""
        asks_nobody = self.is_quiet and not self._settling
        return {
            "server": None if asks_nobody else self._caller.trouble,
            "doorbell": self.bell.trouble,
            "lease": self._membership.keeper.trouble,
        }

    # ── the loop ────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Until it fetches no more (stopped, or in a burst all is drained) and nothing runs."""
        pause = FIRST_PAUSE_S
        while not self._is_drained():
            await self._woken.wait()
            self._woken.clear()
            try:
                if not self._membership.lost:
                    await self._round()
                pause = FIRST_PAUSE_S
            except LeaseLost:
                pass
            except RotaError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
                self._woken.set()
            if self._membership.lost:
                await self._start_anew()

    def _is_drained(self) -> bool:
        if self._opening is not None and self._opening.done():
            self._opening.result()  # raises what went wrong with it
            self._opening = None
        runs = self._waits_for_handlers and self.entries
        return not (self._opening or self._demand.wants_more or runs or self._settling)

    async def _round(self) -> None:
        """One exchange, if there is anything to settle or a slot to fill."""
        if self._deliveries.unsure:
            await self._opened()  # what it does not know by then, it gives back
            await self._caller.call(self._membership.reconcile())
            self._demand.failed()
        batch = self._settling.take()
        settles = bool(batch)
        try:
            if batch.others:
                others = [one.what for one in batch.others]
                answers = await self._caller.timed("settle", self._membership.settle(others))
                self._settling.settled(batch, answers)
            want = self._demand.share(settles=bool(batch))
            if self._demand.burst and not want and settles:
                self._demand.ask()  # what ended may have made something claimable
            if not want and not batch:
                return
            reply = await self._exchange(want, batch.done)
        except BaseException:
            self._settling.put_back(batch)
            raise
        self._settling.completed(batch, reply.answers)
        if reply.lost:
            if want:
                self._demand.failed(want)
            self._membership.lose()
            return
        await self._opened()
        # It gets its turn when this waits for the next answer: the server is at work then, and
        # that takes about as long as reading and running.
        self._opening = asyncio.get_running_loop().create_task(self._open(reply))
        if want and self._demand.answered(want, reply):
            await self._beat()
            self._demand.ask()
            self._woken.set()

    async def _exchange(self, want: int, done: list[Job]) -> Exchanged:
        self._demand.sending(want)
        claim = self._deliveries.exchange_unread(
            want=want, prefetch=self._prefetch, park=not self._demand.burst, done=done
        )
        try:
            reply = await self._caller.timed("exchange", claim)
        except BaseException:
            if want:
                self._demand.failed(want)
            raise
        with safely:
            self._observer.claimed(reply)
        return reply

    async def _open(self, reply: Exchanged) -> None:
        """Reads what an exchange has brought, and starts it."""
        try:
            taken = self._deliveries.read(reply)
            self._settling.take_over(taken.unrun)
            self._slots.give_back(len(reply.entries) - len(taken.entries))
            self.entries.start(taken.entries)
        finally:
            self._woken.set()

    async def _opened(self) -> None:
        """Waits until all that has come is under way; raises what went wrong with it."""
        if self._opening is not None:
            await self._opening

    async def _beat(self) -> None:
        """Brings back what is due now."""
        watched_ms = self._membership.keeper.watched_ms
        with contextlib.suppress(RotaError):
            await self._caller.call(self.queue.link.store.beat(watched_ms=watched_ms))

    def _decode(self, job: Job) -> None:
        task = self.queue.find_task(job.task)
        job.backoff = task.policy.backoff  # also of a job whose arguments cannot be read now
        job.args, job.kwargs = task.codec.decode(job.payload)

    # ── a lost lease ────────────────────────────────────────────────────────────────────────

    def _on_lost(self) -> None:
        """The jobs are others' now: their handlers are cancelled, their endings not sent."""
        self._settling.lose()
        with safely:
            self._observer.lease_lost()
        self.entries.cancel_all()
        self._woken.set()

    async def _start_anew(self) -> None:
        """Under a fresh identity, as soon as the server can be reached."""
        await self._opened()
        self._settling.lose()  # also what was on its way when the lease was lost
        pause = FIRST_PAUSE_S
        while self._membership.lost and self._demand.fetching:
            try:
                await self._caller.call(self._membership.join())
                self._holding(self.queue, self._deliveries.id)
                self._settling.lease_lost = False
            except RotaError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
        self._demand.failed()
