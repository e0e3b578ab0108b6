"""Consumers in an event loop: claiming, settling, waiting, losing."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import rota
from rota.consumer import Consumer
from rota.errors import Unavailable
from tests.support.proxy import Proxy
from tests.support.queues import (
    assert_drained,
    assert_sound,
    dump,
    held_on_server,
    ids,
    open_queue,
    spec,
    specs,
)
from tests.support.servers import Server
from tests.support.times import AT_ONCE, IN_TIME, LEASE, TRIES
from tests.support.waiting import eventually_async


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


def consumer_of(queue: rota.Queue, prefetch: int = 1) -> Consumer:
    return queue.consumer(lease=LEASE, prefetch=prefetch)


# ── claiming and settling ───────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_jobs_come_in_fair_turns_and_are_done(server: Server, queue: rota.Queue) -> None:
    """Also prefers one call for many: `claim(n)` hands out what n claims would."""
    jobs = [spec(lane) for lane in ("a", "a", "a", "b", "b", "c")]
    await queue.enqueue_many(jobs)
    async with consumer_of(queue) as consumer:
        claimed = await consumer.claim(4)
        assert [job.lane for job in claimed] == ["a", "b", "c", "a"]
        assert consumer.held == claimed
        assert await consumer.complete(claimed) == ["ok"] * 4
        assert await consumer.complete(claimed[0]) == ["settled"]
        rest = await consumer.claim(10)
        assert [job.lane for job in rest] == ["b", "a"]
        await consumer.complete(rest)
        assert await consumer.claim(1) == []
    assert_drained(server, queue, done=6)


async def test_an_exchange_completes_and_claims_in_one_trip(
    server: Server, queue: rota.Queue
) -> None:
    await queue.enqueue_many(specs(5))
    seen = []
    async with consumer_of(queue) as consumer:
        jobs = await consumer.claim(2)
        while jobs:
            seen += ids(jobs)
            jobs = await consumer.exchange(done=jobs, n=2)
        assert consumer.held == []
    assert len(set(seen)) == 5
    assert_drained(server, queue, done=5)


async def test_a_release_returns_a_job_to_its_place_uncounted(
    server: Server, queue: rota.Queue
) -> None:
    first, second = specs(2)
    await queue.enqueue_many([first, second])
    async with consumer_of(queue) as consumer:
        (job,) = await consumer.claim(1)
        assert await consumer.release(job) == ["ok"]
        again = await consumer.claim(2)
        assert ids(again) == ids([first, second])
        assert again[0].attempt == 1
        assert_sound(server, queue)


async def test_a_retry_counts_and_the_last_one_buries_with_the_error(
    server: Server, queue: rota.Queue
) -> None:
    job_spec = spec(max_attempts=2)
    await queue.enqueue(job_spec)
    async with consumer_of(queue) as consumer:
        (job,) = await consumer.claim(1)
        assert (job.attempt, job.last_attempt) == (1, False)
        await consumer.retry(job, delay=0, error="no luck")
        (job,) = await consumer.claim(1)
        assert (job.attempt, job.last_attempt) == (2, True)
        await consumer.retry(job, delay=0, error="no luck again")
        assert await consumer.claim(1) == []
    info = await queue.job(job_spec.id).info()
    assert info is not None
    assert (info.state, info.attempts) == ("dead", 2)
    assert info.error is not None
    assert "no luck again" in info.error
    assert_sound(server, queue)


async def test_a_retry_with_a_delay_comes_back_on_time(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue(spec())
    async with consumer_of(queue) as consumer:
        (job,) = await consumer.claim(1)
        began = time.monotonic()
        await consumer.retry(job, delay=0.3)
        assert held_on_server(server, queue) == {consumer.id: set()}
        (job,) = await consumer.claim(1, wait=IN_TIME)
        assert time.monotonic() - began > 0.28
        assert job.attempt == 2


async def test_each_job_of_a_settlement_ends_its_own_way(server: Server, queue: rota.Queue) -> None:
    jobs = specs(5)
    await queue.enqueue_many(jobs)
    async with consumer_of(queue) as consumer:
        claimed = await consumer.claim(5)
        answers = await consumer.settle(
            [
                (claimed[0], None),
                (claimed[1], rota.Retry(60, "later")),
                (claimed[2], rota.Release()),
                (claimed[3], rota.Bury("bad")),
                (claimed[4], rota.Release(60)),
            ]
        )
        assert answers == ["ok"] * 5
        assert consumer.held == []
        states = [info.state if (info := await queue.job(id).info()) else None for id in ids(jobs)]
        assert states == [None, "delayed", "waiting", "dead", "delayed"]
        assert_sound(server, queue)


async def test_the_same_consumer_may_hold_a_newer_delivery_of_a_job(
    server: Server, queue: rota.Queue
) -> None:
    """Settling the older one once more must not make it forget the newer."""
    await queue.enqueue(spec())
    async with consumer_of(queue) as consumer:
        (old,) = await consumer.claim(1)
        await consumer.release(old)
        (new,) = await consumer.claim(1)
        assert await consumer.complete(old) == ["settled"]
        assert consumer.held == [new]
        assert await consumer.complete(new) == ["ok"]
    assert_drained(server, queue, done=1)


async def test_leaving_gives_back_what_is_held_uncounted(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many([*specs(3), *specs(3, lane="!o")])
    async with consumer_of(queue, prefetch=2) as consumer:
        assert len(await consumer.claim(10)) == 5
    found = assert_sound(server, queue)
    assert found.counts("stats")["waiting"] == 6
    assert found.get("attempts") == {}
    assert found.get("deaths") == {}
    assert found.get("consumers") == {}


async def test_bad_input_is_refused(queue: rota.Queue) -> None:
    async with consumer_of(queue) as consumer:
        for n in (0, -1, 1001, True, 1.5):
            with pytest.raises(rota.ConfigError, match="n: expected"):
                await consumer.claim(n)  # type: ignore[arg-type]
        for wait in (-1, float("nan"), "1"):
            with pytest.raises(rota.ConfigError, match="wait"):
                await consumer.claim(1, wait=wait)  # type: ignore[arg-type]
    for lease in (0.5, 1e9, "x"):
        with pytest.raises(rota.ConfigError, match="lease"):
            queue.consumer(lease=lease)  # type: ignore[arg-type]


# ── sequences ───────────────────────────────────────────────────────────────────────────────────


async def test_a_sequence_is_held_by_one_consumer_until_all_is_settled(
    server: Server, queue: rota.Queue
) -> None:
    jobs = specs(5, ordering_key="k")
    await queue.enqueue_many(jobs)
    async with consumer_of(queue, prefetch=3) as one, consumer_of(queue, prefetch=3) as other:
        claimed = await one.claim(5)
        assert ids(claimed) == ids(jobs[:3])
        assert await other.claim(5) == []
        await one.complete(claimed[:2])
        assert await other.claim(5) == []
        await one.complete(claimed[2])
        assert ids(await other.claim(5)) == ids(jobs[3:])
        assert_sound(server, queue)


@pytest.mark.parametrize(
    "ending",
    [
        rota.Retry(0, "again"),
        rota.Release(),
        rota.RateLimited(0.2, scope="sequence"),
        rota.RateLimited(0.2, scope="lane"),
    ],
    ids=lambda ending: type(ending).__name__ + getattr(ending, "scope", ""),
)
@pytest.mark.parametrize("lane", ["a", "!a"])
async def test_what_was_taken_behind_a_returned_job_goes_back_with_it(
    server: Server, queue: rota.Queue, lane: str, ending: rota.Signal
) -> None:
    """And the consumer knows: it does not hold the later ones any more."""
    jobs = specs(3, lane=lane, **({} if lane == "!a" else {"ordering_key": "k"}))
    await queue.enqueue_many(jobs)
    async with consumer_of(queue, prefetch=3) as consumer:
        claimed = await consumer.claim(1)
        await consumer.settle([(claimed[0], ending)])  # type: ignore[list-item]
        assert consumer.held == []
        assert await consumer.complete(claimed[1]) == ["settled"]
        again = await consumer.claim(1, wait=IN_TIME)
        assert ids(again) == ids(jobs)
        assert_sound(server, queue)


async def test_a_lost_reply_to_a_retry_still_lets_go_of_what_was_behind(
    valkey: Server, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    between = proxy(valkey)
    async with open_queue(between.url, queue_name) as queue:
        await queue.enqueue_many(specs(3, lane="!o"))
        async with consumer_of(queue, prefetch=3) as consumer:
            await consumer.release(await consumer.claim(1))  # the script is known from here on
            claimed = await consumer.claim(1)
            between.drop_reply_then_cut(after=b"retry")
            assert await consumer.retry(claimed[0], delay=0) == ["ok"]
            assert between.dropped == 1
            assert consumer.held == []
            assert ids(await consumer.claim(1)) == ids(claimed)


async def test_a_failing_head_holds_its_place_through_a_delay(
    server: Server, queue: rota.Queue
) -> None:
    jobs = specs(3, lane="!o")
    await queue.enqueue_many(jobs)
    async with consumer_of(queue) as one, consumer_of(queue) as other:
        (head,) = await one.claim(1)
        began = time.monotonic()
        await one.retry(head, delay=0.3)
        (again,) = await other.claim(1, wait=IN_TIME)
        assert time.monotonic() - began > 0.28
        assert (again.id, again.attempt) == (jobs[0].id, 2)
        (following,) = await other.exchange(done=again, n=1)
        assert following.id == jobs[1].id


async def test_a_dead_head_lets_its_sequence_go_on_or_holds_it(
    server: Server, queue: rota.Queue
) -> None:
    skip = specs(2, lane="!skip")
    hold = specs(2, lane="!hold", on_dead="hold")
    await queue.enqueue_many([*skip, *hold])
    async with consumer_of(queue) as consumer:
        await consumer.bury(await consumer.claim(2), "bad")
        assert ids(await consumer.claim(2)) == [skip[1].id]
        assert_sound(server, queue)


async def test_an_unreadable_job_goes_to_the_dead_and_the_others_are_served(
    server: Server, queue: rota.Queue
) -> None:
    @queue.task
    def work(n: int) -> None: ...

    good, bad = spec(payload=b'{"n": 1}'), spec(payload=b'{"n": "x"}')
    await queue.enqueue_many([bad, good])
    async with consumer_of(queue) as consumer:
        (job,) = await consumer.claim(2)
        assert job.kwargs == {"n": 1} or job.args == (1,)
    info = await queue.job(bad.id).info()
    assert info is not None
    assert (info.state, info.payload) == ("dead", b'{"n": "x"}')
    assert_sound(server, queue)


async def test_nothing_is_stranded_when_burying_an_unreadable_job_fails(
    valkey: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim has brought jobs the caller never saw: they go back."""
    async with open_queue(valkey, queue_name) as queue:

        @queue.task
        def work(n: int) -> None: ...

        good = spec(payload=b'{"n": 1}')
        await queue.enqueue_many([spec(payload=b"[]"), good])
        async with consumer_of(queue) as consumer:
            settle, failures = queue.link.store.settle, [Unavailable("away")]

            def failing(*args: Any) -> Any:
                if failures:
                    raise failures.pop()
                return settle(*args)

            monkeypatch.setattr(queue.link.store, "settle", failing)
            with pytest.raises(Unavailable, match="away"):
                await consumer.claim(2)
            assert consumer.held == []
            (job,) = await consumer.claim(2)
            assert (job.id, job.attempt) == (good.id, 1)
            assert held_on_server(valkey, queue) == {consumer.id: {good.id}}


