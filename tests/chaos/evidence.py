"""What a record proves, and what it leaves open.

**How long a lease was held** is proven by the worker's own notes: an acknowledged renewal holds
for `lease` seconds from the moment it was *sent*, whatever the server did later. Up to then
nobody else may run what it holds. After it a run is a *zombie*: it may overlap with a second run
of its job or sequence, and its settlement must be refused.

A thread cannot be stopped: `grace` seconds after its worker was told to stop the job is given
back, and the thread is a zombie until the process ends. Likewise once its worker, whose lease was
lost by its own clock, ends that lease: a renewal that lay in a frozen server may still be
acknowledged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from math import inf
from typing import TypeVar

from tests.chaos.observer import Claim, Record, Reply, Run

TOLERANCE = 0.02
"""Seconds: the server counts in whole milliseconds, and its clock may be adjusted."""


ACCEPTED = ("ok", "slowed")
"""Answers that say: so the job has ended."""


class Evidence:
    """A record, and how to read it."""

    def __init__(self, record: Record, *, lease: float, grace: float) -> None:
        self.record = record
        self._lease = lease
        self._grace = grace

    def claim(self, run: Run) -> Claim | None:
        return self.record.claims.get((run.pid, run.delivery))

    def consumer(self, run: Run) -> str | None:
        claim = self.claim(run)
        return claim.consumer if claim else None

    def held_until(self, run: Run) -> float:
        """Up to when its worker's lease was held for certain."""
        claim = self.claim(run)
        sent = self.record.renewals.get(claim.consumer) if claim else None
        return max(sent) + self._lease - TOLERANCE if sent else -inf

    def kept_until(self, run: Run) -> float:
        """Up to when nobody else could have the job, unless it was settled."""
        if not run.in_thread:
            return self.held_until(run)
        told = self.record.stops.get(run.pid, inf)
        left = self._left.get(self.consumer(run) or "", inf)
        return min(self.held_until(run), told + self._grace - TOLERANCE, left)

    @cached_property
    def _left(self) -> dict[str, float]:
        """When a consumer was about to end its lease."""
        events = [event for event in self.record.events if event.what == "leaving"]
        return {event.facts["consumer"]: event.at for event in reversed(events)}

    def is_zombie(self, run: Run, at: float) -> bool:
        """Whether, at that time, another might have the job although this handler goes on."""
        return at >= self.kept_until(run)

    def starts_as_zombie(self, run: Run) -> bool:
        return self.is_zombie(run, run.start)

    def ends_as_zombie(self, run: Run) -> bool:
        """Also where it did not end: its process died."""
        return run.end is None or self.is_zombie(run, run.end)

    def over(self, run: Run) -> float:
        """The handler's end; where its process died first, the end of its lease."""
        return self.kept_until(run) if run.end is None else run.end

    def replies(self, run: Run) -> list[Reply]:
        return self.record.replies.get((run.pid, run.job, run.delivery), [])

    def was_refused(self, run: Run) -> bool:
        return any(reply.answer == "lost" for reply in self.replies(run))

    def was_accepted(self, run: Run) -> bool:
        """A stopping worker gives back what runs on in its threads: that is no ending of theirs."""
        stopped = run.in_thread and run.pid in self.record.stops
        actions = {reply.action for reply in self.replies(run) if reply.answer in ACCEPTED}
        return bool(actions - {"release"} if stopped else actions)

    @cached_property
    def runs_of(self) -> dict[str, list[Run]]:
        """By job, in the order of their starts."""
        return grouped((run.job, run) for run in self.record.runs)

    @cached_property
    def sequences(self) -> dict[str, list[Run]]:
        return grouped((run.sequence, run) for run in self.record.runs if run.sequence)

    @cached_property
    def asked_again(self) -> set[str]:
        """Jobs sent anew after a failure: they may rightly exist, and be done, twice."""
        events = [e for e in self.record.events if e.what == "asked again"]
        return {id for event in events for id in event.facts["jobs"]}

    def was_discarded(self, id: str) -> bool:
        return any(verb == "discard" for _, verb in self.record.operated.get(id, ()))

    def losses(self, id: str) -> int:
        """Starts of a job that its worker did not settle."""
        started = {(run.pid, run.delivery) for run in self.runs_of.get(id, ())}
        started |= {(pid, delivery) for pid, job, delivery in self.record.marks if job == id}
        settled = {
            (pid, delivery)
            for (pid, job, delivery), replies in self.record.replies.items()
            if job == id and any(reply.answer in ACCEPTED for reply in replies)
        }
        return len(started - settled)


K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)
