"""Judges a record: what was promised, and whether it was kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import combinations
from math import inf

from tests.chaos.evidence import Evidence, grouped
from tests.chaos.finding import Final, Finding
from tests.chaos.observer import Reply, Run
from tests.chaos.ordering import Ordering

MARGIN = 0.1
"""Seconds in which a worker may not yet have noticed what its clock says."""


class Verdict:
    """Compares a record with the promises; `findings` is empty when all were kept."""

    def __init__(self, evidence: Evidence, final: Final, *, ceilings: Mapping[str, int]) -> None:
        self.final = final
        self._evidence = evidence
        self._record = evidence.record
        self._ceilings = ceilings

    @cached_property
    def findings(self) -> list[Finding]:
        rules = (
            self.lost,
            self.counted,
            self.done_twice,
            self.overlaps,
            self.late,
            Ordering(self._evidence).findings,
            self.over_ceiling,
            self.suspects,
            self.deaths,
            self.attempts,
        )
        return [finding for rule in rules for finding in rule()]

    # ── nothing is lost, nothing is done twice ──────────────────────────────────────────────

    def lost(self) -> Iterator[Finding]:
        for order in self._record.orders.values():
            if order.acked is None or order.job in self.final.dead or order.job in self.final.left:
                continue
            if self._evidence.was_discarded(order.job):
                continue
            runs = self._evidence.runs_of.get(order.job, [])
            if not any(run.outcome == "ok" and not self._evidence.was_refused(run) for run in runs):
                text = f"{order.job} is nowhere, and no run of it ended well"
                yield Finding("lost", text, (order.job,))
        for id in self.final.left:
            yield Finding("lost", f"{id} is neither done nor dead after the drain", (id,))

    def counted(self) -> Iterator[Finding]:
        """The server's totals agree with the record."""
        totals = self.final.totals
        if not totals or self._evidence.asked_again:
            return
        acked = [order.job for order in self._record.orders.values() if order.acked is not None]
        done = len(acked) - len(self.final.dead) - sum(map(self._evidence.was_discarded, acked))
        for name, number in (("enqueued", len(acked)), ("completed", done)):
            if totals.get(name, 0) != number:
                yield Finding("totals", f"{name}: {totals.get(name, 0)}, observed {number}", ())

    def done_twice(self) -> Iterator[Finding]:
        """After the server has taken a job's completion nobody starts it, and none is taken."""
        for id, runs in self._evidence.runs_of.items():
            if id in self._evidence.asked_again:
                continue
            taken = [r for run in runs for r in self._evidence.replies(run) if _completes(r)]
            if len(taken) > 1:
                yield Finding("twice", f"{id} was completed {len(taken)} times", (id,))
            for run in runs:
                if taken and run.start > taken[0].at and not self._evidence.starts_as_zombie(run):
                    yield Finding("twice", f"{id} started after it was done", (id,))
            if taken and id in self.final.dead:
                yield Finding("twice", f"{id} is done and dead", (id,))

    # ── runs do not overlap ────────────────────────────────────────────────────────────────────

    def overlaps(self) -> Iterator[Finding]:
        """Two runs of a job, or in a sequence, only where the lease of one was lost; and then
        the ending of that one was refused."""
        evidence = self._evidence
        for runs in [*evidence.runs_of.values(), *evidence.sequences.values()]:
            for first, second in _overlapping(runs, evidence):
                if evidence.starts_as_zombie(second):
                    first, second = second, first
                elif not evidence.is_zombie(first, second.start):
                    yield self._overlap(first, second, "while the first one's lease was held")
                if evidence.was_accepted(first):
                    yield self._overlap(first, second, "and the zombie's ending was accepted")

    def _overlap(self, first: Run, second: Run, why: str) -> Finding:
        text = f"{second.job} started at {second.start:.3f} during {first.job} (pid {first.pid})"
        return Finding("overlap", f"{text} {why}", (first.job, second.job))

    def late(self) -> Iterator[Finding]:
        """No start if the lease had ended when the answer that allows it was read."""
        for run in self._record.runs:
            claim = self._evidence.claim(run)
            marked = self._record.marks.get((run.pid, run.job, run.delivery))
            allowed = marked or (claim.heard if claim else -inf)
            if allowed > self._evidence.held_until(run) + MARGIN:
                after = run.start - self._evidence.held_until(run)
                text = f"{run.job} started {after:.2f} s after its lease"
                yield Finding("late", text, (run.job,))

    # ── ceilings ────────────────────────────────────────────────────────────────────────────

    def permits(self, lane: str) -> list[tuple[float, int, str]]:
        """Times at which permits were certainly taken (+1) and could be free again (-1)."""
        steps = []
        for run in self._record.runs:
            if run.lane == lane and not self._evidence.starts_as_zombie(run):
                until = min(inf if run.end is None else run.end, self._evidence.kept_until(run))
                if until > run.start:
                    steps += [(run.start, 1, run.job), (until, -1, run.job)]
        return sorted(steps)

    def most_permits(self, lane: str) -> int:
        most = held = 0
        for _, step, _ in self.permits(lane):
            held += step
            most = max(most, held)
        return most

    def over_ceiling(self) -> Iterator[Finding]:
        for lane, ceiling in self._ceilings.items():
            holders: list[str] = []
            for at, step, job in self.permits(lane):
                if step < 0:
                    holders.remove(job)
                    continue
                holders.append(job)
                if len(holders) > ceiling:
                    text = f"lane {lane} of ceiling {ceiling} ran {holders} at {at:.3f}"
                    yield Finding("ceiling", text, tuple(holders))
                    break

    # ── workers that die ────────────────────────────────────────────────────────────────────

    def suspects(self) -> Iterator[Finding]:
        """A process runs at most one job with a death behind it, and only after marking it.

        What is left of a lease it gave up (a thread) does not count: nobody dies of it twice.
        """
        evidence = self._evidence
        suspects = [run for run in self._record.runs if run.suspect]
        for run in suspects:
            if (run.pid, run.job, run.delivery) not in self._record.marks:
                yield Finding("suspect", f"{run.job} ran without its start mark", (run.job,))
        for runs in grouped((evidence.consumer(run), run) for run in suspects).values():
            for first, second in combinations(runs, 2):
                if second.start < min(evidence.over(first), evidence.kept_until(first)):
                    text = f"{first.job} and {second.job} ran side by side in {first.pid}"
                    yield Finding("suspect", text, (first.job, second.job))

    def deaths(self) -> Iterator[Finding]:
        """Killers die of it, at the third time; nobody is buried without having been there.

        The first of three deaths may be one in whose process the job had been claimed only;
        the others each need a start.
        """
        for id, corpse in [*self.final.discarded.items(), *self.final.dead.items()]:
            order = self._record.orders.get(id)
            if corpse.worker_lost and corpse.deaths != 3:
                yield Finding("deaths", f"{id} was buried after {corpse.deaths} deaths", (id,))
            if corpse.worker_lost and (losses := self._evidence.losses(id)) < 2:
                text = f"{id} was buried as worker lost, of its starts {losses} were lost"
                yield Finding("deaths", text, (id,))
            if order and order.plan == "kill" and not corpse.worker_lost:
                yield Finding("deaths", f"{id} kills, and died of something else", (id,))
        for order in self._record.orders.values():
            gone = order.job not in self.final.dead and not self._evidence.was_discarded(order.job)
            if order.plan == "kill" and order.acked and gone:
                yield Finding("deaths", f"{order.job} kills, and is not dead", (order.job,))

    @property
    def unlucky(self) -> list[str]:
        """Jobs that kill nobody, and were at three deaths all the same: the test's own kills."""
        plans = {id: order.plan for id, order in self._record.orders.items()}
        return [
            id
            for id, corpse in self.final.dead.items()
            if corpse.worker_lost and plans.get(id) not in ("kill", "kill-once")
        ]

    def attempts(self) -> Iterator[Finding]:
        """No run beyond the last attempt; the hopeless die at it, and of their own error."""
        for run in self._record.runs:
            most = self._record.orders[run.job].max_attempts
            if run.attempt > most and not self._evidence.starts_as_zombie(run):
                text = f"{run.job} ran at attempt {run.attempt} of {most}"
                yield Finding("attempts", text, (run.job,))
        for id, order in self._record.orders.items():
            corpse = self.final.dead.get(id)
            if order.plan == "hopeless" and order.acked and id not in self._evidence.asked_again:
                if corpse is None:
                    yield Finding("attempts", f"{id} always fails, and is not dead", (id,))
                elif not corpse.worker_lost and corpse.attempts != order.max_attempts:
                    yield Finding("attempts", f"{id} died after {corpse.attempts} attempts", (id,))


def _overlapping(runs: list[Run], evidence: Evidence) -> Iterator[tuple[Run, Run]]:
    for i, first in enumerate(runs):
        for second in runs[i + 1 :]:
            if second.start >= evidence.over(first):
                break
            yield first, second


def _completes(reply: Reply) -> bool:
    return reply.action == "complete" and reply.answer == "ok"
