"""One queue's loop in a worker: fetches entries for free slots, runs them, settles what ended.

One exchange is in flight at a time. It carries every job completed since the last one and asks
for as many entries as slots are free, so settlements wait for nothing while the line is idle,
and travel together when it is busy. What an answer brings is read and started when the next
exchange is on its way: the server works on that one meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rota.contact import Contact
from rota.deliveries import Deliveries, Unread
from rota.entries import Entries
from rota.errors import LeaseLost, RotaError
from rota.executor import Executor
from rota.lease import LeaseKeeper
from rota.listing import Order
from rota.meter import SILENT, Observer
from rota.metronome import Metronome
from rota.model import Exchanged, Job
from rota.queue import Queue
from rota.runner import Runner
from rota.settling import Batch, Settling, Tally
from rota.slots import Slots

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0
CANCEL_S = 0.3
"""How long a stop waits for handlers it has cancelled."""
LEAVE_S = 1.5
"""How long a stop tries to tell the server that it leaves; then its lease has to run out."""


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
        obey: Callable[[Order], None],
        observer: Observer = SILENT,
    ) -> None:
        self.queue = queue
        self._slots = slots
        self._lease = lease
        self._prefetch = prefetch
        self._obey = obey
        self._woken = asyncio.Event()
        # Taken once: the station looks at each access whether it is still in its process.
        self._metronome: Metronome = queue.station.metronome()
        self._keeper: LeaseKeeper = queue.station.keeper
        self._contact = Contact(queue.name)
        self._deliveries = Deliveries(
            queue.link.store, lease_ms=round(lease * 1000), decode=self._decode
        )
        self._settling = Settling(self._deliveries, wake=self.wake)
        self._runner = Runner(queue.name, executor=executor, find_task=queue.find_task, state=state)
        self._entries = Entries(
            queue.name,
            runner=self._runner,
            executor=executor,
            deliveries=self._deliveries,
            settling=self._settling,
            lease_is_over=self._lease_is_over,
            may_begin=self._may_begin,
            freed=self._freed,
        )
        self._opening: asyncio.Task[None] | None = None
        self._hungry = True
        self._idle = False
        self._claiming = False
        self._fetching = True
        self._quiet = False
        self._waits_for_handlers = True
        self._burst = False
        self._lease_lost = False
        self.observer = observer
        slots.add(self)

    # ── life ────────────────────────────────────────────────────────────────────────────────

    async def open(self, *, burst: bool) -> None:
        """Joins the queue; raises Unavailable where the server cannot be reached."""
        self._burst = burst
        await self._join()
        self._metronome.enter()
        self._slots.stand_in_line(self)

    async def _join(self) -> None:
        began = time.monotonic()
        await self.queue.link.run(self._deliveries.join())
        loop, id = asyncio.get_running_loop(), self._deliveries.id
        self._lease_lost = self._settling.lease_lost = False

        def lose() -> None:
            if id == self._deliveries.id:  # else it has started anew already
                self._lose()

        def on_lost() -> None:
            loop.call_soon_threadsafe(lose)

        def on_asked(jobs: list[tuple[str, str]]) -> None:
            loop.call_soon_threadsafe(self._cancel, jobs)

        def on_order(word: Order) -> None:
            loop.call_soon_threadsafe(self._obey, word)

        self._keeper.add(id, self._lease, on_lost, on_asked, on_order, since=began)

    def stop_fetching(self) -> None:
        """Claims nothing more; what runs goes on."""
        self._fetching = self._entries.starting = False
        self._step_out()

    def quieten(self) -> None:
        """Claims nothing more, and works on; what is held goes on."""
        self._quiet, self._hungry = True, False
        self._step_out()

    def _step_out(self) -> None:
        self._slots.step_out(self)
        self._metronome.gone(self)
        self._woken.set()

    async def finish(self, grace: float) -> None:
        """Waits for what runs, at most `grace` seconds; the rest is cancelled and given back.

        Handlers that ignore it are left to themselves: `run` ends without them.
        """
        await self._entries.until_ended(grace)
        self.cancel_running()
        await self._entries.until_ended(CANCEL_S)
        self._waits_for_handlers = False
        self._woken.set()

    def cancel_running(self) -> None:
        """Cancels the handlers that run; their jobs go back uncounted."""
        self._entries.cancel_all()

    async def close(self) -> int:
        """Leaves the queue; returns how many jobs went back unfinished.

        Raises TimeoutError where the server does not answer.
        """
        self._keeper.remove(self._deliveries.id)
        try:
            async with asyncio.timeout(LEAVE_S):
                return await self.queue.link.run(self._deliveries.leave())
        finally:
            self._metronome.failed(self)
            async with asyncio.timeout(LEAVE_S):  # its blocker may wait for a frozen server
                await self._metronome.leave()

    # ── what it tells of itself ─────────────────────────────────────────────────────────────

    @property
    def tally(self) -> Tally:
        return self._settling.tally

    @property
    def running_jobs(self) -> list[Job]:
        """From any thread."""
        return self._entries.jobs

    @property
    def observer(self) -> Observer:
        """Who is told what happens to its jobs."""
        return self._runner.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._runner.observer = self._settling.observer = self._contact.observer = observer

    @property
    def wakeups(self) -> dict[str, int]:
        """How often the doorbell woke a consumer of this loop, by cause."""
        return self._metronome.wakeups

    @property
    def doorbell_errors(self) -> int:
        return self._metronome.errors

    def troubles(self) -> dict[str, str | None]:
        """What is wrong with its parts, by their names; None where all is well."""
        asks_nobody = self._quiet and not self._settling
        return {
            "server": None if asks_nobody else self._contact.trouble,
            "doorbell": self._metronome.trouble,
            "lease": self._keeper.trouble,
        }

    # ── the loop ────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        self._woken.set()

    def poke(self) -> None:
        self._idle = False
        self._ask()

    def squeezed(self) -> None:
        if self._claiming or not self._fetching:
            return
        self._metronome.gone(self)  # also where it was poked: it cannot send now
        if self._idle:
            self._idle = False
            self._ask()

    def _ask(self) -> None:
        """It may find something: it stands in line for slots."""
        if self._fetching and not self._quiet:
            self._hungry = True
            self._slots.stand_in_line(self)

    def _freed(self) -> None:
        """An entry has come to its end."""
        self._slots.give_back(1)
        self._woken.set()

    async def run(self) -> None:
        """Until it fetches no more (stopped, or in a burst all is drained) and nothing runs."""
        pause = FIRST_PAUSE_S
        while not self._is_drained():
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._round()
                pause = FIRST_PAUSE_S
            except LeaseLost:
                self._lose()
            except RotaError as error:
                self._contact.failed(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
                self._woken.set()
            if self._lease_lost:
                await self._start_anew()

    def _is_drained(self) -> bool:
        wants_more = self._fetching and not (self._burst and not self._hungry)
        opening = self._opening is not None and not self._opening.done()
        runs = self._waits_for_handlers and self._entries.jobs
        return not (wants_more or opening or runs or self._settling)

    async def _round(self) -> None:
        """One exchange, if there is anything to settle or a slot to fill."""
        if self._lease_lost:
            raise LeaseLost(self._deliveries.id)
        if self._deliveries.unsure:
            await self._opened()  # what it does not know by then, it gives back
            await self.queue.link.run(self._deliveries.reconcile())
            self._idle = False
            self._metronome.failed(self)
            self._ask()
        batch = self._settling.take()
        settles = bool(batch)
        try:
            if batch.others:
                await self._settle(batch)
            want = self._share(batch)
            if self._burst and not want and settles:
                self._ask()  # what ended may have made something claimable
            if not want and not batch:
                return
            unread = await self._exchange(want, batch)
        except BaseException:
            self._settling.put_back(batch)
            raise
        self._settling.completed(batch, unread.reply.answers)
        await self._opened()
        self._opening = asyncio.get_running_loop().create_task(self._open(unread))
        if want:
            await self._after_claim(want, unread.reply)

    def _share(self, batch: Batch) -> int:
        """Slots to claim for: when it asked for them, or when settlements take a claim along."""
        wants = bool(batch) or self._slots.is_asked_by(self)
        claims = wants and self._fetching and not self._quiet
        return self._slots.take(self) if claims else 0

    async def _settle(self, batch: Batch) -> None:
        self._contact.asks()
        answers = await self.queue.link.run(
            self._deliveries.settle([one.what for one in batch.others])
        )
        self._contact.answered("settle")
        if "lost" in answers:
            raise LeaseLost(self._deliveries.id)
        self._settling.settled(batch, answers)

    async def _exchange(self, want: int, batch: Batch) -> Unread:
        if want:
            self._metronome.sending(self)
            self._idle, self._claiming = False, True
        self._contact.asks()
        try:
            unread = await self.queue.link.run(
                self._deliveries.exchange_unread(
                    want=want, prefetch=self._prefetch, park=not self._burst, done=batch.done
                )
            )
        except BaseException:
            if want:
                self._claiming = False
                self._slots.give_back(want)
                self._metronome.failed(self)
                self._ask()
            raise
        self._contact.answered("exchange")
        self.observer.claimed(unread.reply)
        return unread

    async def _after_claim(self, want: int, reply: Exchanged) -> None:
        """What the claim says of the next one: full, ask again; short, sleep until poked."""
        self._claiming = False
        self._slots.give_back(want - len(reply.entries))
        if reply.entries:
            self._slots.filled(self)
        if len(reply.entries) >= want:
            self._metronome.busy(self, left=reply.left)
            self._ask()
        elif reply.due == 0:
            try:
                watched_ms = self._keeper.watched_ms
                await self.queue.link.run(self.queue.link.store.beat(watched_ms=watched_ms))
            except RotaError as error:
                self._contact.failed(error)
            self._ask()
        else:
            self._hungry = reply.left and self._burst and not self._quiet
            self._idle = self._fetching and not self._burst and not self._quiet
            self._metronome.idle(self, due_in=reply.due, taken=bool(reply.entries), left=reply.left)
            if not self._idle:
                self._metronome.gone(self)
        if self._hungry:
            self._ask()
        self._woken.set()

    # ── what an exchange brought ────────────────────────────────────────────────────────────

    async def _open(self, unread: Unread) -> None:
        """Starts what can be run. A task of its own, which takes its turn when the loop has sent
        the next exchange: reading and running take about as long as the server does for that."""
        try:
            self._runner.look()
            taken = self._deliveries.read(unread)
            self._settling.refuse(taken.refused)
            self._slots.give_back(len(unread.reply.entries) - len(taken.entries))
            self._entries.start(taken.entries)
        finally:
            self._woken.set()

    async def _opened(self) -> None:
        """What the last exchange brought is under way; raises what went wrong with it."""
        if self._opening is not None:
            await self._opening

    def _decode(self, job: Job) -> None:
        self.queue.find_task(job.task)
        self.queue.decode(job)

    async def _may_begin(self, job: Job) -> bool:
        try:
            return await self.queue.link.run(self._deliveries.start(job))
        except LeaseLost:
            self._lose()
        except RotaError as error:
            self._contact.failed(error)
        return False

    def _cancel(self, asked: list[tuple[str, str]]) -> None:
        """Stops the handlers of these deliveries; what has not begun will not."""
        self._entries.interrupt(self._deliveries.mark_cancelled(asked))

    # ── a lost lease ────────────────────────────────────────────────────────────────────────

    def _lease_is_over(self) -> bool:
        """Also by this process's own clock: it may have stood still since it sent its claim."""
        if not self._lease_lost and not self._keeper.is_alive(self._deliveries.id):
            self._lose()
        return self._lease_lost

    def _lose(self) -> None:
        """The jobs are others' now: their handlers are cancelled, their endings not sent."""
        self._settling.lose()
        if self._lease_lost:
            return
        self._lease_lost = True
        self._contact.dropped()
        self.observer.lease_lost()
        self.cancel_running()
        self._woken.set()

    async def _start_anew(self) -> None:
        """Under a fresh identity, as soon as the server can be reached."""
        self._keeper.remove(self._deliveries.id)
        await self._opened()
        self._lose()  # also what was on its way when the lease was lost
        pause = FIRST_PAUSE_S
        while self._lease_lost and self._fetching:
            try:
                await self._join()
            except RotaError as error:
                self._contact.failed(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
        self._metronome.failed(self)
        self._ask()
