"""The endings of one queue's jobs on their way to the server, from a handler's end to the answer.

Jobs that are done are kept as they are: the exchange that completes them needs no more. Any
other ending is a `Settlement`, and is settled before the exchange that travels with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rota.consume.deliveries import Deliveries, Refused
from rota.observe import joblog
from rota.observe.meter import SILENT, Observer
from rota.values.endings import Ending, settlement
from rota.values.model import UNFIT, Action, Answer, Job, Settlement
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


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended otherwise than done."""

    job: Job
    what: Settlement


@dataclass(slots=True)
class Batch:
    """Endings that travel together. What was answered is taken out of it."""

    done: list[Job]
    others: list[Ended | Refused]

    def __bool__(self) -> bool:
        return bool(self.done or self.others)


class Settling:
    """What has ended and is not accepted yet. `wake` is called when something is to be sent."""

    def __init__(
        self,
        queue: str,
        deliveries: Deliveries,
        *,
        wake: Callable[[], None],
        observer: Observer = SILENT,
    ) -> None:
        self.tally = Tally()
        self.observer = observer
        self.lease_lost = False
        """While it is, no ending is taken: the jobs are others'."""
        self._queue = queue
        self._deliveries = deliveries
        self._wake = wake
        self._done: list[Job] = []
        self._others: list[Ended | Refused] = []
        self._waiting: dict[Job, asyncio.Future[None]] = {}
        self._told: set[tuple[str, str]] = set()
        """Tasks whose jobs cannot be run here, and why."""

    def __bool__(self) -> bool:
        return bool(self._done or self._others)

    # ── what ends ───────────────────────────────────────────────────────────────────────────

    def end(self, job: Job, ending: Ending) -> None:
        """The job is to end so, unless its delivery is not in hand any more: another has it by
        now, or the server has its ending already."""
        if self.lease_lost or not self._deliveries.is_held(job):
            self._count(job, "complete" if ending is None else settlement(job, ending).action)
            return
        if not self:
            self._wake()  # once, until the next `take`
        if ending is None:
            if job.charge == "time":
                job.ran()  # it ends here, not when the exchange is sent
            self._done.append(job)
        else:
            self._others.append(Ended(job, settlement(job, ending)))

    def refuse(self, refused: Iterable[Refused]) -> None:
        """Ends what was claimed and cannot be run. It counts, and is told, when the server has
        accepted it; what goes back as it is not its turn does not."""
        self._others += refused
        if self._others:
            self._wake()

    async def answered(self, job: Job) -> None:
        """Waits until the server has answered the job's ending, or the lease is lost. At once
        where it has, or where the ending was not taken."""
        if self.lease_lost or not self._deliveries.is_held(job):
            return
        future = self._waiting[job] = asyncio.get_running_loop().create_future()
        try:
            await future
        finally:
            del self._waiting[job]

    # ── what the fetch loop does with it ────────────────────────────────────────────────────

    def take(self) -> Batch:
        """What is to be sent next; the rest follows."""
        batch = Batch(self._done[:MAX_SETTLED], self._others[:MAX_SETTLED])
        del self._done[:MAX_SETTLED]
        del self._others[:MAX_SETTLED]
        if self:
            self._wake()
        return batch

    def put_back(self, batch: Batch) -> None:
        """It has had no answer: it is to be sent again."""
        self._done[:0] = batch.done
        self._others[:0] = batch.others

    def settled(self, batch: Batch, answers: Sequence[Answer]) -> None:
        """The server has answered the batch's others."""
        others, batch.others = batch.others, []
        for one, answer in zip(others, answers, strict=True):
            if isinstance(one, Ended):
                if answer == "slowed":
                    joblog.tell_slowed(self._queue, one.job)
                    answer = "ok"
                self._count(one.job, one.what.action, answer)
                self._tell(one.job)
            elif answer != "lost":
                self._count_refused(one, answer)

    def completed(self, batch: Batch, answers: Sequence[Answer]) -> None:
        """The server has answered what was done."""
        done, batch.done = batch.done, []
        if len(done) != len(answers):
            raise ValueError(f"{len(answers)} answers for {len(done)} jobs that are done")
        if self.observer is SILENT and "lost" not in answers:
            self.tally.done += len(done)  # nearly always, so at once
        else:
            for job, answer in zip(done, answers, strict=True):
                self._count(job, "complete", answer)
        for job in done if self._waiting else ():
            self._tell(job)

    def lose(self) -> None:
        """The lease is lost: what was to be sent is not, and nobody waits for an answer."""
        self.lease_lost = True
        done, others = self._done, self._others
        self._done, self._others = [], []
        for job in done:
            self._count(job, "complete")
        for one in others:
            if isinstance(one, Ended):
                self._count(one.job, one.what.action)
        for job in list(self._waiting):
            self._tell(job)

    def _count_refused(self, one: Refused, answer: Answer) -> None:
        self.tally.count(one.what.action, answer)
        if one.what.action == "release" and not one.what.delay:
            return  # its turn is another time
        with safely:
            if one.what.action == "bury":
                self.observer.refused()
            elif one.job is not None:
                self.observer.settled(one.job, one.what.action, answer)
        if one.job is not None and one.what.delay == UNFIT:
            said = (one.job.task, one.why)
            if said in self._told or len(self._told) >= MAX_TOLD:
                return
            self._told.add(said)
        joblog.tell_refused(
            self._queue, one.what.id, one.job, one.why, dead=one.what.action == "bury"
        )

    def _tell(self, job: Job) -> None:
        future = self._waiting.get(job)
        if future is not None and not future.done():
            future.set_result(None)

    def _count(self, job: Job, action: Action, answer: Answer = "lost") -> None:
        self.tally.count(action, answer)
        if self.observer is not SILENT:
            with safely:
                self.observer.settled(job, action, answer)
