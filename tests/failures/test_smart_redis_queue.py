"""What users of smart-redis-queue rely on, feature by feature, in rota's words.

Its ordered partition is an ordered lane (`!name`), its regular partition a lane, its Get a claim,
its Ack completing, its Reject releasing or retrying, its pool a worker.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

import rota
from rota.values.jobspec import DEFAULT_LANE
from tests.failures.tools import Hand, beat, jobs, stats, until_done, working
from tests.support.queues import assert_drained, assert_sound, dump, ids
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE
from tests.support.waiting import eventually_async


async def test_publish_with_and_without_a_partition(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue(rota.JobSpec(task="work", id="without"))
    await queue.enqueue(rota.JobSpec(task="work", id="with", lane="p"))
    await queue.enqueue(rota.JobSpec(task="work", id="ordered", lane="!p"))
    async with queue.consumer() as consumer:
        claimed = {job.id: job.lane for job in await consumer.claim(9)}
        assert claimed == {"without": DEFAULT_LANE, "with": "p", "ordered": "!p"}
        await consumer.complete(consumer.held)
    assert_drained(server, queue, done=3)


async def test_a_duplicate_id_is_refused_while_the_job_exists(queue: rota.Queue) -> None:
    spec = jobs("a")[0]
    assert (await queue.enqueue(spec)).outcome == "created"
    assert (await queue.enqueue(spec)).outcome == "duplicate"
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        assert (await queue.enqueue(spec)).outcome == "duplicate"
        await consumer.complete(job)
    assert (await queue.enqueue(spec)).outcome == "created"


async def test_a_batch_with_a_duplicate_adds_the_others(queue: rota.Queue) -> None:
    await queue.enqueue(jobs("b")[0])
    outcomes = await queue.enqueue_many(jobs("abc"))
    assert [done.outcome for done in outcomes] == ["created", "duplicate", "created"]


async def test_a_scheduled_job_does_not_come_before_its_time(queue: rota.Queue) -> None:
    began = time.monotonic()
    await queue.enqueue_many(jobs("a", delay_ms=300) + jobs("b"))
    async with queue.consumer() as consumer:
        assert ids(await consumer.claim()) == ["b"]
        assert ids(await consumer.claim(9, wait=IN_TIME)) == ["a"]
        assert time.monotonic() - began >= 0.299


async def test_take_one_or_several(queue: rota.Queue) -> None:
    """Several entries of lanes in one call; several jobs of an ordered one as one entry."""
    await queue.enqueue_many(jobs([f"a{n}" for n in range(5)]))
    await queue.enqueue_many(jobs([f"o{n}" for n in range(5)], lane="!o"))
    async with queue.consumer(prefetch=3) as consumer:
        assert ids(await consumer.claim()) == ["o0", "o1", "o2"]
        assert ids(await consumer.claim()) == ["a0"]
        assert ids(await consumer.claim(3)) == ["a1", "a2", "a3"]


async def test_complete_and_take_again(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many(jobs("abc", lane="!o"))
    seen = []
    async with queue.consumer() as consumer:
        while taken := await consumer.claim():
            seen += ids(taken)
            await consumer.complete(taken)
    assert seen == ["a", "b", "c"]
    assert_drained(server, queue, done=3)


async def test_one_consumer_holds_an_ordered_partition_while_others_work_elsewhere(
    queue: rota.Queue,
) -> None:
    await queue.enqueue_many(jobs("abc", lane="!o") + jobs("xy", lane="!p") + jobs("n"))
    async with queue.consumer() as one, queue.consumer() as other:
        assert ids(await one.claim()) == ["a"]
        assert set(ids(await other.claim(9))) == {"x", "n"}
        assert await other.claim(9) == []
        assert await one.claim(9) == [], "nor does it get more itself"


async def test_the_same_consumer_goes_on_once_it_has_settled(queue: rota.Queue) -> None:
    await queue.enqueue_many(jobs("abcde", lane="!o"))
    async with queue.consumer(prefetch=2) as consumer:
        a, b = await consumer.claim()
        await consumer.complete(a)
        assert await consumer.claim() == [], "b is still held"
        await consumer.complete(b)
        assert ids(await consumer.claim()) == ["c", "d"]


async def test_many_consumers_share_a_regular_partition(queue: rota.Queue) -> None:
    await queue.enqueue_many(jobs([f"j{n}" for n in range(30)]))
    async with queue.consumer() as a, queue.consumer() as b, queue.consumer() as c:
        taken = [job for one in (a, b, c) for job in await one.claim(10)]
        assert len(set(ids(taken))) == 30
        for one in (a, b, c):
            assert len(one.held) == 10
            await one.complete(one.held)


@pytest.mark.parametrize("end", ["complete", "release"])
async def test_a_partition_is_free_with_the_end_of_the_last_held_job(
    queue: rota.Queue, end: str
) -> None:
    await queue.enqueue_many(jobs("abc", lane="!o"))
    async with queue.consumer(prefetch=2) as one, queue.consumer(prefetch=3) as other:
        a, b = await one.claim()
        await one.complete(a)
        assert await other.claim() == []
        await getattr(one, end)(b)
        assert ids(await other.claim()) == (["c"] if end == "complete" else ["b", "c"])


async def test_a_reject_with_a_wait_blocks_the_ordered_partition_and_nothing_else(
    server: Server, queue: rota.Queue
) -> None:
    await queue.enqueue_many(jobs("abc", lane="!o") + jobs("xy", lane="!p") + jobs("n"))
    async with queue.consumer() as consumer:
        held = {job.id: job for job in await consumer.claim(3)}
        began = time.monotonic()
        await consumer.settle([(held["a"], rota.RateLimited(0.4))])
        await consumer.complete([held["x"], held["n"]])
        came: dict[str, float] = {}
        while len(came) < 2:
            taken = await consumer.claim(9, wait=IN_TIME)
            assert taken
            came |= dict.fromkeys(ids(taken), time.monotonic() - began)
        assert came.keys() == {"y", "a"}
        assert came["a"] >= 0.399
        assert came["y"] < came["a"] or came["y"] > 0.4, "it waited with the other"
        assert dump(server, queue).counts("attempts") == {}


async def test_a_reject_without_a_wait_blocks_nothing(queue: rota.Queue) -> None:
    await queue.enqueue_many(jobs("ab", lane="!o"))
    async with queue.consumer() as consumer:
        (a,) = await consumer.claim()
        await consumer.release(a)
        assert ids(await consumer.claim()) == ["a"]


async def test_rejects_keep_the_order_however_often(queue: rota.Queue) -> None:
    """Of a batch, in any order of rejecting; thirty times, within the same milliseconds."""
    names = [f"j{n}" for n in range(8)]
    await queue.enqueue_many(jobs(names, lane="!o"))
    async with queue.consumer(prefetch=5) as consumer:
        for n in range(30):
            taken = await consumer.claim()
            assert ids(taken) == names[:5]
            await consumer.release(taken if n % 3 else reversed(taken))
        await consumer.release(taken)


async def test_a_handlers_error_rejects_the_rest_of_the_batch_in_order(
    server: Server, queue: rota.Queue
) -> None:
    ran: list[str] = []

    @queue.task(backoff=rota.Backoff(base=0.2, jitter=0))
    async def work(name: str) -> None:
        ran.append(name)
        if name == "b" and ran.count("b") < 3:
            raise ValueError("not yet")

    await queue.enqueue_many(work.options(lane="!o").spec(name) for name in "abcde")
    began = time.monotonic()
    async with working(queue, prefetch=5):
        await until_done(server, queue, 5)
    assert ran == list("abbbcde")
    assert time.monotonic() - began >= 0.6, "each error's delay counts"
    assert_drained(server, queue, done=5)


async def test_a_handlers_error_may_name_its_delay(server: Server, queue: rota.Queue) -> None:
    ran: list[float] = []

    @queue.task
    async def work() -> None:
        ran.append(time.monotonic())
        if len(ran) == 1:
            raise rota.Retry(0.4)

    await work.options(lane="!o").enqueue()
    async with working(queue):
        await until_done(server, queue, 1)
    assert ran[1] - ran[0] >= 0.39


async def test_a_pool_stops_when_told(server: Server, queue: rota.Queue) -> None:
    """What runs is finished, nothing more is taken, what is left stays."""
    ran: Counter[str] = Counter()

    @queue.task(name="work")
    async def work() -> None:
        await asyncio.sleep(0.05)
        ran[rota.current_job().id] += 1

    await queue.enqueue_many(jobs([f"j{n}" for n in range(40)], payload=b"{}"))
    async with working(queue, slots=4) as worker:
        await eventually_async(lambda: len(ran) >= 4, "nothing runs")
        worker.stop()
    found = stats(server, queue)
    assert found.get("completed", 0) == len(ran) < 40
    assert found["waiting"] == 40 - len(ran)
    assert found.get("running", 0) == 0
    assert_sound(server, queue)


async def test_a_pool_replaces_a_consumer_that_died(server: Server, queue: rota.Queue) -> None:
    """Its lease is taken away: the worker goes on under another identity. (A process that died is
    replaced by `rota worker -p`: tests/process.)"""
    ran: Counter[str] = Counter()

    @queue.task(name="work")
    async def work() -> None:
        ran[rota.current_job().id] += 1

    async with working(queue):
        await eventually_async(lambda: dump(server, queue).get("consumers"), "it does not join")
        (first,) = dump(server, queue).get("consumers")
        await queue.evict(first)
        await queue.enqueue_many(jobs("abc", payload=b"{}"))
        await until_done(server, queue, 3)
        (second,) = dump(server, queue).get("consumers")
        assert second != first
    assert_drained(server, queue, done=3)


async def test_all_jobs_of_a_dead_consumer_return(server: Server, beating: rota.Queue) -> None:
    queue = beating
    await queue.enqueue_many(
        jobs([f"j{n}" for n in range(60)]) + jobs([f"o{n}" for n in range(9)], lane="!o")
    )
    dead = await Hand(queue, lease=0.3).join()
    taken = await dead.claim(61, prefetch=9)
    assert len(taken) == 69
    async with queue.consumer(lease=LEASE, prefetch=9) as consumer:
        again: list[str] = []
        while len(again) < 69:
            got = await consumer.claim(100, wait=IN_TIME)
            assert got, "some never return"
            again += ids(got)
        assert set(again) == set(taken)
        assert [id for id in again if id[0] == "o"] == [f"o{n}" for n in range(9)]


async def test_purge_of_a_partition_and_of_the_queue(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many(jobs("abc", lane="!o") + jobs("xyz", lane="p"))
    await queue.enqueue_many(jobs("d", lane="p", delay_ms=60_000) + jobs("n"))
    assert await queue.lane("!o").purge() == 3
    assert (await queue.lane("p").info()).waiting == 3
    assert_sound(server, queue)
    assert await queue.purge() == 5
    assert_drained(server, queue, done=0)
    async with queue.consumer() as consumer:
        assert await consumer.claim() == []


async def test_an_operator_returns_stuck_jobs(server: Server, queue: rota.Queue) -> None:
    """Of a consumer that holds them and does nothing: named, evicted, its jobs given back."""
    await queue.enqueue_many(jobs("abc", lane="!o") + jobs("x"))
    stuck = await Hand(queue, lease=3600).join()
    await stuck.claim(9, prefetch=9)
    (found,) = await queue.consumers()
    assert (found.id, found.held) == (stuck.id, 4)
    assert await queue.evict(found.id) == 4
    assert await queue.evict(found.id) is None
    assert await queue.consumers() == []
    async with queue.consumer(prefetch=9) as consumer:
        assert set(ids(await consumer.claim(9))) == {"a", "b", "c", "x"}
    await beat(queue)
    assert_sound(server, queue)


@pytest.mark.parametrize("lane", ["p", "!o"])
async def test_a_higher_priority_comes_first(queue: rota.Queue, lane: str) -> None:
    await queue.enqueue_many(
        jobs("a", lane=lane)
        + jobs("b", lane=lane, priority=-5)
        + jobs("c", lane=lane, priority=5)
        + jobs("d", lane=lane)
        + jobs("e", lane=lane, priority=5)
    )
    async with queue.consumer(prefetch=9) as consumer:
        assert ids(await consumer.claim(9)) == ["c", "e", "a", "d", "b"]