# ── waking ──────────────────────────────────────────────────────────────────────────────────────


async def idle(server: Server, queue: rota.Queue) -> None:
    """Until a consumer of this queue is blocked on the bell."""

    def blocked() -> bool:
        for node in server.nodes:
            with node.client() as client:
                if any("blpop" in row["cmd"] for row in client.client_list()):
                    return True
        return False

    await eventually_async(blocked, "no consumer parks")


async def waits_for(
    server: Server, queue: rota.Queue, act: Callable[[], Any]
) -> tuple[list[rota.Job], float]:
    """What an idle consumer gets after `act` and IN_TIME, and after how many seconds."""
    async with consumer_of(queue) as consumer:
        waiting = asyncio.create_task(consumer.claim(1, wait=IN_TIME))
        await idle(server, queue)
        began = time.monotonic()
        await act()
        jobs = await waiting
        took = time.monotonic() - began
        await consumer.complete(jobs)
    return jobs, took


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_an_idle_consumer_wakes_the_instant_a_job_arrives(
    server: Server, queue: rota.Queue
) -> None:
    for _ in range(TRIES):
        jobs, took = await waits_for(server, queue, lambda: queue.enqueue(spec()))
        assert len(jobs) == 1
        if took < AT_ONCE:
            break
    else:
        pytest.fail("it takes a while")


