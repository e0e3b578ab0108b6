"""Settling: every ending names its delivery, the first one wins, each stands for itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

import rota
from rota.errors import ConfigError, LeaseLost
from rota.values.endings import Ending
from tests.failures.tools import Hand, Timed, beat, jobs, stats, until_done, working
from tests.support.queues import assert_drained, assert_sound, dump, open_queue
from tests.support.servers import Server
from tests.support.times import IN_TIME, PATIENCE
from tests.support.waiting import eventually_async

ACTIONS = ("complete", "retry", "release", "bury", "block_lane", "block_sequence")
KINDS: dict[str, dict[str, str]] = {
    "unordered": {"lane": "a"},
    "sequence": {"lane": "a", "ordering_key": "k"},
    "ordered lane": {"lane": "!a"},
}


# ── the first ending wins ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ACTIONS)
async def test_a_second_ending_is_answered_and_changes_nothing(
    server: Server, queue: rota.Queue, first: str, kind: str
) -> None:
    await queue.enqueue_many(jobs("ab", **KINDS[kind]))
    hand = await Hand(queue).join()
    assert await hand.claim() == ["a"]
    assert await hand.settle("a", first, delay=0 if first == "complete" else 60_000) == "ok"
    before = dump(server, queue)
    for action in ACTIONS:
        assert await hand.settle("a", action, delay=5) == "settled"
        reply = await hand.exchange(0, done=[("a", "1")])
        assert reply.answers == ["settled"]
    after = dump(server, queue)
    assert {name: after.get(name) for name in after.types} == {
        name: before.get(name) for name in before.types
    }
    assert_sound(server, queue)


async def test_an_ending_speaks_for_its_delivery_only(server: Server, queue: rota.Queue) -> None:
    """Neither an older nor a newer delivery, nor another's job, nor one that never was."""
    await queue.enqueue_many(jobs("ab"))
    one, two = await Hand(queue).join(), await Hand(queue).join()
    assert await one.claim() == ["a"]
    assert await two.claim() == ["b"]
    assert await one.settle("a", "release") == "ok"
    assert await one.claim() == ["a"]
    for delivery in ("1", "3", "", "x", "02"):
        for action in ACTIONS:
            assert await one.settle("a", action, delivery=delivery) == "settled"
    assert await one.settle("b", "complete", delivery="1") == "settled"
    assert await one.settle("c", "bury", delivery="2") == "settled"
    assert {len(dump(server, queue).deliveries(hand.id)) for hand in (one, two)} == {1}
    assert await one.settle("a", "complete") == "ok"
    assert await two.settle("b", "complete") == "ok"


async def test_a_mixed_batch_ends_each_job_in_its_own_way(
    server: Server, queue: rota.Queue
) -> None:
    """One refused in the middle, and one named twice, do not undo the others."""
    names = [f"j{n}" for n in range(8)]
    await queue.enqueue_many(
        rota.JobSpec(task="work", lane="!o" if n == 7 else f"l{n}", id=name)
        for n, name in enumerate(names)
    )
    async with queue.consumer() as consumer:
        held = {job.id: job for job in await consumer.claim(8)}
        assert await consumer.complete(held["j3"]) == ["ok"]
        endings: list[Ending] = [
            None,
            rota.Retry(0, "again"),
            rota.Release(0),
            None,
            rota.Bury("enough"),
            rota.RateLimited(60),
            rota.Retry(60),
            rota.RateLimited(60, scope="sequence"),
        ]
        pairs = [(held[name], ending) for name, ending in zip(names, endings, strict=True)]
        answers = await consumer.settle([*pairs, (held["j1"], rota.Bury("too late"))])
        assert answers == ["ok", "ok", "ok", "settled", "ok", "ok", "ok", "ok", "settled"]
        assert consumer.held == []
        found = assert_sound(server, queue)
        assert found.get("dead").keys() == {"j4"}
        assert found.counts("attempts") == {"j1": 1, "j4": 1, "j6": 1}
        assert found.get("blocked").keys() == {"l:l5", "l:!o"}
        assert [m[17:] for m in found.get("scheduled")] == ["j6"]
        assert {job.id for job in await consumer.claim(8)} == {"j1", "j2"}


async def test_a_batch_of_a_sequence_may_end_in_any_order(
    server: Server, queue: rota.Queue
) -> None:
    """What one ending gives back, a later one in the same call does not find."""
    await queue.enqueue_many(jobs("abcde", ordering_key="k"))
    async with queue.consumer(prefetch=5) as consumer:
        a, b, c, d, e = await consumer.claim(1)
        answers = await consumer.settle(
            [(d, None), (b, rota.Retry(0)), (c, None), (e, None), (a, None)]
        )
        assert answers == ["ok", "ok", "settled", "settled", "ok"]
        again = await consumer.claim(1)
        assert [job.id for job in again] == ["b", "c", "e"]
        assert [job.attempt for job in again] == [2, 1, 1]
        await consumer.complete(again)
    assert_drained(server, queue, done=5)


