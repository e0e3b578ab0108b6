"""Keeping leases: one thread per process and queue renews them all and beats for the queue.

It has a connection of its own, so that neither a handler that blocks the event loop nor a full
pool costs a lease. Leases also end by this process's own clock, counted from when the last
acknowledged renewal was *sent*: the server may have given the jobs away by then.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rota.connection import Client
from rota.link import Link
from rota.listing import Order
from rota.meter import CALL_BOUNDS, Histogram
from rota.timing import Sparingly

T = TypeVar("T")
logger = logging.getLogger("rota.lease")

RENEWALS_PER_LEASE = 3
RETRY_PAUSE_S = 0.5


@dataclass(slots=True)
class _Lease:
    seconds: float
    deadline: float
    on_lost: Callable[[str], None]
    on_asked: Callable[[list[tuple[str, str]]], object]
    on_order: Callable[[Order], object]


class LeaseKeeper:
    """Renews the leases of a process's consumers in one queue, and beats.

    The thread starts with the first consumer and ends with the last. `on_lost` is called from
    it, once, when a lease has ended, with the identity that held it: by then the consumer may have
    started anew under another. `on_asked` is called, at every beat, with the jobs in the consumer's
    hands (id, delivery) that someone asked to cancel, while there are any; `on_order` likewise with
    what was asked of its process.
    """

    def __init__(self, link: Link, *, beat: float) -> None:
        self._link = link
        self._beat = beat
        self._leases: dict[str, _Lease] = {}
        self._watches: list[Callable[[], None]] = []
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._since = time.monotonic()
        self._lost_last = False
        self._logs = Sparingly()
        self.calls = {name: Histogram(CALL_BOUNDS) for name in ("heartbeat", "beat")}
        """How long the server took to answer, in seconds."""
        self.renewals = 0
        self.lost = 0
        self.errors = 0
        self._failing = False

    def add(
        self,
        consumer: str,
        seconds: float,
        on_lost: Callable[[str], None],
        on_asked: Callable[[list[tuple[str, str]]], object],
        on_order: Callable[[Order], object],
        *,
        since: float,
    ) -> None:
        """From now on `consumer`, which joined at `since` (monotonic), is kept alive."""
        with self._change:
            if not self._leases and not self._lost_last:
                self._since = time.monotonic()
            self._lost_last = False
            self._leases[consumer] = _Lease(seconds, since + seconds, on_lost, on_asked, on_order)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"rota-lease-{self._link.keys.root}", daemon=True
                )
                self._thread.start()
            self._change.notify()

    def remove(self, consumer: str) -> None:
        with self._change:
            if self._leases.pop(consumer, None) is not None:
                self._lost_last = False
            self._change.notify()

    def lose(self, consumer: str) -> None:
        """Who holds it has found out that it is lost: it is renewed no more, so that the server can
        give its jobs to others."""
        with self._change:
            if self._leases.pop(consumer, None) is not None:
                self._lost_last = True
                self.lost += 1
            self._change.notify()

    @property
    def watched_ms(self) -> int:
        """For how long it has kept leases without a break, those lost meanwhile included."""
        return round((time.monotonic() - self._since) * 1000)

    def watch(self, look: Callable[[], None]) -> None:
        """Calls `look` from the thread about once a second."""
        with self._change:
            self._watches.append(look)

    def unwatch(self, look: Callable[[], None]) -> None:
        with self._change:
            if look in self._watches:
                self._watches.remove(look)

    @property
    def trouble(self) -> str | None:
        """What is wrong with it, for people; None where all is well, or it has nothing to keep."""
        thread = self._thread
        if self._leases and (thread is None or not thread.is_alive()):
            return "its thread has ended"
        return "the server does not answer it" if self._failing else None

    def is_alive(self, consumer: str) -> bool:
        """Whether the lease still holds by this process's own clock."""
        lease = self._leases.get(consumer)
        return lease is not None and time.monotonic() < lease.deadline

    # ── the thread ──────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        client, reply_timeout = None, 0.0
        next_renewal = time.monotonic() + self._period()
        next_beat = time.monotonic() + random.uniform(0.2, 1) * self._beat
        try:
            while True:
                with self._change:
                    if not self._leases:
                        self._thread = None
                        return
                    due = min(next_renewal, next_beat)
                    if self._watches:
                        due = min(due, time.monotonic() + 1)
                    self._change.wait(max(0.0, due - time.monotonic()))
                    next_renewal = min(next_renewal, time.monotonic() + self._period())
                for look in list(self._watches):
                    look()
                if client is not None and self._reply_timeout() < reply_timeout:
                    client.close()  # a shorter lease cannot wait so long
                    client = None
                if client is None:
                    reply_timeout = self._reply_timeout()
                    client = self._link.own_client(reply_timeout=reply_timeout, resend_window=0)
                if time.monotonic() >= next_renewal:
                    next_renewal = time.monotonic() + self._renew(client)
                if time.monotonic() >= next_beat:
                    self._keep_time(client)
                    # Beats further apart than half a lease would pass for a server that was
                    # away, and jobs that kill their workers would count no deaths.
                    next_beat = time.monotonic() + min(self._beat, self._period())
        finally:
            if client is not None:
                client.close()

    def _reply_timeout(self) -> float:
        return max(0.5, min(10.0, self._period()))

    def _period(self) -> float:
        with self._change:
            shortest = min((lease.seconds for lease in self._leases.values()), default=30.0)
        return shortest / RENEWALS_PER_LEASE

    def _renew(self, client: Client) -> float:
        """One round of renewals; seconds until the next."""
        with self._change:
            groups: dict[float, list[str]] = {}
            for consumer, lease in self._leases.items():
                groups.setdefault(lease.seconds, []).append(consumer)
        pause = self._period()
        for seconds, consumers in groups.items():
            sent = time.monotonic()
            try:
                renewed = client.run(
                    self._link.store.heartbeat(consumers, lease_ms=round(seconds * 1000))
                )
            except Exception as error:  # whatever it was: this thread must go on
                self._log("renewing leases failed, trying again: %s", error)
                pause = min(RETRY_PAUSE_S, pause)
                continue
            self._count("heartbeat", time.monotonic() - sent)
            self.renewals += sum(renewed)
            with self._change:
                for consumer, kept in zip(consumers, renewed, strict=True):
                    known = self._leases.get(consumer)
                    if known is not None:
                        known.deadline = sent + seconds if kept else 0.0
        self._report_lost()
        return pause

    def _report_lost(self) -> None:
        now = time.monotonic()
        with self._change:
            lost = [(c, lease) for c, lease in self._leases.items() if lease.deadline <= now]
            for consumer, _ in lost:
                del self._leases[consumer]
            self._lost_last = self._lost_last or bool(lost)
            self.lost += len(lost)
        for consumer, lease in lost:
            logger.warning("the lease of consumer %s is lost", consumer)
            try:
                lease.on_lost(consumer)
            except RuntimeError:
                pass  # its event loop is closed

    def _keep_time(self, client: Client) -> None:
        sent = time.monotonic()
        try:
            _, asked = client.run(self._link.store.keep_time(watched_ms=self.watched_ms))
            self._count("beat", time.monotonic() - sent)
            if asked:
                self._tell_asked(client)
        except Exception as error:
            self._log("beat failed, trying again: %s", error)

    def _tell_asked(self, client: Client) -> None:
        """Something was asked: it looks whether of jobs or consumers of this process."""
        with self._change:
            leases = dict(self._leases)
        for consumer, jobs in client.run(self._link.store.asked(list(leases))).items():
            self._tell(leases[consumer].on_asked, jobs)
        for consumer, word in client.run(self._link.store.orders(list(leases))).items():
            self._tell(leases[consumer].on_order, word)

    def _tell(self, what: Callable[[T], object], asked: T) -> None:
        try:
            what(asked)
        except RuntimeError:
            pass  # its event loop is closed

    def _count(self, call: str, seconds: float) -> None:
        self.calls[call].observe(seconds)
        self._failing = False

    def _log(self, message: str, error: Exception) -> None:
        self.errors += 1
        self._failing = True
        if self._logs.allows(message, error):
            logger.warning(message, error)
