"""Keeping leases: one thread of a process renews them all, and beats for their queues.

It has an event loop and so connections of its own: neither a handler that blocks the worker's loop
nor a full pool costs a lease, and a server that does not answer holds up nobody but its own queues.
Leases also end by this process's own clock, counted from when the last acknowledged renewal was
*sent*: the server may have given the jobs away by then.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from rota.connection import Bounds
from rota.consume.lease_thread import RETRY_PAUSE_S, lease_thread, until_set
from rota.errors import Unavailable
from rota.link import Link
from rota.observe.observer import CALL_BOUNDS, Histogram
from rota.script.loader import Operation
from rota.values.model import Holdings, Instruction, Job
from rota.values.telling import Logger, safely
from rota.values.timing import Sparingly

T = TypeVar("T")
logger = Logger("rota.lease")

RENEWALS_PER_LEASE = 3
FIRST_BEAT = 0.4
"""By when of its shortest lease a keeper beats for the first time: a queue without a beat for half
a lease passes for one whose server was away."""
LEAST_PATIENCE_S = 0.5
REPLY_TIMEOUT_S = 10.0
MOST_FAILURES = 16
"""From then on a call's patience grows no more."""
TRIPS = 10
"""How many round trips a lease must be long: a renewal begins when a third of it is over, and takes
about six over a new connection."""
STRETCHED = 12
"""How many round trips a lease lasts that was too short for them."""
MEASURED = 3
DOUBTS = 2
"""How many heartbeats in a row must find other holdings than the consumer's own, until they are
compared: what is on its way lets them differ as well."""


class Holder(Protocol):
    """Whom a lease is kept for, as its keeper sees it; called from its thread."""

    def agrees(self, holdings: Holdings) -> bool: ...

    def compare(self) -> Operation[tuple[int, list[Job]]]: ...

    def lease_ended(self, consumer: str) -> object:
        """Once, with the identity that held it: by now it may have started anew under another."""

    def gone(self, jobs: list[Job]) -> object:
        """These were in its hands, and are not by the server's word."""

    def asked(self, deliveries: list[tuple[str, str]]) -> object:
        """At every beat, while there are any: the jobs in its hands (id, delivery) that someone
        asked to cancel."""

    def instructed(self, word: Instruction) -> object:
        """Likewise what was asked of its process."""


@dataclass(slots=True)
class Lease:
    """That of a consumer that joined for `seconds`, until `deadline` (monotonic). Where that is
    longer than was `wanted`, the server is too far away for that."""

    holder: Holder
    wanted: float
    seconds: float
    deadline: float
    doubts: int = 0

    @property
    def trouble(self) -> str | None:
        """That it is longer, for people."""
        if self.seconds <= self.wanted:
            return None
        return (
            f"a lease of {self.wanted:g} s is too short for the round trips to its server: "
            f"it is kept for {self.seconds:.1f} s"
        )


