"""The demo's load: who sends what and when, and how one line would have served it. No I/O."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

SLOTS = 24
CEILING = 8
"""Most jobs of the flooding tenant that run at once."""
FLOODER_SHARE = 0.43
"""The busiest tenant's part of all jobs, as it was measured on real traffic."""
TAIL = 1.2
"""How fast the other tenants get smaller: the i-th has `i ** -TAIL` of the second's jobs."""
MEAN_RUN_S = 0.04
ARRIVING = 0.7
"""The part of the demo's time in which the small tenants' jobs arrive."""
FLOODED = 0.83
"""The part of the demo's time that the flood takes within its ceiling."""
STEPS = 10
"""Jobs of one ordered sequence."""

# fmt: off
TENANTS = [
    "acme", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven", "iris", "juno",
    "koala", "lotus", "maple", "nova", "olive", "pearl", "quill", "raven", "sage", "tulip",
    "umbra", "vista", "wren", "xenon", "yarrow", "zephyr", "amber", "brook", "coral", "dune",
    "elm", "fern", "gale", "hazel", "ivory", "jade", "kelp", "lark", "moss", "north",
]
# fmt: on
FLOODER, *SMALL = TENANTS
SEQUENCED = SMALL[:6]
"""Tenants with one ordered sequence each."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job to come. `at`: seconds from the start. `key` and `step`: its place in a sequence."""

    id: str
    at: float
    tenant: str
    run: float
    delay: float = 0.0
    key: str | None = None
    step: int = 0


class Served(NamedTuple):
    """A job for the replay: when it could have started, and how long it ran. Seconds."""

    id: str
    ready: float
    run: float


def make_load(seed: int, length: float) -> list[Arrival]:
    """Jobs for a demo of about `length` seconds, in order of arrival; the same for a seed.

    The flood comes at once, the others' jobs over the seconds that follow; one in eighty of
    those is delayed a little, and some belong to ordered sequences.
    """
    rng = Random(seed)
    load: list[Arrival] = []

    def add(at: float, tenant: str, *more: Any) -> None:
        load.append(Arrival(f"job-{len(load):05d}", at, tenant, _run_time(rng), *more))

    flood = round(CEILING * FLOODED * length / MEAN_RUN_S)
    for _ in range(flood):
        add(0.0, FLOODER)
    small = round(flood * (1 - FLOODER_SHARE) / FLOODER_SHARE) - len(SEQUENCED) * STEPS
    weights = [rank**-TAIL for rank in range(1, len(SMALL) + 1)]
    window = ARRIVING * length
    for tenant in [*SMALL, *rng.choices(SMALL, weights, k=small - len(SMALL))]:
        delay = rng.uniform(0.2, 0.15 * length) if rng.random() < 1 / 80 else 0.0
        add(rng.uniform(0.05, window), tenant, delay)
    for tenant in SEQUENCED:
        times = sorted(rng.uniform(0.05, window) for _ in range(STEPS))
        for step, at in enumerate(times):
            add(at, tenant, 0.0, f"{tenant}-ledger", step)
    return sorted(load, key=lambda one: one.at)


def _run_time(rng: Random) -> float:
    """Mostly short, now and then long: log-normal with the mean MEAN_RUN_S, within bounds."""
    sigma = 0.6
    return min(max(MEAN_RUN_S * rng.lognormvariate(-sigma * sigma / 2, sigma), 0.004), 0.3)


def replay_in_one_line(jobs: Iterable[Served], slots: int) -> dict[str, float]:
    """How long each job waits where all stand in one first-in-first-out line. Seconds by id.

    Handing a job to a slot takes no time here, which favours the one line.
    """
    free = [0.0] * slots
    waits: dict[str, float] = {}
    for job in sorted(jobs, key=lambda job: (job.ready, job.id)):
        start = max(job.ready, free[0])
        heapq.heapreplace(free, start + job.run)
        waits[job.id] = start - job.ready
    return waits
