"""What does one tenant's flood do to the others, in turns and in first-in-first-out?

*Flood*: one tenant sends 1,000,000 jobs at the start; while they are worked off, many small
tenants send theirs. *Contention*: a hundred tenants have more waiting than can be served, some
far more than others, sent in random order; what each got is looked at while all still wait.
FIFO (first in, first out) is the same queue with all tenants in one lane, on the same arrivals.

Time is virtual: the server decides who is served, a claim of a hundred at a time, and each job
then takes a thousandth of a second. A wait is from a job's arrival to its start, up to a tenth of
a second of it the claim that is being served. So the figures are the queue's decisions and the
same on every machine. Jain's index of served / weight is 1 when all got their share, 1/n when
one of n got all. Not shown: how long the queue itself takes (see throughput, lanes, wake).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from random import Random

import rota
from benchmarks import arrivals
from benchmarks.arrivals import Arrival, Arrivals
from benchmarks.report import Figure, Plan
from benchmarks.server import Server

FLOOD = "flood"
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
CONTENDERS = 100
WEIGHTS = (1, 2, 5)
"""Given to the contenders in rotation."""
MOST_WAIT = 0.1
MOST_APART = 1.0
LEASE_S = 600
"""Longer than any stall of the machine: no job may come back."""


@dataclass(frozen=True, slots=True)
class Service:
    """What serves the jobs: `rate` jobs a second of virtual time, claimed `batch` at a time."""

    rate: int = 1_000
    batch: int = 100


@dataclass(frozen=True, slots=True)
class Beside:
    """A flood and what came beside it: waits in seconds, ascending, and when the flood ended."""

    waits: Sequence[float]
    flood_end: float

    def wait(self, share: float) -> float:
        """The longest wait among the `share` of the small tenants' jobs that waited least."""
        return self.waits[ceil(share * len(self.waits)) - 1]


# ── playing arrivals through a queue ────────────────────────────────────────────────────────


def in_turns(tenant: str) -> str:
    return tenant


def in_one_line(tenant: str) -> str:
    return "all"


LaneOf = Callable[[str], str]


def play(
    queue: rota.Queue,
    jobs: Sequence[Arrival],
    lane_of: LaneOf,
    *,
    service: Service,
    limit: int | None = None,
) -> list[float]:
    """When each job starts, by the claims of one consumer; those beyond `limit` never."""
    starts = [inf] * len(jobs)
    now, sent, left = 0.0, 0, len(jobs) if limit is None else limit
    with queue.sync.consumer(lease=LEASE_S) as consumer:
        taken: list[rota.Job] = []
        while left:
            due = bisect_right(jobs, now, lo=sent, key=lambda job: job.at)
            _send(queue, jobs, range(sent, due), lane_of)
            sent = due
            taken = consumer.exchange(taken, min(service.batch, left))
            if not taken:
                now = jobs[sent].at
                continue
            for i, job in enumerate(taken):
                starts[int(job.id)] = now + i / service.rate
            now += len(taken) / service.rate
            left -= len(taken)
        consumer.complete(taken)
    return starts


def _send(queue: rota.Queue, jobs: Sequence[Arrival], which: range, lane_of: LaneOf) -> None:
    specs = (rota.JobSpec(task="noop", lane=lane_of(jobs[i].tenant), id=str(i)) for i in which)
    for done in queue.sync.enqueue_stream(specs):
        if done.outcome != "created":
            raise RuntimeError(f"job {done.id}: {done.outcome}")


# ── flood: what the small tenants wait ──────────────────────────────────────────────────────


def beside_flood(
    queue: rota.Queue, flood: int, small: Sequence[Arrival], lane_of: LaneOf, service: Service
) -> Beside:
    """`flood` jobs of one tenant at the start, and the small tenants' as they arrive."""
    jobs = [Arrival(0.0, FLOOD)] * flood + list(small)
    starts = play(queue, jobs, lane_of, service=service)
    waits = [start - job.at for start, job in zip(starts[flood:], small, strict=True)]
    return Beside(sorted(waits), max(starts[:flood]) + 1 / service.rate)


def _flood_figures(turns: Beside, line: Beside) -> list[Figure]:
    figures = []
    for name, share in QUANTILES.items():
        title = f"flood, small tenants' wait, {name}"
        figures += [
            Figure(f"{title}: rota", turns.wait(share), "s"),
            Figure(f"{title}: FIFO", line.wait(share), "s"),
        ]
    later = 100 * (turns.flood_end / line.flood_end - 1)
    return figures + [
        Figure(
            "flood, small tenants' wait, p95, rota : FIFO",
            turns.wait(0.95) / line.wait(0.95),
            "×",
            at_most=MOST_WAIT,
        ),
        Figure("flood, its last job done: rota", turns.flood_end, "s"),
        Figure("flood, its last job done: FIFO", line.flood_end, "s"),
        Figure("flood, later in rota by", later, "%"),
    ]


