"""Blocks: of a lane, of a sequence; they only extend, end on time, and cost no attempt.

C27's 2,000 repetitions are scaled to 300 at the edges of 1, 5 and 50 ms. Its key without a time
to live has no counterpart: blocks are scores of one sorted set, and a block without an end there
is what a hold is.
"""

from __future__ import annotations

import time

import pytest

import rota
from rota.errors import ConfigError
from tests.failures.tools import Hand, Timed, jobs, stats, until_done, working
from tests.support.queues import assert_drained, assert_sound, commands_sent, dump, open_queue
from tests.support.servers import Server
from tests.support.times import IN_TIME
from tests.support.waiting import eventually_async


@pytest.mark.parametrize("scope", ["lane", "sequence"])
async def test_an_ordered_lane_has_one_scope(server: Server, timed: Timed, scope: str) -> None:
    """Blocks it and nothing else; what was taken behind goes back uncounted, in order."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("abcd", lane="!o") + jobs("xy"))
    hand = await Hand(queue, lease=600).join()
    assert await hand.claim(1, prefetch=3) == ["a", "b", "c"]
    assert await hand.settle("a", "complete") == "ok"
    assert await hand.settle("b", f"block_{scope}", delay=1000) == "ok"
    assert dump(server, queue).get("blocked").keys() == {"l:!o"}
    assert await hand.settle("c", "complete") == "settled"
    assert await hand.claim(9) == ["x", "y"]
    clock.advance(999)
    assert await hand.claim(9, prefetch=9) == []
    clock.advance(1)
    assert await hand.claim(9, prefetch=9) == ["b", "c", "d"]
    assert dump(server, queue).counts("attempts") == {}
    assert dump(server, queue).get("why") == {}
    assert_sound(server, queue)


async def test_a_sequence_is_blocked_alone_a_lane_as_a_whole(server: Server, timed: Timed) -> None:
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(
        jobs(["k1", "k2"], ordering_key="k") + jobs(["m1", "m2"], ordering_key="m") + jobs("u")
    )
    hand = await Hand(queue, lease=600).join()
    assert await hand.claim(3) == ["k1", "m1", "u"]
    assert await hand.settle("k1", "block_sequence", delay=1000) == "ok"
    assert await hand.settle("m1", "complete") == "ok"
    assert await hand.settle("u", "release") == "ok"
    first = hand.number
    assert await hand.claim(9) == ["m2", "u"]
    assert await hand.settle("m2", "block_lane", delay=500) == "ok"
    # In flight before the block: it goes on.
    assert await hand.settle("u", "complete") == "ok"
    await queue.enqueue_many(jobs("v"))
    assert first + 1 == hand.number
    assert await hand.claim(9) == []
    clock.advance(500)
    assert await hand.claim(9) == ["m2", "v"]
    clock.advance(500)
    assert await hand.claim(9) == ["k1"]
    assert dump(server, queue).counts("attempts") == {}
    assert_sound(server, queue)


async def test_a_block_only_ever_extends(server: Server, timed: Timed) -> None:
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("abc"))
    hand = await Hand(queue, lease=600).join()
    await hand.claim(3)
    ends = []
    for id, delay in (("a", 1000), ("b", 10), ("c", 2000)):
        assert await hand.settle(id, "block_lane", delay=delay) == "ok"
        ends.append(dump(server, queue).get("blocked")["l:a"] - clock.now)
    await queue.lane("a").block(1.5)
    ends.append(dump(server, queue).get("blocked")["l:a"] - clock.now)
    assert ends == [1000, 1000, 2000, 2000]
    clock.advance(2000)
    assert await hand.claim(3) == ["a", "b", "c"]
    assert_sound(server, queue)


async def test_a_job_without_a_sequence_waits_by_itself(server: Server, timed: Timed) -> None:
    """Scope "sequence" of an unordered job: it alone stays out until then, and does not come
    back at once again and again."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("ab"))
    hand = await Hand(queue, lease=600).join()
    assert await hand.claim() == ["a"]
    assert await hand.settle("a", "block_sequence", delay=1000) == "ok"
    assert await hand.claim(9) == ["b"]
    clock.advance(1000)
    assert await hand.claim(9) == ["a"]
    assert dump(server, queue).counts("attempts") == {}
    assert_sound(server, queue)


@pytest.mark.parametrize("scope", ["lane", "sequence"])
async def test_a_block_of_no_length_is_none(server: Server, queue: rota.Queue, scope: str) -> None:
    for wrong in (-1, -0.001, float("nan"), float("inf"), True, "1"):
        with pytest.raises(ConfigError, match="delay: expected seconds"):
            rota.RateLimited(wrong, scope=scope)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="delay: expected seconds"):
            await queue.lane("a").block(wrong)  # type: ignore[arg-type]
    await queue.enqueue_many(jobs("ab", ordering_key="k"))
    async with queue.consumer() as consumer:
        for _ in range(3):
            await queue.lane("a").block(0)
            (job,) = await consumer.claim(1)
            await consumer.settle([(job, rota.RateLimited(0, scope=scope))])  # type: ignore[arg-type]
            assert dump(server, queue).get("blocked") == {}
            assert job.id == "a"
    assert_sound(server, queue)


