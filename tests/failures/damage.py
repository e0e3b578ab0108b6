"""A busy queue with something of everything, for tests that damage it."""

from __future__ import annotations

from dataclasses import dataclass

import rota
from tests.failures.tools import Hand, jobs
from tests.support.queues import spec


@dataclass(frozen=True, slots=True)
class Busy:
    """Who holds what in it."""

    queue: rota.Queue
    hand: Hand
    other: Hand


async def make_busy(queue: rota.Queue) -> Busy:
    """Lanes a (unordered) · b (sequences) · c (at its ceiling) · h, x (dead) · r (a delayed head) ·
    t (a blocked sequence) · p (paused) · l (blocked) · !o (ordered) · w (weight, cost, rate).
    """
    hand, other = await Hand(queue, lease=3600).join(), await Hand(queue, lease=3600).join()
    await _endings(queue, other)
    await _in_flight(queue, hand)
    await queue.enqueue_many(jobs([f"a{n}" for n in range(2, 7)]))
    await queue.enqueue_many(jobs(["a7"], priority=5))
    await queue.enqueue_many(jobs(["d1", "d2"], delay_ms=3_600_000))
    await queue.enqueue_many(jobs(["s5"], "b", ordering_key="k"))
    await queue.enqueue_many(jobs(["u1", "u2"], "b", ordering_key="m"))
    await queue.enqueue_many(jobs(["o1", "o2"], "!o"))
    await queue.enqueue_many(jobs(["p1"], "p"))
    await queue.lane("p").pause(reason="abuse", until=4_000_000_000)
    await queue.enqueue_many(jobs(["l1"], "l"))
    await queue.lane("l").block(3600)
    await queue.set_template("pro", ceiling=9, weight=3)
    await queue.lane("w").set(weight=2, rate=rota.Rate(1000), backlog=50, template="pro")
    await queue.enqueue_many([spec("w", id="w1", cost=2.5)])
    return Busy(queue, hand, other)


async def _endings(queue: rota.Queue, hand: Hand) -> None:
    await queue.enqueue_many(jobs(["h1", "h2"], "h", ordering_key="k", on_dead="hold"))
    assert await hand.claim() == ["h1"]
    assert await hand.settle("h1", "bury", hold=True, error='{"error":"no"}') == "ok"
    await queue.enqueue_many(jobs(["x1"], "x"))
    assert await hand.claim() == ["x1"]
    assert await hand.settle("x1", "bury") == "ok"
    await queue.enqueue_many(jobs(["r1", "r2"], "r", ordering_key="k"))
    assert await hand.claim() == ["r1"]
    assert await hand.settle("r1", "retry", delay=3_600_000, error='{"error":"no"}') == "ok"
    await queue.enqueue_many(jobs(["t1", "t2"], "t", ordering_key="k"))
    assert await hand.claim() == ["t1"]
    assert await hand.settle("t1", "block_sequence", delay=3_600_000) == "ok"


async def _in_flight(queue: rota.Queue, hand: Hand) -> None:
    await queue.enqueue_many(jobs(["a1"]))
    assert await hand.claim() == ["a1"]
    await queue.enqueue_many(jobs(["s1", "s2", "s3", "s4"], "b", ordering_key="k"))
    assert await hand.claim(prefetch=3) == ["s1", "s2", "s3"]
    await queue.lane("c").set(ceiling=1)
    await queue.enqueue_many(jobs(["c1", "c2"], "c"))
    assert await hand.claim() == ["c1"]