async def test_a_bad_ending_is_refused_before_any_is_sent(
    server: Server, queue: rota.Queue
) -> None:
    await queue.enqueue_many(jobs("ab"))
    async with queue.consumer() as consumer:
        a, b = await consumer.claim(2)
        bad: Any = "done"
        with pytest.raises(ConfigError, match=r"expected None, rota\.Retry"):
            await consumer.settle([(a, None), (b, bad)])
        assert set(consumer.held) == {a, b}
        assert await consumer.complete([a, b]) == ["ok", "ok"]


# ── after the lease ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_ending_after_the_reap_is_lost_and_touches_nothing(
    server: Server, timed: Timed, action: str
) -> None:
    """C14: A's lease ends, B claims; whatever A does is refused alike, B's lease is untouched."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("a", lane="l"))
    await queue.lane("l").set(ceiling=1)
    active = []

    def note() -> None:
        active.append(dump(server, queue).counts("gactive").get("l", 0))

    a, b = await Hand(queue, lease=2).join(), await Hand(queue, lease=60).join()
    assert await a.claim() == ["a"]
    note()
    for _ in range(3):  # somebody keeps the time
        clock.advance(700)
        await beat(queue)
    assert await b.claim() == ["a"]
    note()
    assert await a.settle("a", action) == "lost"
    assert not await a.heartbeat()
    reply = await a.exchange(5, done=[("a", "1")])
    assert (reply.status, reply.answers, reply.entries) == ("lost", ["lost"], [])
    assert await queue.link.run(queue.link.store.start(a.id, "a", "1")) == "lost"
    assert await queue.link.run(queue.link.store.deliveries_of(a.id, number=9)) is None
    assert dump(server, queue).deliveries(b.id).keys() == {"a"}
    assert dump(server, queue).counts("deaths") == {"a": 1}
    assert await b.settle("a", "complete") == "ok"
    note()
    assert active == [1, 1, 0]
    assert_drained(server, queue, done=1)


async def test_an_ending_before_the_reap_counts(server: Server, timed: Timed) -> None:
    """The lease has run out, but nobody was given its jobs: the work is not thrown away."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("ab"))
    hand = await Hand(queue, lease=2).join()
    await hand.claim(2)
    clock.advance(5000)
    assert await hand.settle("a", "complete") == "ok"
    reply = await hand.exchange(1, done=[("b", "1")])
    assert (reply.status, reply.answers, reply.entries) == ("lost", ["ok"], [])
    assert_drained(server, queue, done=2)