async def test_a_paused_lane_whose_block_ends_stays_out(server: Server, timed: Timed) -> None:
    """And the other way round; in the ring once when both have ended."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("abc"))
    hand = await Hand(queue, lease=600).join()
    await hand.claim()
    await queue.lane("a").pause()
    await hand.settle("a", "block_lane", delay=1000)
    clock.advance(1000)
    assert await hand.claim(9) == []
    assert dump(server, queue).get("blocked") == {}
    assert await queue.lane("a").resume()
    assert await hand.claim() == ["a"]
    await hand.settle("a", "block_lane", delay=1000)
    await queue.lane("a").pause()
    assert await queue.lane("a").resume(), "during the block"
    assert await hand.claim(9) == []
    clock.advance(1000)
    assert await hand.claim(9) == ["a", "b", "c"]
    assert_sound(server, queue)


async def test_a_blocked_lane_at_its_ceiling_comes_back_when_both_allow(
    server: Server, timed: Timed
) -> None:
    queue, clock = timed.queue, timed.clock
    await queue.lane("a").set(ceiling=2)
    await queue.enqueue_many(jobs("abcd"))
    hand = await Hand(queue, lease=600).join()
    assert await hand.claim(9) == ["a", "b"]
    await hand.settle("a", "block_lane", delay=1000)
    await hand.settle("b", "complete")
    assert await hand.claim(9) == []
    clock.advance(1000)
    assert await hand.claim(9) == ["a", "c"]
    assert await hand.claim(9) == []
    assert_sound(server, queue)


# ── on time ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ms", [1, 5, 50])
async def test_claims_hammering_at_the_end_of_a_block_find_it_ended(
    server: Server, queue: rota.Queue, ms: int
) -> None:
    """C27: by the server's clock never before its time; never left in it either."""
    await queue.enqueue_many(jobs("ab"))
    hand = await Hand(queue, lease=600).join()
    raw = server.raw()
    for _ in range(20 if ms == 50 else 140):
        assert await hand.claim() == ["a"]
        assert await hand.settle("a", "block_lane", delay=ms) == "ok"
        until = raw.zscore(queue.link.keys.key("blocked"), "l:a")
        deadline = time.monotonic() + IN_TIME
        while not (reply := await hand.exchange()).entries:
            assert time.monotonic() < deadline, "the block has no end"
        assert until is None or reply.now >= float(until)
        assert dump(server, queue).get("ring").keys() == {"a"}
        assert await hand.settle("a", "release") == "ok"
    assert dump(server, queue).get("blocked") == {}
    assert_sound(server, queue)


async def test_a_block_ends_on_time_without_polling(server: Server, queue_name: str) -> None:
    """What wakes the worker is the due time, told with the claim's answer."""
    async with open_queue(server, queue_name) as queue:
        ran: list[float] = []

        @queue.task
        async def work() -> None:
            ran.append(time.monotonic())
            if len(ran) == 1:
                raise rota.RateLimited(1)

        async with working(queue):
            await work.enqueue()
            await eventually_async(lambda: len(ran) == 1, "it does not run")
            before = commands_sent(server)
            await until_done(server, queue, 1)
            assert commands_sent(server) - before <= 8, "it polls"
        assert ran[1] - ran[0] >= 1
        assert_drained(server, queue, done=1)


async def test_workers_go_on_elsewhere_while_a_lane_is_limited(
    server: Server, queue: rota.Queue
) -> None:
    """A service that allows three calls, then says wait: no attempt is used up, nothing is lost,
    the other lane is served meanwhile."""
    calls = 0
    order: list[str] = []

    @queue.task(max_attempts=1)
    async def call(lane: str) -> None:
        nonlocal calls
        order.append(lane)
        if lane == "limited":
            calls += 1
            if calls % 4 == 0:
                raise rota.RateLimited(0.3)

    await queue.enqueue_many(call.options(lane="limited").spec("limited") for _ in range(10))
    await queue.enqueue_many(call.options(lane="free").spec("free") for _ in range(50))
    async with working(queue, slots=4):
        await until_done(server, queue, 60)
    assert order[-1] == "limited"
    assert order.index("limited") < 4
    assert stats(server, queue).get("buried", 0) == 0
    assert stats(server, queue)["released"] >= 2
    assert_drained(server, queue, done=60)