async def test_a_claim_without_work_waits_no_longer_than_asked(queue: rota.Queue) -> None:
    async with consumer_of(queue) as consumer:
        began = time.monotonic()
        assert await consumer.claim(1) == []
        assert time.monotonic() - began < IN_TIME
        began = time.monotonic()
        assert await consumer.claim(1, wait=0.3) == []
        assert 0.29 < time.monotonic() - began < IN_TIME


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_delayed_job_starts_on_time_without_polling(
    server: Server, queue: rota.Queue
) -> None:
    """The time is told to a sleeper by the bell; then a timer waits, not a loop."""
    jobs, took = await waits_for(server, queue, lambda: queue.enqueue(spec(delay_ms=700)))
    assert len(jobs) == 1
    assert took > 0.69
    began = time.monotonic()
    await queue.enqueue(spec(delay_ms=700))
    async with consumer_of(queue) as consumer:
        assert len(await consumer.claim(1, wait=IN_TIME)) == 1
        assert time.monotonic() - began > 0.69


async def test_an_earlier_due_time_is_told_to_sleepers(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue(spec(delay_ms=60_000))
    early = spec(delay_ms=300)
    jobs, took = await waits_for(server, queue, lambda: queue.enqueue(early))
    assert ids(jobs) == [early.id]
    assert took > 0.29


@pytest.mark.parametrize("gate", ["pause", "ceiling", "block", "queue", "default"])
async def test_whatever_frees_a_lane_wakes(server: Server, queue: rota.Queue, gate: str) -> None:
    lane = queue.lane("a")
    shut, free = {
        "pause": (lane.pause, lane.resume),
        "ceiling": (lambda: lane.set(ceiling=0), lambda: lane.set(ceiling=1)),
        "block": (lambda: lane.block(60), lane.unblock),
        "queue": (queue.pause, queue.resume),
        "default": (lambda: queue.set(default_ceiling=0), lambda: queue.set(default_ceiling=3)),
    }[gate]
    await shut()
    await queue.enqueue(spec())
    jobs, _ = await waits_for(server, queue, free)
    assert len(jobs) == 1


@pytest.mark.parametrize("gate", ["pause", "block"])
async def test_a_gate_with_an_end_opens_by_itself(
    server: Server, queue: rota.Queue, gate: str
) -> None:
    lane = queue.lane("a")
    await queue.enqueue(spec())
    began = time.monotonic()
    if gate == "pause":
        await lane.pause(until=time.time() + 0.4)
    else:
        await lane.block(0.4)
    async with consumer_of(queue) as consumer:
        assert len(await consumer.claim(1, wait=IN_TIME)) == 1
        assert time.monotonic() - began > 0.3


async def test_nothing_is_handed_out_after_a_pause_has_returned(
    server: Server, queue: rota.Queue
) -> None:
    """Neither what is published after, nor what falls due; all of it on resume."""
    lane = queue.lane("a")
    async with consumer_of(queue) as consumer:
        waiting = asyncio.create_task(consumer.claim(5, wait=2 * IN_TIME))
        await idle(server, queue)
        await lane.pause()
        await queue.enqueue_many([spec(), spec(delay_ms=100), spec()])

        async def all_wait() -> bool:
            return (await lane.info()).waiting == 3

        await eventually_async(all_wait, "the delayed one does not fall due")
        await asyncio.sleep(0.2)
        assert (await lane.info()).state == "paused"
        assert not waiting.done()
        await lane.resume()
        assert len(await waiting) == 3


# ── cancelling and broken connections ───────────────────────────────────────────────────────────


async def test_a_cancelled_claim_leaves_nothing_behind(
    valkey: Server, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    """Cancelled with the reply on its way, and no other claim follows: the job goes back."""
    between = proxy(valkey)
    async with open_queue(between.url, queue_name) as queue:
        await queue.enqueue(spec())
        async with consumer_of(queue) as consumer:
            await consumer.release(await consumer.claim(1))
            between.silent(replies_only=True)
            claim = asyncio.create_task(consumer.claim(1))
            await eventually_async(
                lambda: held_on_server(valkey, queue)[consumer.id], "the claim does not arrive"
            )
            claim.cancel()
            await asyncio.gather(claim, return_exceptions=True)
            between.pass_through()
            await eventually_async(
                lambda: not held_on_server(valkey, queue)[consumer.id],
                "the job stays with a consumer that does not know it",
            )
            async with consumer_of(queue) as other:
                assert len(await other.claim(1)) == 1


async def test_a_lost_reply_to_a_claim_is_reconciled(
    valkey: Server, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    between = proxy(valkey)
    async with open_queue(between.url, queue_name) as queue:
        await queue.enqueue_many(specs(4))
        async with consumer_of(queue) as consumer:
            done = await consumer.claim(2)
            between.drop_reply_then_cut(after=b"EVALSHA")
            jobs = await consumer.exchange(done=done, n=2)
            assert between.dropped == 1
            assert len(jobs) == 2
            assert all(job.attempt == 1 for job in jobs)
            assert held_on_server(valkey, queue) == {consumer.id: set(ids(jobs))}
            await consumer.complete(jobs)
        assert_drained(valkey, queue, done=4)


async def test_answers_are_never_shifted_by_cancelled_calls(
    valkey: Server, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    """C04, 500 rounds scaled to 120 and 100 ms to 5."""
    between = proxy(valkey)
    rand = random.Random(4)
    async with open_queue(between.url, queue_name) as queue:
        async with consumer_of(queue) as consumer:
            between.delay(0.005)
            for round in range(120):
                calls: list[Callable[[], Any]] = [
                    lambda: queue.enqueue(spec("noise")),
                    lambda: consumer.claim(1),
                    lambda: consumer.complete(consumer.held),
                    queue.info,
                    lambda: queue.lane("noise").info(),
                ]
                call = asyncio.create_task(rand.choice(calls)())
                await asyncio.sleep(rand.uniform(0, 0.01))
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                mine = spec("mine", payload=b'{"round": %d}' % round)
                assert await queue.enqueue(mine) == rota.Enqueued(mine.id, "created")
                info = await queue.job(mine.id).info()
                assert info is not None
                assert (info.id, info.payload) == (mine.id, mine.payload)
            between.pass_through()
            await consumer.claim(1)
            assert held_on_server(valkey, queue) == {consumer.id: set(ids(consumer.held))}
        assert_sound(valkey, queue)
        assert between.open <= 18


# ── leases ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_consumer_that_lost_its_lease_is_told_and_starts_anew(
    server: Server, queue: rota.Queue
) -> None:
    """C14: every call about the old delivery is refused with the same typed error."""
    await queue.enqueue(spec())
    async with consumer_of(queue) as consumer:
        (job,) = await consumer.claim(1)
        old = consumer.id
        assert server.raw().zadd(queue.link.keys.key("consumers"), {old: float("-inf")}) == 0
        for _ in range(2):
            for call in (consumer.complete, consumer.retry, consumer.release):
                with pytest.raises(rota.LeaseLost):
                    await call(job)
            with pytest.raises(rota.LeaseLost):
                await consumer.exchange(done=job, n=1)
            (again,) = await consumer.claim(1, wait=IN_TIME)
            assert consumer.id != old
            assert (again.id, again.attempt) == (job.id, 1)
            await consumer.release(again)
        assert dump(server, queue).get("consumers").keys() == {consumer.id}


async def test_an_idle_consumer_survives_the_loss_of_its_lease(
    server: Server, queue: rota.Queue
) -> None:
    async with consumer_of(queue) as consumer:
        old = consumer.id
        waiting = asyncio.create_task(consumer.claim(1, wait=IN_TIME))
        await idle(server, queue)
        server.raw().delete(queue.link.keys.key("consumers"), queue.link.keys.key("consumer", old))
        await queue.enqueue(spec())
        (job,) = await waiting
        assert consumer.id != old
        assert await consumer.complete(job) == ["ok"]
    assert_drained(server, queue, done=1)