async def test_all_of_a_lost_consumers_verbs_raise_the_same_error(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many(jobs("ab"))
        async with queue.consumer(lease=60) as consumer:
            a, b = await consumer.claim(2)
            assert await queue.evict(consumer.id) == 2
            for verb in (
                lambda: consumer.complete(a),
                lambda: consumer.retry(a),
                lambda: consumer.release([a, b]),
                lambda: consumer.bury(b, "why"),
                lambda: consumer.settle([(a, None), (b, rota.Retry())]),
                lambda: consumer.exchange(done=a),
                lambda: consumer.start(a),
            ):
                with pytest.raises(LeaseLost):
                    await verb()
            assert {job.id for job in await consumer.claim(2)} == {"a", "b"}
            with pytest.raises(LeaseLost):
                await consumer.complete(a)
        assert_sound(server, queue)


# ── late renewals ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
async def test_a_late_renewal_does_not_stretch_a_delay(
    server: Server, timed: Timed, kind: str
) -> None:
    """C15: a renewal renews its consumer's lease and says nothing of jobs it has given back."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("a", **KINDS[kind]))
    one, two = await Hand(queue, lease=60).join(), await Hand(queue, lease=60).join()
    await one.claim()
    assert await one.settle("a", "retry", delay=1000) == "ok"
    for late in (0, 150, 150):
        clock.advance(late)
        assert await one.heartbeat()
    clock.advance(699)
    assert await two.claim() == []
    clock.advance(1)
    assert await two.claim() == ["a"]
    assert await one.heartbeat()
    assert dump(server, queue).deliveries(two.id).keys() == {"a"}
    assert await queue.link.run(queue.link.store.start(one.id, "a", "1")) == "settled"
    assert await two.settle("a", "complete") == "ok"


# ── from a handler ──────────────────────────────────────────────────────────────────────────────


async def test_handing_back_uses_no_attempt_and_frees_the_slot_at_once(
    server: Server, queue: rota.Queue
) -> None:
    """C59: ten hand-backs with at most two attempts; one slot, which the next job gets while the
    first one waits."""
    seen: Counter[str] = Counter()
    order: list[str] = []

    @queue.task(max_attempts=2)
    async def work(name: str, delay: float, backs: int) -> None:
        seen[name] += 1
        order.append(name)
        assert rota.current_job().attempt == 1
        if seen[name] <= backs:
            raise rota.Release(delay)

    began = time.monotonic()
    await queue.enqueue_many(
        [work.spec("at once", 0, 2), work.spec("soon", 0.01, 10), work.spec("late", 60, 1)]
        + [work.spec("next", 0, 0)]
    )
    async with working(queue, slots=1):
        await until_done(server, queue, 3)
    assert time.monotonic() - began < IN_TIME, "a slot was kept for the job that waits"
    assert seen == {"at once": 3, "soon": 11, "late": 1, "next": 1}
    assert stats(server, queue)["released"] == 13
    assert stats(server, queue).get("retried", 0) == 0
    assert_sound(server, queue)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("release then raise", "retried"),
        ("release swallowed", "completed"),
        ("raise in finally", "released"),
        ("cancel itself", "retried"),
        ("time out", "retried"),
        ("release in a thread", "released"),
        ("bury in a thread", "buried"),
        ("limited in a thread", "released"),
        ("group of signals", "retried"),
    ],
)
async def test_a_handler_has_one_ending(
    server: Server, queue: rota.Queue, name: str, expected: str
) -> None:
    """C59: whatever it tries on its way, what leaves the handler is its one ending."""
    ran = []

    async def on_loop() -> None:
        ran.append(name)
        if len(ran) > 1:
            return
        if name == "release then raise":
            try:
                raise rota.Release()
            except rota.Release as signal:
                raise ValueError("after all") from signal
        if name == "release swallowed":
            try:
                raise rota.Release()
            except rota.Release:
                return
        if name == "raise in finally":
            try:
                raise ValueError("first")
            finally:
                raise rota.Release()
        if name == "cancel itself":
            raise asyncio.CancelledError
        if name == "time out":
            await asyncio.sleep(60)
        raise ExceptionGroup("several", [rota.Release(), ValueError()])

    def in_thread() -> None:
        ran.append(name)
        if len(ran) == 1:
            first = {"release": rota.Release(), "bury": rota.Bury("no")}
            raise first.get(name.split()[0], rota.RateLimited(0.01))

    policy = {"backoff": rota.Backoff(base=0.01, jitter=0), "timeout": 0.1}
    task = queue.task(**policy)(in_thread if "thread" in name else on_loop)  # type: ignore[call-overload]
    await task.enqueue()
    async with working(queue):
        await until_done(server, queue, 1, name="buried" if expected == "buried" else "completed")
    found = stats(server, queue)
    counted = {n: found.get(n, 0) for n in ("retried", "released", "buried")}
    assert counted == {"retried": 0, "released": 0, "buried": 0} | (
        {expected: 1} if expected != "completed" else {}
    )
    assert len(ran) == (1 if expected in ("completed", "buried") else 2)
    assert_sound(server, queue)


@pytest.mark.usefixtures("quick_renewals")
async def test_a_handler_that_outlives_its_lease_ends_nothing(
    server: Server, queue: rota.Queue
) -> None:
    """C59 after the lease: its hand-back is refused by the worker, the second run's ending is
    the one; the worker goes on under a new identity."""
    starts = 0
    identities = set()

    @queue.task
    async def work() -> None:
        nonlocal starts
        starts += 1
        found = dump(server, queue).get("consumers")
        identities.update(found)
        if starts == 1:
            (mine,) = found
            await queue.evict(mine)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise rota.Release(60) from None  # too late

    await work.enqueue()
    async with working(queue):
        await until_done(server, queue, 1)
    assert starts == 2
    assert len(identities) == 2
    assert stats(server, queue)["released"] == 1  # the evicted one, not the hand-back
    assert_drained(server, queue, done=1)


async def test_endings_wait_for_a_lost_server_and_arrive_once(
    server: Server, queue: rota.Queue
) -> None:
    """A burst of endings of each kind: nothing counts twice, all arrive."""
    tried: Counter[int] = Counter()

    @queue.task(max_attempts=3, backoff=rota.Backoff(base=0.01, jitter=0))
    async def work(n: int) -> None:
        tried[n] += 1
        if tried[n] == 1:
            signals = (None, rota.Retry(0), rota.Release(0), rota.RateLimited(0.01), ValueError())
            if (signal := signals[n % 5]) is not None:
                raise signal

    await queue.enqueue_many(work.options(lane=f"l{n % 7}").spec(n) for n in range(200))
    async with working(queue, slots=20):
        await eventually_async(
            lambda: stats(server, queue).get("completed") == 200, "not all done", timeout=PATIENCE
        )
    assert sum(tried.values()) == 360
    found = stats(server, queue)
    assert (found["retried"], found["released"]) == (80, 80)
    assert_drained(server, queue, done=200)
