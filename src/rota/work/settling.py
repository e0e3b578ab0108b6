"""The endings of one queue's jobs on their way to the server, from a handler's end to the answer.

Jobs that are done are kept as they are: the exchange that completes them needs no more. Any
other ending is a `Settlement`, and is settled before the exchange that travels with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rota.consume.deliveries import Deliveries, Ended
from rota.observe import joblog
from rota.observe.observer import SILENT
from rota.values.endings import Ending, settlement
from rota.values.model import UNFIT, Action, Answer, Job
from rota.values.telling import safely

MAX_SETTLED = 1000
"""The most endings of either kind that travel together."""
MAX_TOLD = 1000
"""Of how many tasks it is said that their jobs cannot be run here: a task may have any name."""


@dataclass(slots=True)
class Tally:
    """What became of the jobs a worker ran; `dead` are also those that could not be run."""

    done: int = 0
    retried: int = 0
    dead: int = 0
    lost: int = 0

    def count(self, action: Action, answer: Answer) -> None:
        if answer == "lost":
            self.lost += 1
        elif action == "complete":
            self.done += 1
        elif action == "retry":
            self.retried += 1
        elif action == "bury":
            self.dead += 1


@dataclass(slots=True)
class Outgoing:
    """Endings that travel together. What was answered is taken out of it."""

    done: list[Job]
    others: list[Ended]

    def __bool__(self) -> bool:
        return bool(self.done or self.others)


class Settling:
    """What has ended and is not accepted yet. `woken` is set when something is to be sent."""

    def __init__(self, queue: str, deliveries: Deliveries, woken: asyncio.Event) -> None:
        self.tally = Tally()
        self.observer = SILENT
        self.lease_lost = False
        """While it is, no ending is taken: the jobs are others'."""
        self._queue = queue
        self._deliveries = deliveries
        self._woken = woken
        self._done: list[Job] = []
        self._others: list[Ended] = []
        self._answer = asyncio.Event()
        """Set and cleared at once: whoever waits looks whether it was its own."""
        self._told: set[tuple[str, str]] = set()
        """Tasks whose jobs cannot be run here, and why."""

    def __bool__(self) -> bool:
        return bool(self._done or self._others)

    # ── what ends ───────────────────────────────────────────────────────────────────────────

    def end(self, job: Job, ending: Ending) -> None:
        """The job is to end so, unless its delivery is not in hand any more: another has it by
        now, or the server has its ending already."""
        if self.lease_lost or not self._deliveries.has(job):
            self._count(job, "complete" if ending is None else settlement(job, ending).action)
            return
        if not self:
            self._woken.set()  # once, until the next `take`
        if ending is None:
            if job.charge == "time":
                job.ran()  # it ends here, not when the exchange is sent
            self._done.append(job)
        else:
            self._others.append(Ended(job, settlement(job, ending)))

    def take_over(self, ended: Iterable[Ended]) -> None:
        """Ends what was claimed and cannot be run. It counts, and is told, when the server has
        accepted it; what goes back as it is not its turn does not."""
        self._others += ended
        if self._others:
            self._woken.set()

    async def answered(self, job: Job) -> None:
        """Waits until the server has answered the job's ending, or the lease is lost. At once
        where it has, or where the ending was not taken."""
        while not self.lease_lost and self._deliveries.has(job):
            await self._answer.wait()

    # ── what the fetch loop does with it ────────────────────────────────────────────────────

    def take(self) -> Outgoing:
        """What is to be sent next; the rest follows."""
        batch = Outgoing(self._done[:MAX_SETTLED], self._others[:MAX_SETTLED])
        del self._done[:MAX_SETTLED]
        del self._others[:MAX_SETTLED]
        if self:
            self._woken.set()
        return batch

    def put_back(self, batch: Outgoing) -> None:
        """It has had no answer: it is to be sent again."""
        self._done[:0] = batch.done
        self._others[:0] = batch.others

    def settled(self, batch: Outgoing, answers: Sequence[Answer]) -> None:
        """The server has answered the batch's others."""
        others, batch.others = batch.others, []
        for one, answer in zip(others, answers, strict=True):
            self._count_other(one, answer)
        self._tell()

    def completed(self, batch: Outgoing, answers: Sequence[Answer]) -> None:
        """The server has answered what was done."""
        done, batch.done = batch.done, []
        if len(done) != len(answers):
            raise ValueError(f"{len(answers)} answers for {len(done)} jobs that are done")
        if self.observer is SILENT and "lost" not in answers:
            self.tally.done += len(done)  # nearly always, so at once
        else:
            for job, answer in zip(done, answers, strict=True):
                self._count(job, "complete", answer)
        self._tell()

    def lose(self) -> None:
        """The lease is lost: what was to be sent is not, and nobody waits for an answer."""
        self.lease_lost = True
        done, others = self._done, self._others
        self._done, self._others = [], []
        for job in done:
            self._count(job, "complete")
        for one in others:
            self._count_other(one, "lost")
        self._tell()

    def _tell(self) -> None:
        self._answer.set()
        self._answer.clear()

    def _count_other(self, one: Ended, answer: Answer) -> None:
        if one.why is not None:
            if answer != "lost":
                self._count_unrun(one, one.why, answer)
        elif one.job is not None:
            if answer == "slowed":
                joblog.tell_slowed(self._queue, one.job)
                answer = "ok"
            self._count(one.job, one.what.action, answer)

    def _count_unrun(self, one: Ended, why: str, answer: Answer) -> None:
        self.tally.count(one.what.action, answer)
        if one.what.action == "release" and not one.what.delay:
            return  # its turn is another time
        with safely:
            if one.what.action == "bury":
                self.observer.refused()
            elif one.job is not None:
                self.observer.settled(one.job, one.what.action, answer)
        if one.job is not None and one.what.delay == UNFIT:
            said = (one.job.task, why)
            if said in self._told or len(self._told) >= MAX_TOLD:
                return
            self._told.add(said)
        joblog.tell_refused(self._queue, one.what.id, one.job, why, dead=one.what.action == "bury")

    def _count(self, job: Job, action: Action, answer: Answer = "lost") -> None:
        self.tally.count(action, answer)
        if self.observer is not SILENT:
            with safely:
                self.observer.settled(job, action, answer)
