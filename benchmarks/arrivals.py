"""Who sends when: real events where they are here, else jobs from a seeded generator.

The events are those of `../shared/data/events.jsonl`, beside the project (`at` and `tenant` of
each). Both are heavy-tailed: one tenant sends a quarter of the jobs or more, most send one or two.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple

EVENTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "events.jsonl"
TENANTS = 1_500
JOBS = 13_000
ZIPF = 1.3
"""The tenant of rank r sends in proportion to r ** -ZIPF."""
SESSION_JOBS = 5
SESSION_GAP_S = 0.02
SEED = 20


class Arrival(NamedTuple):
    """A job: when it arrives, in seconds of virtual time, and whose it is."""

    at: float
    tenant: str


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Jobs in order of arrival, and where they come from, for people."""

    jobs: Sequence[Arrival]
    source: str

    @property
    def counts(self) -> Counter[str]:
        return Counter(job.tenant for job in self.jobs)


def find(span: float, *, seeded: bool = False) -> Arrivals:
    """Jobs that arrive within `span` seconds: the events' if they are here and not `seeded`."""
    if not seeded and EVENTS.exists():
        return recorded(EVENTS, span)
    if not seeded:
        print(f"skipped: the real events ({EVENTS} is not here); a generator takes their place")
    return generated(span)


def recorded(path: Path, span: float) -> Arrivals:
    """The events of a file, their times scaled to `span` seconds."""
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    first = min(event["at"] for event in events)
    scale = span / ((max(event["at"] for event in events) - first) or 1)
    jobs = [Arrival((event["at"] - first) * scale, event["tenant"]) for event in events]
    return Arrivals(_in_order(jobs), f"{len(jobs):,} recorded events")


def generated(
    span: float, *, jobs: int = JOBS, tenants: int = TENANTS, seed: int = SEED
) -> Arrivals:
    """A job of each tenant, then sessions of some jobs, of tenants drawn by Zipf's law."""
    random = Random(seed)
    names = [f"t{rank:04}" for rank in range(1, tenants + 1)]
    shares = list(accumulate(rank**-ZIPF for rank in range(1, tenants + 1)))
    made = [Arrival(random.random() * span, name) for name in names]
    while len(made) < jobs:
        (tenant,) = random.choices(names, cum_weights=shares)
        at = random.random() * span
        for _ in range(1 + int(random.expovariate(1 / (SESSION_JOBS - 1)))):
            made.append(Arrival(at, tenant))
            at = min(at + random.expovariate(1 / SESSION_GAP_S), span)
    return Arrivals(_in_order(made[:jobs]), f"{jobs:,} jobs from the generator")


def _in_order(jobs: list[Arrival]) -> list[Arrival]:
    return sorted(jobs, key=lambda job: job.at)
