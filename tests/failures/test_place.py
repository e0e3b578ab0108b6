"""A job's place: it keeps its score whatever happens to it, and what is behind it stays behind.

C33's back-offs of 300 ms are kept; its third partition is a lane of unordered jobs.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable

import pytest

import rota
from tests.failures.tools import Hand, Timed, beat, jobs, stats, until_done, working
from tests.support.queues import assert_sound, dump
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE
from tests.support.waiting import eventually_async

NAMES = [f"j{n}" for n in range(8)]
KINDS: dict[str, dict[str, str]] = {
    "unordered": {"lane": "a"},
    "sequence": {"lane": "a", "ordering_key": "k"},
    "ordered lane": {"lane": "!a"},
}


def scores(server: Server, queue: rota.Queue) -> dict[str, float]:
    """Where waiting jobs stand."""
    found = dump(server, queue)
    places = [*found.each("g:", ":pending"), *found.each("s:")]
    return {id: score for _, entries in places for id, score in entries.items() if id in NAMES}


async def all_of(hand: Hand, prefetch: int = 8) -> list[str]:
    """Claims and completes until nothing comes; the ids in order."""
    seen: list[str] = []
    while found := await hand.claim(8, prefetch=prefetch):
        for id in found:
            assert await hand.settle(id, "complete") == "ok"
        seen += found
    return seen


async def _retry(queue: rota.Queue, hand: Hand, ids: list[str]) -> None:
    for id in reversed(ids):
        assert await hand.settle(id, "retry") == "ok"


async def _release(queue: rota.Queue, hand: Hand, ids: list[str]) -> None:
    for id in reversed(ids):
        assert await hand.settle(id, "release") == "ok"


async def _reap(queue: rota.Queue, hand: Hand, ids: list[str]) -> None:
    await queue.link.run(queue.link.store.heartbeat([hand.id], lease_ms=1))
    await asyncio.sleep(0.01)
    await beat(queue)


async def _leave(queue: rota.Queue, hand: Hand, ids: list[str]) -> None:
    assert await hand.leave() == len(ids)


async def _evict(queue: rota.Queue, hand: Hand, ids: list[str]) -> None:
    assert await queue.evict(hand.id) == len(ids)


async def _replay(queue: rota.Queue, hand: Hand, ids: list[str]) -> None:
    for id in ids:
        assert await hand.settle(id, "bury") == "ok"
    await queue.dead.replay(*reversed(ids))


async def _rate_limit(queue: rota.Queue, hand: Hand, ids: list[str]) -> None:
    for id in ids:
        assert await hand.settle(id, "block_lane", delay=1) in ("ok", "settled")
    await asyncio.sleep(0.01)


WAYS: dict[str, Callable[[rota.Queue, Hand, list[str]], Awaitable[None]]] = {
    "retry": _retry,
    "release": _release,
    "reap": _reap,
    "leave": _leave,
    "evict": _evict,
    "replay": _replay,
    "rate limit": _rate_limit,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_job_returns_to_its_exact_place(
    server: Server, queue: rota.Queue, way: str, kind: str
) -> None:
    """Taken from the head, given back latest first: the order is that of the enqueueing, a
    higher priority before it."""
    specs = jobs(NAMES[:6], **KINDS[kind])
    specs += jobs(NAMES[6:7], priority=1, **KINDS[kind]) + jobs(NAMES[7:], **KINDS[kind])
    await queue.enqueue_many(specs)
    before = scores(server, queue)
    assert len(before) == 8
    hand = await Hand(queue).join()
    taken = await hand.claim(5, prefetch=5)
    assert taken == ["j6", "j0", "j1", "j2", "j3"]
    await WAYS[way](queue, hand, taken)
    assert scores(server, queue) == before
    assert_sound(server, queue)
    after = await Hand(queue).join()
    assert await all_of(after) == ["j6", "j0", "j1", "j2", "j3", "j4", "j5", "j7"]
    await after.leave()
    await hand.leave()
    assert_sound(server, queue)
    assert stats(server, queue)["completed"] == 8


async def test_a_delayed_retry_waits_apart_and_overtakes_nobody(
    server: Server, timed: Timed
) -> None:
    """An unordered job: others run meanwhile; on its return those of a higher priority and those
    enqueued before it stay before it, later ones behind it."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("abcd"))
    hand = await Hand(queue, lease=60).join()
    assert await hand.claim() == ["a"]
    assert await hand.settle("a", "retry", delay=5000) == "ok"
    found = dump(server, queue)
    assert [member[17:] for member in found.get("scheduled")] == ["a"]
    assert "a" not in found.get("g:a:pending")
    assert await hand.claim() == ["b"]
    clock.advance(4999)
    assert await hand.claim() == ["c"]
    await queue.enqueue_many(jobs("p", priority=1) + jobs("e"))
    clock.advance(1)
    assert await all_of(hand) == ["p", "a", "d", "e"]
    assert_sound(server, queue)


