"""The load: lanes of every kind, jobs that do everything a job may do to a worker."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from random import Random
from typing import Any

import rota
from rota.errors import BatchInterrupted, Unavailable
from tests.chaos.observer import Notebook

SOUND = {"ok": 60, "slow": 4, "thread": 5, "flaky": 12, "timeout": 3, "release": 6, "limited": 3}
HOLDING = {"ok": 30, "flaky": 6, "bury": 2}
THREADED = ("thread",)
KILLERS = ("kill", "kill-once")
BACKLOG = 250
"""Enqueueing goes slowly while so many jobs are under way."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A lane and what comes into it; without keys its jobs have no order of their own."""

    name: str
    share: int
    plans: dict[str, int]
    ceiling: int | None = None
    weight: float = 1
    keys: tuple[str, ...] = ()
    unordered: bool = False
    """Some of its jobs have no key."""
    priorities: tuple[int, ...] = (0,)
    delays: bool = False
    on_dead: str = "skip"


SHAPES = (
    Shape("bulk", 8, SOUND, ceiling=3),
    Shape("vip", 5, SOUND, ceiling=2, weight=3, priorities=(0, 0, 5)),
    Shape("one", 3, SOUND, ceiling=1, delays=True),
    Shape("sequences", 8, SOUND, ceiling=3, keys=("a", "b", "c", "d", "é:1")),
    Shape("free", 6, SOUND | {"hopeless": 2}, keys=("x", "y"), unordered=True, delays=True),
    Shape("!strict", 4, {"ok": 40, "flaky": 8, "release": 4, "timeout": 1, "thread": 1}),
    Shape("!urgent", 4, SOUND | {"hopeless": 2}, priorities=(0, 0, 0, 9, -9), delays=True),
    Shape("held", 4, HOLDING, ceiling=2, keys=("h1", "h2", "h3"), on_dead="hold"),
    Shape("wild", 3, {"ok": 20, "slow": 2, "flaky": 3}, ceiling=4),
)
CEILINGS = {shape.name: shape.ceiling for shape in SHAPES if shape.ceiling is not None}

LETHAL = (
    ("wild", None, "kill"),
    ("wild", None, "kill-once"),
    ("sequences", "a", "kill"),
    ("held", "h1", "kill"),
    ("!strict", None, "kill-once"),
)
"""Jobs that kill their worker: lane, key, plan. Few, as each costs a lease or three."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A job to be: what the server is told, and what the observer notes."""

    spec: rota.JobSpec
    plan: str

    @property
    def facts(self) -> dict[str, Any]:
        spec = self.spec
        return {
            "job": spec.id,
            "lane": spec.lane,
            "sequence": sequence_of(spec.lane, spec.ordering_key),
            "plan": self.plan,
            "priority": spec.priority,
            "delayed": bool(spec.delay_ms),
            "max_attempts": spec.max_attempts,
        }


def sequence_of(lane: str, key: str | None) -> str | None:
    if lane.startswith("!"):
        return lane
    return None if key is None else f"{lane}/{key}"


class World:
    """Drafts jobs, at random from a seed, and enqueues them."""

    def __init__(self, queue: rota.Queue, notebook: Notebook, random: Random) -> None:
        self.enqueued = 0
        self.plans: dict[str, str] = {}
        """By job: all that were drafted."""
        self._queue = queue
        self._notebook = notebook
        self._random = random
        self._lethal = list(LETHAL)

    async def build(self) -> None:
        for shape in SHAPES:
            await self._queue.lane(shape.name).set(ceiling=shape.ceiling, weight=shape.weight)

    async def run(self, seconds: float) -> None:
        """Enqueues for so long; the killers come in the first half, one by one."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (passed := loop.time() - began) < seconds:
            batch = [self._draft() for _ in range(self._random.randint(1, 25))]
            if self._lethal and passed > (len(LETHAL) - len(self._lethal)) * seconds / 12:
                batch.append(self._make(*self._lethal.pop(0)))
            await self.enqueue(batch)
            await asyncio.sleep(self._random.uniform(0.02, 0.25))
            if await self._under_way() > BACKLOG:
                await asyncio.sleep(0.5)

    async def enqueue(self, batch: list[Draft]) -> None:
        """Until the server has acknowledged every job of the batch."""
        self._notebook.note("asked", jobs=[draft.facts for draft in batch])
        specs = [draft.spec for draft in batch]
        while True:
            try:
                await self._queue.enqueue_many(specs)
            except (Unavailable, BatchInterrupted) as error:
                # A job that was done meanwhile is then a new one; the observer must know.
                self._notebook.note("asked again", error=str(error), jobs=[s.id for s in specs])
                continue
            break
        self._notebook.note("acked", jobs=[spec.id for spec in specs])
        self.enqueued += len(specs)

    async def _under_way(self) -> int:
        try:
            info = await self._queue.info()
        except Unavailable:
            return 0
        return info.waiting + info.running + info.delayed

    def _draft(self) -> Draft:
        shape = self._random.choices(SHAPES, [s.share for s in SHAPES])[0]
        plan = self._random.choices(list(shape.plans), list(shape.plans.values()))[0]
        key = self._random.choice(shape.keys) if shape.keys else None
        if shape.unordered and self._random.random() < 0.5:
            key = None
        delay = self._random.randint(1, 1500) if shape.delays and self._random.random() < 0.2 else 0
        return self._make(shape.name, key, plan, self._random.choice(shape.priorities), delay)

    def _make(
        self, lane: str, key: str | None, plan: str, priority: int = 0, delay: int = 0
    ) -> Draft:
        shape = next(s for s in SHAPES if s.name == lane)
        spec = rota.JobSpec(
            task="block" if plan in THREADED else "work",
            payload=json.dumps({"plan": plan}).encode(),
            lane=lane,
            ordering_key=key,
            priority=priority,
            delay_ms=delay,
            id=f"{lane.lstrip('!')}-{key or ''}-{plan}-{len(self.plans)}",
            max_attempts=4,
            timeout=0.3 if plan == "timeout" else 30,
            on_dead="hold" if shape.on_dead == "hold" else "skip",
        )
        self.plans[spec.id] = plan
        return Draft(spec, plan)
