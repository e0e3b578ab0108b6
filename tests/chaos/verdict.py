"""Judges a record: what was promised, and whether it was kept.

**How long a lease was held** is proven by the worker's own notes: an acknowledged renewal holds
for `lease` seconds from the moment it was *sent*, whatever the server did later. Up to then
nobody else may run what it holds. After it a run is a *zombie*: it may overlap with a second run
of its job or sequence, and its settlement must be refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise
from math import inf
from typing import TypeVar

from tests.chaos.observer import Order, Record, Reply, Run

TOLERANCE = 0.02
"""Seconds: the server counts in whole milliseconds, and its clock may be adjusted."""
MARGIN = 0.1
"""Seconds in which a worker may not yet have noticed what its clock says."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken promise; the jobs whose events explain it."""

    rule: str
    text: str
    jobs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Corpse:
    """A dead job as the server keeps it."""

    worker_lost: bool
    deaths: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Final:
    """What the server has at the end: dead jobs, jobs that are neither done nor dead, totals."""

    dead: Mapping[str, Corpse] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    totals: Mapping[str, int] = field(default_factory=dict)


class Verdict:
    """Compares a record with the promises; `findings` is empty when all were kept."""

    def __init__(
        self, record: Record, final: Final, *, lease: float, ceilings: Mapping[str, int]
    ) -> None:
        self.record = record
        self.final = final
        self._lease = lease
        self._ceilings = ceilings

    @cached_property
    def findings(self) -> list[Finding]:
        rules = (
            self.lost,
            self.counted,
            self.done_twice,
            self.overlaps,
            self.late,
            self.accepted_before_next,
            self.order,
            self.places,
            self.over_ceiling,
            self.suspects,
            self.deaths,
            self.attempts,
        )
        return [finding for rule in rules for finding in rule()]

    # ── what the record proves ──────────────────────────────────────────────────────────────

    def held_until(self, run: Run) -> float:
        """Up to when its worker's lease was held for certain."""
        claim = self.record.claims.get((run.pid, run.delivery))
        sent = self.record.renewals.get(claim.consumer) if claim else None
        return max(sent) + self._lease - TOLERANCE if sent else -inf

    def is_zombie(self, run: Run, at: float) -> bool:
        """Whether, at that time, another might have the job although this handler goes on."""
        if at >= self.held_until(run):
            return True
        told = self.record.stops.get(run.pid, inf)
        return run.in_thread and told <= at  # a thread outlives its worker's grace

    def replies(self, run: Run) -> list[Reply]:
        return self.record.replies.get((run.pid, run.job, run.delivery), [])

    def was_refused(self, run: Run) -> bool:
        return any(reply.answer == "lost" for reply in self.replies(run))

    def was_accepted(self, run: Run) -> bool:
        """A stopping worker gives back what runs on in its threads: that is no ending of theirs."""
        stopped = run.in_thread and run.pid in self.record.stops
        actions = {reply.action for reply in self.replies(run) if reply.answer == "ok"}
        return bool(actions - {"release"} if stopped else actions)

    @cached_property
    def runs_of(self) -> dict[str, list[Run]]:
        return _grouped((run.job, run) for run in self.record.runs)

    @cached_property
    def sequences(self) -> dict[str, list[Run]]:
        return _grouped((run.sequence, run) for run in self.record.runs if run.sequence)

    @cached_property
    def asked_again(self) -> set[str]:
        """Jobs sent anew after a failure: they may rightly exist, and be done, twice."""
        events = [e for e in self.record.events if e.what == "asked again"]
        return {id for event in events for id in event.facts["jobs"]}

    # ── nothing is lost, nothing is done twice ──────────────────────────────────────────────

    def lost(self) -> Iterator[Finding]:
        for order in self.record.orders.values():
            if order.acked is None or order.job in self.final.dead or order.job in self.final.left:
                continue
            if self._was_discarded(order.job):
                continue
            runs = self.runs_of.get(order.job, [])
            if not any(run.outcome == "ok" and not self.was_refused(run) for run in runs):
                text = f"{order.job} is nowhere, and no run of it ended well"
                yield Finding("lost", text, (order.job,))
        for id in self.final.left:
            yield Finding("lost", f"{id} is neither done nor dead after the drain", (id,))

    def counted(self) -> Iterator[Finding]:
        """The server's totals agree with the record."""
        totals = self.final.totals
        if not totals or self.asked_again:
            return
        acked = [order.job for order in self.record.orders.values() if order.acked is not None]
        done = len(acked) - len(self.final.dead) - sum(map(self._was_discarded, acked))
        for name, number in (("enqueued", len(acked)), ("completed", done)):
            if totals.get(name, 0) != number:
                yield Finding("totals", f"{name}: {totals.get(name, 0)}, observed {number}", ())

    def _was_discarded(self, id: str) -> bool:
        return any(verb == "discard" for _, verb in self.record.operated.get(id, ()))

    def done_twice(self) -> Iterator[Finding]:
        """After the server has taken a job's completion nobody starts it, and none is taken."""
        for id, runs in self.runs_of.items():
            if id in self.asked_again:
                continue
            taken = [r for run in runs for r in self.replies(run) if _completes(r)]
            if len(taken) > 1:
                yield Finding("twice", f"{id} was completed {len(taken)} times", (id,))
            for run in runs:
                if taken and run.start > taken[0].at and not self.is_zombie(run, run.start):
                    yield Finding("twice", f"{id} started after it was done", (id,))
            if taken and id in self.final.dead:
                yield Finding("twice", f"{id} is done and dead", (id,))

    # ── runs do not overlap, and keep their order ───────────────────────────────────────────

    def overlaps(self) -> Iterator[Finding]:
        groups = [*self.runs_of.values(), *self.sequences.values()]
        for runs in groups:
            for first, second in combinations(runs, 2):
                if second.start >= self._over(first):
                    continue
                if self.is_zombie(second, second.start):
                    first, second = second, first
                elif not self.is_zombie(first, second.start):
                    yield self._overlap(first, second, "while the first one's lease was held")
                if self.was_accepted(first):
                    yield self._overlap(first, second, "and the zombie's ending was accepted")

    def _over(self, run: Run) -> float:
        """The handler's end; where its process died first, the end of its lease."""
        return self.held_until(run) if run.end is None else run.end

    def _overlap(self, first: Run, second: Run, why: str) -> Finding:
        text = f"{second.job} started at {second.start:.3f} during {first.job} (pid {first.pid})"
        return Finding("overlap", f"{text} {why}", (first.job, second.job))

    def late(self) -> Iterator[Finding]:
        """No start if the lease had ended when the answer that allows it was read."""
        for run in self.record.runs:
            claim = self.record.claims.get((run.pid, run.delivery))
            marked = self.record.marks.get((run.pid, run.job, run.delivery))
            allowed = marked or (claim.heard if claim else -inf)
            if allowed > self.held_until(run) + MARGIN:
                text = f"{run.job} started {run.start - self.held_until(run):.2f} s after its lease"
                yield Finding("late", text, (run.job,))

    def accepted_before_next(self) -> Iterator[Finding]:
        """In a sequence a worker starts a job only after the ending before it was accepted."""
        for runs in self.sequences.values():
            for before, run in pairwise(runs):
                if self._consumer(before) is None or self._consumer(before) != self._consumer(run):
                    continue
                heard = [r for r in self.replies(before) if r.at <= run.start]
                if any(reply.answer in ("ok", "settled") for reply in heard):
                    continue
                if not self.is_zombie(run, run.start):
                    text = f"{run.job} started before the ending of {before.job} was accepted"
                    yield Finding("sequence", text, (before.job, run.job))

    def _consumer(self, run: Run) -> str | None:
        claim = self.record.claims.get((run.pid, run.delivery))
        return claim.consumer if claim else None

    def order(self) -> Iterator[Finding]:
        """No job of a sequence starts while one waits that stands before it.

        Of two jobs, the one with the lower place ends for good before the other starts, if it
        was available when the other was claimed. Zombies are left out.
        """
        for sequence, runs in self.sequences.items():
            valid = [run for run in runs if not self.is_zombie(run, run.start)]
            jobs = _grouped((run.job, run) for run in valid)
            available = {id: self._available(id, of) for id, of in jobs.items()}
            ends = {id: self._ends_for_good(id, of) for id, of in jobs.items()}
            places = {id: of[0].place for id, of in jobs.items()}
            for run in valid:
                claim = self.record.claims.get((run.pid, run.delivery))
                for id in jobs:
                    if places[id] >= run.place or claim is None or available[id] >= claim.sent:
                        continue
                    if ends[id] > run.start:
                        text = f"in {sequence} {run.job} started before {id} had ended for good"
                        yield Finding("order", f"{text} ({run.place}, {places[id]})", (id, run.job))

    def _available(self, id: str, runs: list[Run]) -> float:
        order = self.record.orders[id]
        first = runs[0].start
        return first if order.acked is None or order.delayed else min(first, order.acked)

    def _ends_for_good(self, id: str, runs: list[Run]) -> float:
        """A lower bound; for a job that held its sequence the operator's discarding counts."""
        discards = [at for at, verb in self.record.operated.get(id, ()) if verb == "discard"]
        ends = [run.start if self._ends_as_zombie(run) else run.end or 0.0 for run in runs]
        return max(ends + discards)

    def _ends_as_zombie(self, run: Run) -> bool:
        return run.end is None or self.is_zombie(run, run.end)

    def places(self) -> Iterator[Finding]:
        """A job returns to its place, and places follow the order of enqueueing."""
        for id, runs in self.runs_of.items():
            if len({run.place for run in runs}) > 1 and id not in self.asked_again:
                yield Finding("place", f"{id} had places {[run.place for run in runs]}", (id,))
        groups: dict[tuple[str, int], list[Order]] = defaultdict(list)
        for order in self.record.orders.values():
            if order.sequence and not order.delayed and order.job in self.runs_of:
                groups[order.sequence, order.priority].append(order)
        for orders in groups.values():
            for one, other in pairwise(orders):
                if self._place(one) >= self._place(other):
                    text = f"{other.job} was enqueued after {one.job} and stands before it"
                    yield Finding("place", text, (one.job, other.job))

    def _place(self, order: Order) -> int:
        return self.runs_of[order.job][0].place

    # ── ceilings ────────────────────────────────────────────────────────────────────────────

    def permits(self, lane: str) -> list[tuple[float, int, str]]:
        """Times at which permits were certainly taken (+1) and could be free again (-1)."""
        steps = []
        for run in self.record.runs:
            if run.lane == lane and not self.is_zombie(run, run.start):
                until = min(inf if run.end is None else run.end, self.held_until(run))
                if run.in_thread:
                    until = min(until, self.record.stops.get(run.pid, inf))
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
        """A process runs at most one job with a death behind it, and only after marking it."""
        by_process = _grouped((run.pid, run) for run in self.record.runs if run.suspect)
        for pid, runs in by_process.items():
            for run in runs:
                if (pid, run.job, run.delivery) not in self.record.marks:
                    yield Finding("suspect", f"{run.job} ran without its start mark", (run.job,))
            for first, second in combinations(runs, 2):
                if second.start < min(self._over(first), self.held_until(first)):
                    text = f"{first.job} and {second.job} ran side by side in {pid}"
                    yield Finding("suspect", text, (first.job, second.job))

    def deaths(self) -> Iterator[Finding]:
        """Killers die of it, at the third time; nobody is buried without having been there.

        The first of three deaths may be one in whose process the job had been claimed only;
        the others each need a start.
        """
        for id, corpse in self.final.dead.items():
            order = self.record.orders.get(id)
            if corpse.worker_lost and corpse.deaths != 3:
                yield Finding("deaths", f"{id} was buried after {corpse.deaths} deaths", (id,))
            if corpse.worker_lost and self._losses(id) < 2:
                text = f"{id} was buried as worker lost, of its starts {self._losses(id)} were lost"
                yield Finding("deaths", text, (id,))
            if order and order.plan == "kill" and not corpse.worker_lost:
                yield Finding("deaths", f"{id} kills, and died of something else", (id,))
        for order in self.record.orders.values():
            gone = order.job not in self.final.dead and not self._was_discarded(order.job)
            if order.plan == "kill" and order.acked and gone:
                yield Finding("deaths", f"{order.job} kills, and is not dead", (order.job,))

    def _losses(self, id: str) -> int:
        """Starts of a job that its worker did not settle."""
        started = {(run.pid, run.delivery) for run in self.runs_of.get(id, ())}
        started |= {(pid, delivery) for pid, job, delivery in self.record.marks if job == id}
        settled = {
            (pid, delivery)
            for (pid, job, delivery), replies in self.record.replies.items()
            if job == id and any(reply.answer == "ok" for reply in replies)
        }
        return len(started - settled)

    @property
    def unlucky(self) -> list[str]:
        """Jobs that kill nobody, and were at three deaths all the same: the test's own kills."""
        plans = {id: order.plan for id, order in self.record.orders.items()}
        return [
            id
            for id, corpse in self.final.dead.items()
            if corpse.worker_lost and plans.get(id) not in ("kill", "kill-once")
        ]

    def attempts(self) -> Iterator[Finding]:
        """No run beyond the last attempt; the hopeless die at it, and of their own error."""
        for run in self.record.runs:
            most = self.record.orders[run.job].max_attempts
            if run.attempt > most and not self.is_zombie(run, run.start):
                text = f"{run.job} ran at attempt {run.attempt} of {most}"
                yield Finding("attempts", text, (run.job,))
        for id, order in self.record.orders.items():
            corpse = self.final.dead.get(id)
            if order.plan == "hopeless" and order.acked and id not in self.asked_again:
                if corpse is None:
                    yield Finding("attempts", f"{id} always fails, and is not dead", (id,))
                elif not corpse.worker_lost and corpse.attempts != order.max_attempts:
                    yield Finding("attempts", f"{id} died after {corpse.attempts} attempts", (id,))


def _completes(reply: Reply) -> bool:
    return reply.action == "complete" and reply.answer == "ok"


K = TypeVar("K")
V = TypeVar("V")


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)