async def test_a_heads_delay_blocks_its_sequence_alone(server: Server, timed: Timed) -> None:
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(
        jobs(["a1", "a2", "a3"], ordering_key="a")
        + jobs(["b1", "b2"], ordering_key="b")
        + jobs(["u1"])
        + jobs(["o1"], lane="!o")
    )
    hand = await Hand(queue, lease=60).join()
    assert await hand.claim(1, prefetch=2) == ["o1"]
    first = hand.number
    assert await hand.claim(1, prefetch=2) == ["a1", "a2"]
    assert await hand.settle("a1", "retry", delay=1000) == "ok"
    assert await hand.settle("a2", "complete") == "settled", "it went back with the head"
    other = await Hand(queue, lease=60).join()
    assert await other.claim(9, prefetch=9) == ["b1", "b2", "u1"]
    clock.advance(999)
    assert await other.claim(9, prefetch=9) == []
    clock.advance(1)
    assert await other.claim(9, prefetch=9) == ["a1", "a2", "a3"]
    assert dump(server, queue).counts("attempts") == {"a1": 1}
    assert await hand.settle("o1", "complete", delivery=str(first)) == "ok"
    assert_sound(server, queue)


async def test_a_reaped_delay_of_the_head_is_kept(server: Server, timed: Timed) -> None:
    """C33's kill during the back-off: the worker is gone, the back-off is not."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("abc", ordering_key="k"))
    hand = await Hand(queue, lease=2).join()
    await hand.claim(1, prefetch=3)
    await hand.settle("a", "complete")
    await hand.settle("b", "retry", delay=5000)
    clock.advance(2001)
    await beat(queue)
    assert dump(server, queue).get("consumers") == {}
    other = await Hand(queue, lease=60).join()
    assert await other.claim(9, prefetch=9) == []
    clock.advance(2999)
    assert await other.claim(9, prefetch=9) == ["b", "c"]
    assert dump(server, queue).counts("deaths") == {}
    assert dump(server, queue).counts("attempts") == {"b": 1}


async def test_a_partition_keeps_its_order_through_failures_and_slows_no_other(
    server: Server, beating: rota.Queue
) -> None:
    """C33, with workers: A…J; C fails twice, F until it is dead, two partitions and a lane of
    single jobs beside it. A worker that holds the head of the queue is lost at the start."""
    queue = beating
    starts: dict[str, list[str]] = defaultdict(list)
    at: dict[str, list[float]] = defaultdict(list)

    @queue.task(max_attempts=3, backoff=rota.Backoff(base=0.3, factor=1, jitter=0))
    async def step(part: str, name: str) -> None:
        starts[part].append(name)
        at[part].append(time.monotonic())
        if part == "!bad" and (name == "F" or (name == "C" and starts[part].count("C") < 3)):
            raise ValueError(name)

    parts = ("!bad", "!one", "!two", "free")
    for name in "ABCDEFGHIJ":
        await queue.enqueue_many(step.options(lane=part).spec(part, name) for part in parts)
    lost = await Hand(queue, lease=0.2).join()
    await lost.claim(3, prefetch=4)
    async with working(queue, slots=4, prefetch=4), working(queue, slots=4, prefetch=4):
        await until_done(server, queue, 39)
    assert starts["!bad"] == list("ABCCCDEFFFGHIJ")
    for part in ("!one", "!two", "free"):
        # Lanes the lost worker had taken from begin again at the head: none of it was run here.
        assert starts[part] == list("ABCDEFGHIJ") or part == "free"
        assert at[part][-1] < at["!bad"][-1], f"{part} was slowed by another's failures"
    waits = [b - a for a, b in itertools.pairwise(at["!bad"])]
    for n in (2, 3, 7, 8):
        assert waits[n] > 0.29, f"start {n + 1} came before the back-off's end"
    found = dump(server, queue)
    assert len(found.get("dead")) == 1
    assert stats(server, queue)["retried"] == 4
    assert_sound(server, queue)


async def test_what_returns_wakes_who_waits(server: Server, queue: rota.Queue) -> None:
    """Retry, release, replay and an ended consumer ring: nobody waits for a beat."""
    await queue.enqueue_many(jobs("a"))
    hand = await Hand(queue, lease=LEASE).join()
    async with queue.consumer() as consumer:
        for way in ("retry", "release", "replay", "leave"):
            assert await hand.claim() == ["a"]
            waiting = asyncio.create_task(consumer.claim(1, wait=IN_TIME))
            await eventually_async(
                lambda: queue.consuming.bell().rules.wants_park(), "it does not park"
            )
            await asyncio.sleep(0.05)
            await WAYS[way](queue, hand, ["a"])
            (job,) = await waiting
            await consumer.release(job)
        assert await hand.leave() == 0
