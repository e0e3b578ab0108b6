"""Judges sequences: one after the other, in order, and every job in its place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, pairwise

from tests.chaos.evidence import ACCEPTED, Evidence, grouped
from tests.chaos.finding import Finding
from tests.chaos.observer import Order, Run


class Ordering:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._record = evidence.record

    def findings(self) -> Iterator[Finding]:
        yield from self.accepted_before_next()
        yield from self.order()
        yield from self.places()

    def accepted_before_next(self) -> Iterator[Finding]:
        """In a sequence a worker starts a job only after the ending before it was accepted."""
        for runs in self._evidence.sequences.values():
            for before, run in pairwise(runs):
                consumer = self._evidence.consumer(run)
                if consumer is None or consumer != self._evidence.consumer(before):
                    continue
                heard = [r for r in self._evidence.replies(before) if r.at <= run.start]
                if any(reply.answer in (*ACCEPTED, "settled") for reply in heard):
                    continue
                if not self._evidence.starts_as_zombie(run):
                    text = f"{run.job} started before the ending of {before.job} was accepted"
                    yield Finding("sequence", text, (before.job, run.job))

    def order(self) -> Iterator[Finding]:
        """No job of a sequence starts while one waits that stands before it.

        Of two jobs, the one with the lower place ends for good before the other starts, if it
        was available when the other was claimed. Zombies are left out.
        """
        for sequence, runs in self._evidence.sequences.items():
            valid = [run for run in runs if not self._evidence.starts_as_zombie(run)]
            jobs = sorted(grouped((run.job, run) for run in valid).values(), key=_place)
            places = [_place(of) for of in jobs]
            ends = [self._ends_for_good(of) for of in jobs]
            latest = list(accumulate(ends, max))
            for run in valid:
                before = bisect_left(places, run.place)
                if before == 0 or latest[before - 1] <= run.start:
                    continue
                claim = self._evidence.claim(run)
                for of, end in zip(jobs[:before], ends[:before], strict=True):
                    if claim and end > run.start and self._available(of) < claim.sent:
                        text = f"in {sequence} {run.job} started before {of[0].job} had ended"
                        places_told = f"places {run.place}, {of[0].place}"
                        yield Finding("order", f"{text} ({places_told})", (of[0].job, run.job))

    def _available(self, runs: list[Run]) -> float:
        """Since when, at the latest."""
        order, first = self._record.orders[runs[0].job], runs[0].start
        return first if order.acked is None or order.delayed else min(first, order.acked)

    def _ends_for_good(self, runs: list[Run]) -> float:
        """At the earliest; for a job that held its sequence the operator's discarding counts."""
        acts = self._record.operated.get(runs[0].job, ())
        discards = [at for at, verb in acts if verb == "discard"]
        zombie = self._evidence.ends_as_zombie
        ends = [run.end if run.end and not zombie(run) else run.start for run in runs]
        return max(ends + discards)

    def places(self) -> Iterator[Finding]:
        """A job returns to its place, and places follow the order of enqueueing."""
        for id, runs in self._evidence.runs_of.items():
            if len({run.place for run in runs}) > 1 and id not in self._evidence.asked_again:
                yield Finding("place", f"{id} had places {[run.place for run in runs]}", (id,))
        groups = grouped(
            ((order.sequence, order.priority), order)
            for order in self._record.orders.values()
            if order.sequence and not order.delayed and order.job in self._evidence.runs_of
        )
        for orders in groups.values():
            for one, other in pairwise(orders):
                if self._place(one) >= self._place(other):
                    text = f"{other.job} was enqueued after {one.job} and stands before it"
                    yield Finding("place", text, (one.job, other.job))

    def _place(self, order: Order) -> int:
        return self._evidence.runs_of[order.job][0].place


def _place(runs: list[Run]) -> int:
    return runs[0].place