class LeaseKeeper:
    """Renews the leases of a process's consumers in one queue, beats, compares what they hold."""

    def __init__(self, link: Link, *, beat: float) -> None:
        self.link = link
        self.changed = asyncio.Event()
        """Of the task that runs now."""
        self._beat = beat
        self._leases: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._since = time.monotonic()
        self._lost_last = False
        self._logs = Sparingly()
        self.calls = {name: Histogram(CALL_BOUNDS) for name in ("heartbeat", "beat")}
        """How long the server took to answer, in seconds."""
        self.renewals = 0
        self.lost = 0
        self.errors = 0
        self._failing = False
        self._failures = 1  # the first call opens a connection
        self._took: deque[float] = deque(maxlen=MEASURED)

    def add(self, consumer: str, lease: Lease) -> None:
        """From now on it is kept."""
        self._tell_stretched(lease)
        with self._lock:
            if not self._leases and not self._lost_last:
                self._since = time.monotonic()
            self._lost_last = False
            self._leases[consumer] = lease
        lease_thread.serve(self)

    def remove(self, consumer: str, *, lost: bool = False) -> None:
        """It is renewed no more. `lost`: who holds it has found out that it is, and the server is
        to give its jobs to others."""
        with self._lock:
            if self._leases.pop(consumer, None) is not None:
                self._lost_last = lost
                self.lost += lost
        lease_thread.wake(self)

    @property
    def watched_ms(self) -> int:
        """For how long it has kept leases without a break, those lost meanwhile included."""
        return round((time.monotonic() - self._since) * 1000)

    @property
    def trouble(self) -> str | None:
        """What is wrong with it, for people; None where all is well, or it has nothing to keep."""
        if self._leases and not lease_thread.is_alive:
            return "its thread has ended"
        if self._failing:
            return "the server does not answer it"
        return next(filter(None, (one.trouble for one in self._leases.copy().values())), None)

    def is_alive(self, consumer: str) -> bool:
        """Whether the lease still holds by this process's own clock."""
        lease = self._leases.get(consumer)
        return lease is not None and time.monotonic() < lease.deadline

    @property
    def is_needed(self) -> bool:
        return bool(self._leases)

    # ── its task in the thread's loop ───────────────────────────────────────────────────────

    async def keep(self) -> None:
        """While there are leases."""
        self.changed = asyncio.Event()
        pause = self._period()
        try:
            while self._leases:
                try:
                    await self._keep(pause)
                except Exception as error:
                    self._log("keeping leases failed, trying again: %s", error)
                    await asyncio.sleep(min(RETRY_PAUSE_S, self._period()))
                    pause = 0.0
        finally:
            await self.link.async_client.close()

    async def _keep(self, pause: float) -> None:
        now = time.monotonic()
        next_renewal = now + pause
        next_beat = now + min(random.uniform(0.2, 1) * self._beat, FIRST_BEAT * self._shortest())
        while self._leases:
            now = time.monotonic()
            if now >= next_renewal:
                next_renewal = time.monotonic() + await self._renew()
            if now >= next_beat:
                await self._keep_time()
                # Beats further apart than half a lease would pass for a server that was
                # away, and jobs that kill their workers would count no deaths.
                next_beat = time.monotonic() + min(self._beat, self._period())
            next_renewal = min(next_renewal, time.monotonic() + self._period())
            await until_set(self.changed, min(next_renewal, next_beat) - time.monotonic())

    def _shortest(self) -> float:
        with self._lock:
            return min((lease.seconds for lease in self._leases.values()), default=30.0)

    def _period(self) -> float:
        return self._shortest() / RENEWALS_PER_LEASE

    async def _call(self, operation: Operation[T]) -> T:
        """Each call bounded so that it can be tried again while leases last. The bound grows with
        each failure: a call that has to open a connection takes longer."""
        shortest = self._shortest()
        patience = max(LEAST_PATIENCE_S, shortest / RENEWALS_PER_LEASE * 2**self._failures)
        most = min(REPLY_TIMEOUT_S, shortest, patience)
        bounds = Bounds(most, resend=False, room="leases")
        target = self.link.target
        try:  # an embedded server is looked for, and started, without regard to bounds
            async with asyncio.timeout(most if target.kind == "embedded" else None):
                return await self.link.async_client.run(operation, bounds)
        except TimeoutError:
            raise Unavailable(f"{target.display} does not answer") from None

    async def _renew(self) -> float:
        """One round of renewals; seconds until the next."""
        with self._lock:
            groups: dict[float, list[str]] = {}
            for consumer, lease in self._leases.items():
                groups.setdefault(lease.seconds, []).append(consumer)
        pause = self._period()
        for seconds, consumers in groups.items():
            try:
                await self._renew_group(seconds, consumers)
            except Exception as error:  # whatever it was: this must go on
                self._log("renewing leases failed, trying again: %s", error)
                pause = min(RETRY_PAUSE_S, pause)
        self._report_lost()
        self._stretch()
        for consumer, lease in list(self._leases.items()):
            if lease.doubts >= DOUBTS:
                await self._compare(consumer, lease)
        return pause

    async def _renew_group(self, seconds: float, consumers: list[str]) -> None:
        sent = time.monotonic()
        answers = await self._call(
            self.link.store.heartbeat(consumers, lease_ms=round(seconds * 1000))
        )
        took = time.monotonic() - sent
        self._took.append(took)
        self._count("heartbeat", took)
        with self._lock:
            for consumer, holdings in zip(consumers, answers, strict=True):
                known = self._leases.get(consumer)
                if known is not None and holdings is not None:
                    known.deadline = sent + seconds
                    known.doubts = 0 if known.holder.agrees(holdings) else known.doubts + 1
                elif known is not None:
                    known.deadline = 0.0
        self.renewals += sum(holdings is not None for holdings in answers)

    def _report_lost(self) -> None:
        now = time.monotonic()
        with self._lock:
            lost = [(c, lease) for c, lease in self._leases.items() if lease.deadline <= now]
            for consumer, _ in lost:
                del self._leases[consumer]
            self._lost_last = self._lost_last or bool(lost)
            self.lost += len(lost)
        for consumer, lease in lost:
            logger.warning("the lease of consumer %s is lost", consumer)
            self._tell(lease.holder.lease_ended, consumer)

    def _stretch(self) -> None:
        """A lease that the round trips leave no time to renew would end, and its jobs would be
        blamed for it: it is kept for longer than was wanted, as long as that is so."""
        if len(self._took) < MEASURED:
            return
        took, short = min(self._took), []
        with self._lock:
            for lease in self._leases.values():
                if took * TRIPS > lease.seconds:
                    lease.seconds = took * STRETCHED
                    short.append(lease)
                elif took * TRIPS <= lease.wanted:
                    lease.seconds = lease.wanted
        for lease in short:
            self._tell_stretched(lease)

    def _tell_stretched(self, lease: Lease) -> None:
        text = lease.trouble
        if text is not None and self._logs.allows("lease", ValueError(text)):
            logger.warning("queue %s: %s", self.link.keys.root, text)

    async def _compare(self, consumer: str, lease: Lease) -> None:
        try:
            back, gone = await self._call(lease.holder.compare())
        except Exception as error:
            self._log("comparing what a consumer holds failed, trying again: %s", error)
            return
        if back or gone:
            logger.warning(
                "queue %s: its server has lost what it was told, as in a failover: consumer %s "
                "gives back %d jobs that it held by the server's word only, and lets go of %d that "
                "others may have",
                self.link.keys.root,
                consumer,
                back,
                len(gone),
            )
        if gone and self._leases.get(consumer) is lease:
            self._tell(lease.holder.gone, gone)

    async def _keep_time(self) -> None:
        sent = time.monotonic()
        try:
            _, asked = await self._call(self.link.store.keep_time(watched_ms=self.watched_ms))
            self._count("beat", time.monotonic() - sent)
            if asked:
                await self._tell_asked()
        except Exception as error:
            self._log("beat failed, trying again: %s", error)

    async def _tell_asked(self) -> None:
        """Something was asked: it looks whether of jobs or consumers of this process."""
        with self._lock:
            leases = dict(self._leases)
        asked = await self._call(self.link.store.asked(list(leases)))
        for consumer, jobs in asked.items():
            self._tell(leases[consumer].holder.asked, jobs)
        orders = await self._call(self.link.store.orders(list(leases)))
        for consumer, word in orders.items():
            self._tell(leases[consumer].holder.instructed, word)

    def _tell(self, what: Callable[[T], object], told: T) -> None:
        with safely:
            try:
                what(told)
            except RuntimeError:
                pass  # its event loop is closed

    def _count(self, call: str, seconds: float) -> None:
        self.calls[call].observe(seconds)
        self._failing, self._failures = False, 0

    def _log(self, message: str, error: Exception) -> None:
        self.errors += 1
        self._failing, self._failures = True, min(self._failures + 1, MOST_FAILURES)
        if self._logs.allows(message, error):
            logger.warning(message, error)
