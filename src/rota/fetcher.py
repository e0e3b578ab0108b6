"""One queue's loop in a worker: fetches entries for free slots, runs them, settles what ended.

One exchange is in flight at a time. It carries every job completed since the last one and asks
for as many entries as slots are free, so settlements wait for nothing while the line is idle,
and travel together when it is busy.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rota import joblog, tracing
from rota.deliveries import Deliveries, Taken
from rota.endings import Ending, Failed, Stopped, Unstarted, settlement
from rota.errors import LeaseLost, RotaError
from rota.executor import Executor
from rota.listing import Order
from rota.meter import SILENT, Observer
from rota.metronome import Metronome
from rota.model import Answer, Job, Settlement
from rota.queue import Queue
from rota.signals import Release, Retry
from rota.slots import Slots
from rota.timing import Sparingly

logger = logging.getLogger("rota.worker")

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0
MAX_SETTLED = 1000
"""The most endings one exchange carries."""
CANCEL_S = 0.3
"""How long a stop waits for handlers it has cancelled."""
PATIENCE_S = 3.0
"""How long a claim may take until the server counts as gone."""
LEAVE_S = 1.5
"""How long a stop tries to tell the server that it leaves; then its lease has to run out."""
SUSPECT_PAUSE_S = 1.0
"""How long a job with a death behind it waits for another such job that runs here; then it is
given back, and stays away as long. Not started, it is not blamed if the process dies."""


@dataclass(slots=True, eq=False)
class _Settling:
    """A delivery on its way to its end; `accepted` is told the server's answer."""

    job: Job
    what: Settlement
    accepted: asyncio.Future[Answer]


@dataclass(slots=True)
class Tally:
    """What became of the jobs a worker ran."""

    done: int = 0
    retried: int = 0
    dead: int = 0
    lost: int = 0

    def count(self, action: str) -> None:
        if action == "complete":
            self.done += 1
        elif action == "retry":
            self.retried += 1
        elif action == "bury":
            self.dead += 1


