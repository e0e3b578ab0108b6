"""Who is told what happens to a worker's jobs: the usual `Observer` takes no notice; `JobCounts`
are plain numbers of one process and queue, which `rota.metrics` reads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from rota.values.model import Action, Answer, Exchanged, Job

CALL_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
RUN_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
WAIT_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400)
ATTEMPT_BOUNDS = (1, 2, 3, 5, 10, 20)
"""Upper bounds of histograms; the first three in seconds."""

OUTCOMES: dict[Action, str] = {
    "complete": "completed",
    "retry": "retried",
    "release": "released",
    "bury": "buried",
    "block_lane": "blocked",
    "block_sequence": "blocked",
    "cancel": "cancelled",
}

REFUSED = ("", "refused")
"""Task and outcome of jobs that could not be run."""

AVAILABLE = slice(18, 31)
"""Where a record says when its job was first available, in Unix milliseconds."""


class Histogram:
    """How many values fell below each bound (the last count: above all), and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Observer:
    """Is told by a worker, in its event loop, what happens to one queue's jobs. This one takes no
    notice. Nothing it is told may be changed; what it raises is said once to stderr."""

    __slots__ = ()

    def called(self, script: str, seconds: float) -> None:
        """A claim or a settlement was answered after so long."""

    def claimed(self, reply: Exchanged) -> None:
        """Jobs were handed out."""

    def ran(self, job: Job, seconds: float) -> None:
        """A handler has come to its end, whatever that was."""

    def settled(self, job: Job, action: Action, answer: Answer) -> None:
        """The server has taken the job's ending; `lost`: another has the job by now."""

    def refused(self) -> None:
        """The server has taken the burial of a job that could not be run."""

    def lease_lost(self) -> None:
        """The worker's lease has ended: its jobs are others'."""

    def failed(self) -> None:
        """A claim or a settlement could not be carried out."""


SILENT = Observer()


class JobCounts(Observer):
    """Counts, since it was made."""

    __slots__ = ("attempts", "calls", "errors", "jobs", "leases_lost", "runs", "waits")

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, str], int] = defaultdict(int)
        """By task and outcome."""
        self.runs: dict[str, Histogram] = defaultdict(partial(Histogram, RUN_BOUNDS))
        """By task: how long its handler ran, in seconds."""
        self.attempts: dict[str, Histogram] = defaultdict(partial(Histogram, ATTEMPT_BOUNDS))
        """By task: at which attempt its jobs were completed or buried."""
        self.waits = Histogram(WAIT_BOUNDS)
        """How long jobs had been available when they were handed out for the first time."""
        self.calls = {name: Histogram(CALL_BOUNDS) for name in ("exchange", "settle")}
        self.leases_lost = 0
        self.errors = 0

    def called(self, script: str, seconds: float) -> None:
        self.calls[script].observe(seconds)

    def claimed(self, reply: Exchanged) -> None:
        observe, now = self.waits.observe, reply.now
        for entry in reply.entries:
            for one in entry:
                since = one.record[AVAILABLE] if one.record and not one.attempts else b""
                if since.isdigit() and int(since):
                    observe(max(0, now - int(since)) / 1000)

    def ran(self, job: Job, seconds: float) -> None:
        self.runs[job.task].observe(seconds)

    def settled(self, job: Job, action: Action, answer: Answer) -> None:
        outcome = "lost" if answer == "lost" else OUTCOMES[action]
        self.jobs[job.task, outcome] += 1
        if outcome in ("completed", "buried"):
            self.attempts[job.task].observe(job.attempt)

    def refused(self) -> None:
        # Without a task: anyone who enqueues could make a series of it.
        self.jobs[REFUSED] += 1

    def lease_lost(self) -> None:
        self.leases_lost += 1

    def failed(self) -> None:
        self.errors += 1