# ── contention: what each tenant gets ───────────────────────────────────────────────────────


def jain(shares: Iterable[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one of n has all; 1 of nothing."""
    given = list(shares)
    squares = len(given) * sum(share * share for share in given)
    return sum(given) ** 2 / squares if squares else 1.0


def contention(counts: Counter[str], least: int, times: int) -> list[Arrival]:
    """The busiest tenants, each with `times` its jobs, `least` at the least, in random order."""
    busiest = counts.most_common(CONTENDERS)
    jobs = [Arrival(0.0, name) for name, n in busiest for _ in range(max(n * times, least))]
    Random(arrivals.SEED).shuffle(jobs)
    return jobs


def served(
    queue: rota.Queue, jobs: Sequence[Arrival], lane_of: LaneOf, service: Service, limit: int
) -> Counter[str]:
    """How many of the first `limit` jobs each tenant got, all of them waiting throughout."""
    starts = play(queue, jobs, lane_of, service=service, limit=limit)
    sent = Counter(job.tenant for job in jobs)
    got = Counter(dict.fromkeys(sent, 0))
    got.update(job.tenant for job, start in zip(jobs, starts, strict=True) if start < inf)
    if drained := [tenant for tenant, n in got.items() if n == sent[tenant]]:
        raise RuntimeError(f"the window is too long: {drained} had nothing left")
    return got


def _share_figures(
    title: str, turns: Counter[str], line: Counter[str], weights: Mapping[str, float]
) -> list[Figure]:
    ours = [n / weights[tenant] for tenant, n in turns.items()]
    theirs = [n / weights[tenant] for tenant, n in line.items()]
    return [
        Figure(f"contention, {title}, Jain's index: rota", jain(ours), ""),
        Figure(f"contention, {title}, Jain's index: FIFO", jain(theirs), ""),
        Figure(
            f"contention, {title}, turns apart: rota",
            max(ours) - min(ours),
            "",
            at_most=MOST_APART,
        ),
    ]


# ── the part ────────────────────────────────────────────────────────────────────────────────


def run(server: Server, plan: Plan) -> list[Figure]:
    if plan.waits is not None:
        from benchmarks import chart  # before the work: it says so when its library is missing
    service = Service()
    flood = plan.size(1_000_000, 100_000)
    small = arrivals.find(flood / service.rate, seeded=plan.seeded)
    print(
        f"fairness: a flood of {flood:,} jobs beside {small.source} of {len(small.counts):,} "
        f"tenants; virtual time, {service.rate:,} jobs/s"
    )

    def beside(name: str, lane_of: LaneOf) -> Beside:
        queue = rota.Queue(name, url=server.url)
        found = beside_flood(queue, flood, small.jobs, lane_of, service)
        queue.sync.close()
        server.raw.flushall()
        return found

    turns, line = beside("flood-turns", in_turns), beside("flood-line", in_one_line)
    if plan.waits is not None:
        chart.write(plan.waits, turns.waits, line.waits, flood)
    return [
        Figure("lanes", len(small.counts) + 1, "", note=small.source),
        *_flood_figures(turns, line),
        *_contend(server, plan, small, service),
    ]


def _contend(server: Server, plan: Plan, small: Arrivals, service: Service) -> list[Figure]:
    jobs = contention(small.counts, plan.size(1_000, 200), plan.size(5, 1))
    tenants = list(dict.fromkeys(job.tenant for job in jobs))
    limit = len(tenants) * plan.size(400, 80) + len(tenants) // 2  # ends in the middle of a round
    equal = dict.fromkeys(tenants, 1.0)
    unequal = {tenant: float(WEIGHTS[i % len(WEIGHTS)]) for i, tenant in enumerate(tenants)}

    def play_one(name: str, lane_of: LaneOf, weights: Mapping[str, float]) -> Counter[str]:
        queue = rota.Queue(name, url=server.url)
        if lane_of is in_turns:
            queue.sync.set_lanes({tenant: {"weight": w} for tenant, w in weights.items()})
        got = served(queue, jobs, lane_of, service, limit)
        queue.sync.close()
        return got

    line = play_one("line", in_one_line, equal)
    titles = {"equal weights": equal, f"weights {WEIGHTS}": unequal}
    return [
        figure
        for i, (title, weights) in enumerate(titles.items())
        for figure in _share_figures(
            title, play_one(f"turns-{i}", in_turns, weights), line, weights
        )
    ]