@dataclass(slots=True)
class _Running:
    """The entries under way, by task; each knows the job it is at."""

    tasks: dict[asyncio.Task[None], Job | None] = field(default_factory=dict)
    cancelled: set[asyncio.Task[Any] | None] = field(default_factory=set)
    """Those that were cancelled by the worker, not by what their handlers do."""


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
        self.tally = Tally()
        self.observer = observer
        self._traced = False
        self._asked_at: float | None = None
        self._failing_since: float | None = None
        self._slots = slots
        self._executor = executor
        self._lease = lease
        self._prefetch = prefetch
        self._state = state
        self._obey = obey
        self._deliveries = Deliveries(
            queue.link.store, lease_ms=round(lease * 1000), decode=self._decode
        )
        self._metronome: Metronome = queue.station.metronome()
        self._woken = asyncio.Event()
        self._running = _Running()
        self._settling: list[_Settling] = []
        self._hungry = True
        self._idle = False
        self._claiming = False
        self._fetching = True
        self._quiet = False
        self._waits_for_handlers = True
        self._burst = False
        self._lease_lost = False
        self._logs = Sparingly()
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
        self._lease_lost = False

        def lose() -> None:
            if id == self._deliveries.id:  # else it has started anew already
                self._lose()

        def on_lost() -> None:
            loop.call_soon_threadsafe(lose)

        def on_asked(jobs: list[tuple[str, str]]) -> None:
            loop.call_soon_threadsafe(self._cancel, jobs)

        def on_order(word: Order) -> None:
            loop.call_soon_threadsafe(self._obey, word)

        self.queue.station.keeper.add(id, self._lease, on_lost, on_asked, on_order, since=began)

    def stop_fetching(self) -> None:
        """Claims nothing more; what runs goes on."""
        self._fetching = False
        self._slots.step_out(self)
        self._metronome.gone(self)
        self._woken.set()

    def quieten(self) -> None:
        """Claims nothing more, and works on; what is held goes on."""
        self._quiet, self._hungry = True, False
        self._slots.step_out(self)
        self._metronome.gone(self)
        self._woken.set()

    @property
    def wakeups(self) -> dict[str, int]:
        """How often the doorbell woke a consumer of this loop, by cause."""
        return self._metronome.wakeups

    @property
    def doorbell_errors(self) -> int:
        return self._metronome.errors

    def troubles(self) -> dict[str, str | None]:
        """What is wrong with its parts, by their names; None where all is well."""
        return {
            "server": self._trouble_with_server(time.monotonic()),
            "doorbell": self._metronome.trouble,
            "lease": self.queue.station.keeper.trouble,
        }

    def _trouble_with_server(self, now: float) -> str | None:
        failing, asked = self._failing_since, self._asked_at
        if self._quiet and not self._settling:
            return None  # it asks nobody
        if failing is not None:
            return f"it has not been reached for {now - failing:.0f} s"
        if asked is not None and now - asked > PATIENCE_S:
            return f"it has not answered for {now - asked:.0f} s"
        return None

    @property
    def running_jobs(self) -> list[Job]:
        # The watchdog's thread asks too: one step copies, another one filters.
        return [job for job in list(self._running.tasks.values()) if job is not None]

    async def finish(self, grace: float) -> None:
        """Waits for what runs, at most `grace` seconds; the rest is cancelled and given back.

        Handlers that ignore it are left to themselves: `run` ends without them.
        """
        await self._until_ended(grace)
        self.cancel_running()
        await self._until_ended(CANCEL_S)
        self._waits_for_handlers = False
        self._woken.set()

    def cancel_running(self) -> None:
        """Cancels the handlers that run; their jobs go back uncounted."""
        for task in list(self._running.tasks):
            self._running.cancelled.add(task)
            task.cancel()

    async def _until_ended(self, patience: float) -> None:
        """Waits for the entries that run now."""
        if self._running.tasks:
            await asyncio.wait(list(self._running.tasks), timeout=patience)

    async def close(self) -> int:
        """Leaves the queue; returns how many jobs went back unfinished.

        Raises TimeoutError where the server does not answer.
        """
        self.queue.station.keeper.remove(self._deliveries.id)
        try:
            async with asyncio.timeout(LEAVE_S):
                return await self.queue.link.run(self._deliveries.leave())
        finally:
            self._metronome.failed(self)
            async with asyncio.timeout(LEAVE_S):  # its blocker may wait for a frozen server
                await self._metronome.leave()

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
                self._log(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
                self._woken.set()
            if self._lease_lost:
                await self._start_anew()

    def _is_drained(self) -> bool:
        wants_more = self._fetching and not (self._burst and not self._hungry)
        runs = self._waits_for_handlers and self._running.tasks
        return not (wants_more or runs or self._settling)

    async def _round(self) -> None:
        """One exchange, if there is anything to settle or a slot to fill."""
        if self._lease_lost:
            raise LeaseLost(self._deliveries.id)
        if self._deliveries.unsure:
            await self.queue.link.run(self._deliveries.reconcile())
            self._idle = False
            self._metronome.failed(self)
            self._ask()
        batch, self._settling = self._settling[:MAX_SETTLED], self._settling[MAX_SETTLED:]
        if self._settling:
            self._woken.set()
        try:
            others = [one for one in batch if one.what.action != "complete"]
            if others:
                self._resolve(others, await self._settle(others))
                batch = [one for one in batch if one.what.action == "complete"]
            want = self._share(batch)
            if self._burst and not want and (others or batch):
                self._ask()  # what ended may have made something claimable
            if not want and not batch:
                return
            taken = await self._exchange(want, batch)
        except BaseException:
            self._settling = [one for one in batch if not one.accepted.done()] + self._settling
            raise
        self._resolve(batch, taken.reply.answers)
        self._start(taken)
        if want:
            await self._after_claim(want, taken)

    def _share(self, batch: list[_Settling]) -> int:
        """Slots to claim for: when it asked for them, or when settlements take a claim along."""
        wants = bool(batch) or self._slots.is_asked_by(self)
        claims = wants and self._fetching and not self._quiet
        return self._slots.take(self) if claims else 0

    async def _settle(self, batch: list[_Settling]) -> list[Answer]:
        began = self._asked_at = time.monotonic()
        answers = await self.queue.link.run(self._deliveries.settle([one.what for one in batch]))
        self._answered("settle", began)
        if "lost" in answers:
            raise LeaseLost(self._deliveries.id)
        return answers

    async def _exchange(self, want: int, batch: list[_Settling]) -> Taken:
        if want:
            self._metronome.sending(self)
            self._idle, self._claiming = False, True
        began = self._asked_at = time.monotonic()
        try:
            taken = await self.queue.link.run(
                self._deliveries.exchange(
                    want=want,
                    prefetch=self._prefetch,
                    park=not self._burst,
                    done=[one.job for one in batch],
                )
            )
        except BaseException:
            if want:
                self._claiming = False
                self._slots.give_back(want)
                self._metronome.failed(self)
                self._ask()
            raise
        self._answered("exchange", began)
        self.observer.claimed(taken.reply)
        self._traced = tracing.is_on()
        return taken

    def _answered(self, script: str, asked_at: float) -> None:
        self.observer.called(script, time.monotonic() - asked_at)
        self._asked_at = self._failing_since = None

    async def _after_claim(self, want: int, taken: Taken) -> None:
        """What the claim says of the next one: full, ask again; short, sleep until poked."""
        reply = taken.reply
        self._claiming = False
        self._slots.give_back(want - len(taken.entries))
        if taken.entries:
            self._slots.filled(self)
        if len(reply.entries) >= want:
            self._metronome.busy(self, left=reply.left)
            self._ask()
        elif reply.due == 0:
            try:
                watched_ms = self.queue.station.keeper.watched_ms
                await self.queue.link.run(self.queue.link.store.beat(watched_ms=watched_ms))
            except RotaError as error:
                self._log(error)
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

    def _resolve(self, batch: list[_Settling], answers: list[Answer]) -> None:
        for one, answer in zip(batch, answers, strict=True):
            if answer == "lost":
                self.tally.lost += 1
            else:
                self.tally.count(one.what.action)
            self.observer.settled(one.job, one.what.action, answer)
            if not one.accepted.done():
                one.accepted.set_result(answer)

    # ── running ─────────────────────────────────────────────────────────────────────────────

    def _start(self, taken: Taken) -> None:
        for entry in taken.entries:
            if not self._fetching:  # the stop came while the claim was on its way
                for job in entry:
                    self._end(job, settlement(job, Unstarted()))
                self._slots.give_back(1)
                continue
            task = asyncio.get_running_loop().create_task(self._run_entry(entry))
            self._running.tasks[task] = entry[0]
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        job = self._running.tasks.get(task)
        if error is not None and job is not None:
            logger.error(
                "running job %s failed",
                job.id,
                exc_info=error,
                extra=joblog.fields(self.queue.name, job),
            )
            self._end(job, settlement(job, Retry(error=repr(error))))
        self._free_slot(task)

    def _free_slot(self, task: asyncio.Task[None]) -> None:
        self._running.cancelled.discard(task)
        if task in self._running.tasks:
            del self._running.tasks[task]
            self._slots.give_back(1)
            self._woken.set()

    async def _run_entry(self, entry: list[Job]) -> None:
        current = asyncio.current_task()
        assert current is not None
        await self._run_in_order(entry, current)
        # Now, not in the task's callback: the exchange that carries the ending asks for the slot.
        self._free_slot(current)

    async def _run_in_order(self, entry: list[Job], current: asyncio.Task[None]) -> None:
        """A sequence's jobs one after the other: the next starts only after the server has
        accepted the settlement of the one before."""
        for job in entry:
            if self._lease_is_over() or not self._deliveries.is_held(job):
                return  # given back with the one before it, or another's by now
            if not self._fetching:
                self._end(job, settlement(job, Unstarted()))
                return  # the server gives back what was taken behind it too
            self._running.tasks[current] = job
            if job.suspect:
                settling = await self._run_suspect(job)
            else:
                settling = self._end(job, settlement(job, await self._execute(job)))
            if job is not entry[-1]:
                await asyncio.shield(settling.accepted)

    async def _run_suspect(self, job: Job) -> _Settling:
        """A job with a death behind it: alone of its kind in the process, from before the server
        has accepted its start until it has accepted its ending."""
        try:
            async with asyncio.timeout(SUSPECT_PAUSE_S):
                await self._executor.suspect.acquire()
        except TimeoutError:
            return self._end(job, settlement(job, Unstarted(SUSPECT_PAUSE_S)))
        try:
            may_start = await self._may_start(job) and not self._lease_is_over()
            ending = await self._execute(job) if may_start else Unstarted()
            settling = self._end(job, settlement(job, ending))
            await asyncio.shield(settling.accepted)
            return settling
        finally:
            self._executor.suspect.release()

    async def _may_start(self, job: Job) -> bool:
        try:
            return await self.queue.link.run(self._deliveries.start(job))
        except LeaseLost:
            self._lose()
        except RotaError as error:
            self._log(error)
        return False

    def _cancel(self, asked: list[tuple[str, str]]) -> None:
        """Stops the handlers of these deliveries; what has not begun will not."""
        for job in self._deliveries.mark_cancelled(asked):
            self._executor.interrupt(job)

    async def _execute(self, job: Job) -> Ending:
        if job.cancelled:
            return Stopped(begun=False)
        job.state = self._state
        job.begin()
        began = time.monotonic()
        if self._traced:
            with tracing.processing(self.queue.name, job) as span:
                ending = await self._handle(job)
                tracing.end(span, job, ending)
        else:
            ending = await self._handle(job)
        took = time.monotonic() - began
        self.observer.ran(job, took)
        joblog.tell(self.queue.name, job, ending, took)
        return ending

    async def _handle(self, job: Job) -> Ending:
        try:
            ending = await self._executor.execute(job, self.queue.find_task(job.task))
        except asyncio.CancelledError:
            ending = Failed(error="the handler cancelled its own task", kind="CancelledError")
        return self._judge(job, ending)

    def _judge(self, job: Job, ending: Ending) -> Ending:
        """What its handler's ending means: a stop or a cancel may have brought it about."""
        current = asyncio.current_task()
        if isinstance(ending, Failed) and current in self._running.cancelled:
            return Release()  # whatever it made of being cancelled
        while current is not None and current.cancelling():
            current.uncancel()
        if job.cancelled and isinstance(ending, Retry | Release):
            return Stopped(begun=True)
        return ending

    def _end(self, job: Job, what: Settlement) -> _Settling:
        accepted: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        settling = _Settling(job, what, accepted)
        if self._lease_lost or not self._deliveries.is_held(job):
            # Another has it by now, or the server has its ending already.
            accepted.set_result("lost")
            self._count_lost(settling)
        else:
            self._settling.append(settling)
            self._woken.set()
        return settling

    # ── a lost lease ────────────────────────────────────────────────────────────────────────

    def _lease_is_over(self) -> bool:
        """Also by this process's own clock: it may have stood still since it sent its claim."""
        if not self._lease_lost and not self.queue.station.keeper.is_alive(self._deliveries.id):
            self._lose()
        return self._lease_lost

    def _lose(self) -> None:
        """The jobs are others' now: their handlers are cancelled, their endings not sent."""
        for one in self._settling:
            self._count_lost(one)
            if not one.accepted.done():
                one.accepted.set_result("lost")
        self._settling.clear()
        if self._lease_lost:
            return
        self._lease_lost = True
        self._asked_at = None
        self.observer.lease_lost()
        self.cancel_running()
        self._woken.set()

    def _count_lost(self, one: _Settling) -> None:
        self.tally.lost += 1
        self.observer.settled(one.job, one.what.action, "lost")

    async def _start_anew(self) -> None:
        """Under a fresh identity, as soon as the server can be reached."""
        self.queue.station.keeper.remove(self._deliveries.id)
        self._lose()  # also what was on its way when the lease was lost
        pause = FIRST_PAUSE_S
        while self._lease_lost and self._fetching:
            try:
                await self._join()
            except RotaError as error:
                self._log(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
        self._metronome.failed(self)
        self._ask()

    def _decode(self, job: Job) -> None:
        self.queue.find_task(job.task)
        self.queue.decode(job)

    def _log(self, error: Exception) -> None:
        self.observer.failed()
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        if self._logs.allows("queue", error):
            logger.warning("queue %s: %s; trying again", self.queue.name, error)
