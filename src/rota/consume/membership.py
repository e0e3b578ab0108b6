"""A consumer's place in a queue: it joins, keeps its lease by both clocks, loses it, leaves.

Operations without I/O; a worker's fetch loop and the consumers in a user's hands drive these.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from weakref import WeakKeyDictionary

from rota.consume.bell import LoopBell, ThreadBell
from rota.consume.deliveries import Decode, Deliveries
from rota.consume.lease import Lease, LeaseKeeper
from rota.errors import LeaseLost
from rota.link import Link
from rota.script.loader import Operation
from rota.values.model import Answer, Instruction, Job, Settlement

T = TypeVar("T")


class Consuming:
    """What all consumers of a process share in one queue: the lease keeper and the bells. Made with
    the queue; a child process gets its own parts on first use."""

    def __init__(self, link: Link, *, beat: float) -> None:
        self.link = link
        self.beat = beat
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._keeper = LeaseKeeper(self.link, beat=self.beat)
        self._threads = ThreadBell(self.link, beat=self.beat)
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBell] = WeakKeyDictionary()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self._renew()

    @property
    def keeper(self) -> LeaseKeeper:
        self._check_process()
        return self._keeper

    @property
    def thread_bell(self) -> ThreadBell:
        self._check_process()
        return self._threads

    def bell(self) -> LoopBell:
        """The running loop's."""
        self._check_process()
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._loops.get(loop)
            if found is None:
                for other in [one for one in self._loops if one.is_closed()]:
                    del self._loops[other]  # its bell knows its loop: neither would go
                found = self._loops[loop] = LoopBell(self.link, beat=self.beat)
            return found


class Membership:
    """Holds a lease, and jobs, under the identity of `deliveries`. What raises LeaseLost here has
    noted it.

    `on_lost` is called once for each lease that is lost; `on_stop` with jobs that need not be run
    on: by the server's word they are not in its hands any more, or someone asked to cancel them;
    `on_instruction` with what was asked of the process. `post` takes word of the keeper, whose
    thread calls it, to where the consumer lives.
    """

    def __init__(
        self,
        consuming: Consuming,
        *,
        lease: float,
        decode: Decode,
        on_lost: Callable[[], None] = lambda: None,
        on_stop: Callable[[Sequence[Job]], None] = lambda jobs: None,
        on_instruction: Callable[[Instruction], None],
        post: Callable[..., object] = lambda tell, *args: tell(*args),
    ) -> None:
        self.deliveries = Deliveries(
            consuming.link.store, lease_ms=round(lease * 1000), decode=decode
        )
        self.agrees, self.compare = self.deliveries.agrees, self.deliveries.compare
        self.lost = False
        self.keeper: LeaseKeeper = consuming.keeper
        self._pid = os.getpid()
        self._consuming = consuming
        self._lease = lease
        self._on_lost = on_lost
        self._on_stop = on_stop
        self._on_instruction = on_instruction
        self._post = post

    @property
    def id(self) -> str:
        """The present identity; a new one after a lease was lost."""
        return self.deliveries.id

    # ── its lease ───────────────────────────────────────────────────────────────────────────

    def join(self) -> Operation[None]:
        """Under a fresh identity. The lease counts from before the server made it."""
        # Taken once: at each access it is looked whether this is still the same process.
        self.keeper = self._consuming.keeper
        since, seconds = yield from self.deliveries.join()
        self.lost = False
        self.keeper.add(self.id, Lease(self, self._lease, seconds, since + seconds))
        yield from self.deliveries.leave_former()

    def is_over(self) -> bool:
        """Also by this process's own clock: it may have stood still since it sent its claim."""
        if self._pid != os.getpid():  # in a child: the lease and the jobs are its parent's
            self._pid, self.keeper, self.lost = os.getpid(), self._consuming.keeper, True
            self.deliveries.disown()
        elif not self.lost and not self.keeper.is_alive(self.id):
            self.lose()
        return self.lost

    def lose(self, consumer: str | None = None) -> None:
        """The lease under that identity, by default the present one, is gone: what it held is, or
        will be, others'."""
        lost = consumer or self.id
        self.keeper.remove(lost, lost=True)
        if lost == self.id and not self.lost:  # else it has started anew already
            self.lost = True
            self._on_lost()

    def check(self, jobs: Iterable[Job]) -> None:
        """Raises LeaseLost where these are others' by now."""
        if self.is_over() or any(self.deliveries.is_of_lost_lease(job) for job in jobs):
            raise _gone(self.id)

    def leave(self) -> Operation[int]:
        """Ends the lease; returns how many jobs went back unfinished."""
        self.keeper.remove(self.id)
        return (yield from self.deliveries.leave())

    # ── its jobs ────────────────────────────────────────────────────────────────────────────

    def noting(self, operation: Operation[T]) -> Operation[T]:
        """As `operation`; where that finds the lease gone, it is lost."""
        asked = self.id
        try:
            return (yield from operation)
        except LeaseLost:
            self.lose(asked)
            raise

    def settle(self, settlements: Sequence[Settlement]) -> Operation[list[Answer]]:
        """Ends deliveries, each in its own way."""
        asked = self.id
        answers = yield from self.deliveries.settle(settlements)
        if "lost" in answers:
            self.lose(asked)
            raise _gone(asked)
        return answers

    def start(self, job: Job) -> Operation[bool]:
        """For a job with a death behind it; False: it must not be run."""
        may_start = yield from self.noting(self.deliveries.start(job))
        self.check([job])  # the answer may have come after its end
        return may_start

    def reconcile(self) -> Operation[None]:
        """After an unknown outcome: gives back what it does not know, forgets what is gone."""
        self._on_stop((yield from self.noting(self.deliveries.reconcile())))

    # ── for its lease keeper ────────────────────────────────────────────────────────────────

    def lease_ended(self, consumer: str) -> None:
        self._post(self.lose, consumer)

    def gone(self, jobs: list[Job]) -> None:
        self._post(self._gone, jobs)

    def asked(self, deliveries: list[tuple[str, str]]) -> None:
        self._post(self._asked, deliveries)

    def instructed(self, word: Instruction) -> None:
        self._post(self._on_instruction, word)

    def _gone(self, jobs: list[Job]) -> None:
        self.deliveries.let_go(jobs)
        self._on_stop(jobs)

    def _asked(self, deliveries: list[tuple[str, str]]) -> None:
        self._on_stop(self.deliveries.mark_cancelled(deliveries))


def _gone(consumer: str) -> LeaseLost:
    return LeaseLost(f"the lease of consumer {consumer} is gone: its jobs are others' now")
