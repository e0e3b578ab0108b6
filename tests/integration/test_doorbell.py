"""The doorbell on real servers: lost bells, full lists, the cost of waiting, coming and going."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack
from statistics import median
from typing import Any

import pytest

import rota
from rota.values import config
from tests.support.queues import assert_drained, calls, commands_sent, dump, open_queue, spec, specs
from tests.support.servers import Server
from tests.support.times import AT_ONCE, FAR_BEAT, IN_TIME, LEASE, SHORT_BEAT, TRIES
from tests.support.waiting import eventually, eventually_async


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


def blocked(server: Server) -> int:
    """How many connections are blocked on a list."""
    total = 0
    for node in server.nodes:
        with node.client() as client:
            total += client.info("clients")["blocked_clients"]
    return total


async def until_blocked(server: Server, n: int = 1) -> None:
    await eventually_async(lambda: blocked(server) == n, f"not {n} parked")


# ── lost bells (C21) ────────────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_bell_that_was_lost_costs_at_most_a_beat(server: Server, queue_name: str) -> None:
    """Three times: the wake list emptied in the moment after the bell was rung."""
    async with (
        open_queue(server, queue_name, beat=SHORT_BEAT) as queue,
        queue.consumer(lease=LEASE) as consumer,
    ):
        raw, keys = server.raw(), queue.link.keys
        beats = lambda: queue.consuming.bell().wakeups.get("beat", 0)  # noqa: E731
        for _ in range(3):
            waiting = asyncio.create_task(consumer.claim(1, wait=IN_TIME))
            await until_blocked(server)
            job = spec()
            await queue.lane("a").pause()
            await queue.enqueue(job)
            # As a resume whose bell is lost: into the ring, no wake.
            raw.srem(keys.key("paused"), "a")
            raw.hdel(keys.key("why"), "p:a")
            raw.zadd(keys.key("ring"), {"a": 1})
            raw.delete(keys.wake)
            before = beats()
            (got,) = await waiting
            assert got.id == job.id
            assert beats() <= before + 1
            await consumer.complete(got)


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_killed_blockers_look_first_and_park_again(server: Server, queue: rota.Queue) -> None:
    raw, keys = server.raw(), queue.link.keys
    async with queue.consumer(lease=LEASE) as consumer:
        waiting = asyncio.create_task(consumer.claim(1, wait=FAR_BEAT))
        for _ in range(3):
            await until_blocked(server)
            for node in server.nodes:
                with node.client() as client:
                    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await eventually_async(lambda: not waiting.done(), "")
            await asyncio.sleep(0.02)
        await until_blocked(server)
        job = spec()
        await queue.enqueue(job)
        (got,) = await asyncio.wait_for(waiting, IN_TIME)
        assert got.id == job.id
        assert raw.lrange(keys.wake, 0, -1) in ([], ["1"])


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_work_from_before_a_crash_of_the_server_needs_no_bell(
    server: Server, queue: rota.Queue
) -> None:
    """As restored from a dump taken between "stored" and "rung": work, no token, and a new
    consumer."""
    await queue.enqueue_many(specs(3))
    server.raw().delete(queue.link.keys.wake)
    async with queue.consumer(lease=LEASE) as consumer:
        assert len(await consumer.claim(3, wait=IN_TIME)) == 3


# ── the list (C36) ──────────────────────────────────────────────────────────────────────────────


async def test_bells_nobody_answers_do_not_pile_up(server: Server, queue: rota.Queue) -> None:
    """200,000 tasks scaled to 4,000 in 200 calls; then ten consumers start at once."""
    wake, raw = queue.link.keys.wake, server.raw()

    async def publish(n: int) -> None:
        for _ in range(n):
            await queue.enqueue_many(specs(20, "a") + specs(1, "b") + specs(1, "c"))
            assert raw.llen(wake) <= 64

    await publish(60)
    async with queue.consumer(lease=LEASE) as poller:
        for _ in range(30):
            await publish(1)
            await poller.complete(await poller.claim(1))
    await queue.set_lanes({lane: {"ceiling": 0} for lane in "ab"})
    await queue.lane("c").pause()
    await publish(60)
    await queue.set_lanes({lane: {"ceiling": None} for lane in "ab"})
    await queue.lane("c").resume()
    assert raw.llen(wake) <= 64

    async def work() -> None:
        async with queue.consumer(lease=LEASE) as consumer:
            jobs = await consumer.claim(50, wait=IN_TIME)
            assert jobs
            while jobs:
                jobs = await consumer.exchange(done=jobs, n=50, wait=0.3)

    waiting = dump(server, queue).counts("stats")["waiting"]
    before = calls(server, "evalsha")
    await asyncio.gather(*(work() for _ in range(10)))
    assert dump(server, queue).counts("stats")["waiting"] == 0
    claims = calls(server, "evalsha") - before
    assert claims <= waiting / 50 + 10 * 2 + 10 * 10 + 20  # served, joining, empty, settling


# ── the cost of waiting (C39) ───────────────────────────────────────────────────────────────────


async def idle_cost(server: Server, seconds: float) -> float:
    """Commands per second of whatever is waiting now."""
    before, began = commands_sent(server), time.monotonic()
    await asyncio.sleep(seconds)
    return (commands_sent(server) - before) / (time.monotonic() - began)


async def test_two_hundred_idle_consumers_cost_two_commands_a_second(
    server: Server, queue_name: str
) -> None:
    """Empty; with a job delayed by an hour; with all lanes paused. The default beat and lease."""
    async with (
        open_queue(server, queue_name, beat=config.BEAT_S) as queue,
        AsyncExitStack() as stack,
    ):
        consumers = [await stack.enter_async_context(queue.consumer()) for _ in range(200)]
        waiting = [asyncio.create_task(one.claim(1, wait=60)) for one in consumers]
        idle = queue.consuming.bell().rules._idle
        await eventually_async(lambda: len(idle) == 200, "not all wait")
        await until_blocked(server)
        await asyncio.sleep(0.2)
        cpu = time.process_time()
        assert await idle_cost(server, 2.0) <= 2
        await queue.enqueue(spec("delayed", delay_ms=3_600_000))
        await asyncio.sleep(0.2)
        assert await idle_cost(server, 2.0) <= 2
        await queue.lane("p").pause()
        await queue.enqueue_many(specs(10, "p"))
        await asyncio.sleep(0.2)
        assert await idle_cost(server, 2.0) <= 2
        assert time.process_time() - cpu < 0.2

        before, began = calls(server, "evalsha"), time.monotonic()
        await queue.enqueue(spec("one"))
        await eventually_async(lambda: any(w.done() for w in waiting), "nobody took the job")
        await asyncio.sleep(0.2)
        unrelated = 2 * (time.monotonic() - began)
        # Enqueued, taken, looked in vain.
        assert calls(server, "evalsha") - before <= 1 + 1 + 3 + unrelated
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def test_two_hundred_idle_threads_cost_two_commands_a_second(
    valkey: Server, queue_name: str
) -> None:
    queue = rota.Queue(queue_name, url=valkey.url)
    got: list[rota.Job] = []
    stop = time.monotonic() + 60

    with ExitStack() as stack:
        consumers = [stack.enter_context(queue.sync.consumer()) for _ in range(200)]

        def wait(consumer: Any) -> None:
            got.extend(consumer.claim(1, wait=stop - time.monotonic()))

        threads = [threading.Thread(target=wait, args=(one,)) for one in consumers]
        for thread in threads:
            thread.start()
        idle = queue.consuming.thread_bell.rules._idle
        eventually(lambda: len(idle) == 200, "not all wait")
        eventually(lambda: blocked(valkey) == 1, "nobody parks")
        time.sleep(0.5)
        before, began = commands_sent(valkey), time.monotonic()
        time.sleep(2.0)
        assert commands_sent(valkey) - before <= 2 * (time.monotonic() - began)
        queue.sync.enqueue(spec())
        eventually(lambda: got, "nobody took the job")
        queue.sync.enqueue_many(specs(199))
        for thread in threads:
            thread.join(IN_TIME)
        assert len({job.id for job in got}) == 200
    queue.sync.close()


async def test_jobs_due_in_small_steps_cost_a_look_each(server: Server, queue_name: str) -> None:
    """No polling towards a due time, no spin just before it."""
    async with open_queue(server, queue_name) as queue, queue.consumer() as consumer:
        for _ in range(TRIES):
            await queue.enqueue_many(spec(delay_ms=200 + 20 * n) for n in range(20))
            late = []
            before = commands_sent(server)
            for n in range(20):
                (job,) = await consumer.claim(1, wait=IN_TIME)
                late.append(time.time() - job.enqueued_at - (0.2 + 0.02 * n))
                await consumer.complete(job)
            sent = commands_sent(server) - before
            assert min(late) > -0.002
            assert sent <= 20 * 8  # looks, parks, and the time handed over while nobody waits
            if median(late) < AT_ONCE:
                break
        else:
            pytest.fail("what is due is late")


# ── chains and herds ────────────────────────────────────────────────────────────────────────────


async def test_work_for_many_wakes_many_in_every_process(server: Server, queue_name: str) -> None:
    """Five processes' worth of consumers, one bell for a batch: the wake spreads."""
    async with AsyncExitStack() as stack:
        queues = [
            await stack.enter_async_context(open_queue(server, queue_name, beat=FAR_BEAT))
            for _ in range(5)
        ]
        consumers = [
            await stack.enter_async_context(queue.consumer()) for queue in queues for _ in range(4)
        ]
        waiting = [asyncio.create_task(one.claim(1, wait=IN_TIME)) for one in consumers]
        await until_blocked(server, 5)
        await queues[0].enqueue_many(specs(20))
        got = [job for jobs in await asyncio.gather(*waiting) for job in jobs]
        assert len({job.id for job in got}) == 20


# ── coming and going ────────────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_consumers_come_while_the_last_one_goes(server: Server, queue_name: str) -> None:
    """The blocker that ends and the one that begins do not get in each other's way."""
    queue = rota.Queue(queue_name, url=server.url, beat=FAR_BEAT)
    for round in range(15):
        first = queue.consumer(lease=LEASE)
        await first.__aenter__()
        waiting = asyncio.create_task(first.claim(1, wait=IN_TIME))
        if round % 3:
            await until_blocked(server)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        second = queue.consumer(lease=LEASE)
        began = time.monotonic()
        await asyncio.gather(first.__aexit__(None, None, None), second.__aenter__())
        assert time.monotonic() - began < IN_TIME, "leaving hangs"
        waiting = asyncio.create_task(second.claim(1, wait=IN_TIME))
        await asyncio.sleep(0.01)
        await queue.enqueue(spec())
        (job,) = await waiting
        await second.complete(job)
        await second.__aexit__(None, None, None)
    assert_drained(server, queue, done=15)
    await queue.close()


@pytest.mark.legs("valkey", "cluster", "redis7")
def test_threads_come_while_the_last_one_goes(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url, beat=FAR_BEAT)
    for round in range(10):
        first, second = queue.sync.consumer(lease=LEASE), queue.sync.consumer(lease=LEASE)
        first.__enter__()
        first.claim(1, wait=0.02)
        leaving = threading.Thread(target=first.__exit__, args=(None, None, None))
        began = time.monotonic()
        leaving.start()
        if round % 2:
            time.sleep(0.005)
        second.__enter__()
        leaving.join(IN_TIME)
        assert time.monotonic() - began < IN_TIME, "leaving hangs"
        got: list[rota.Job] = []
        waiting = threading.Thread(target=lambda: got.extend(second.claim(1, wait=IN_TIME)))
        waiting.start()
        time.sleep(0.01)
        queue.sync.enqueue(spec())
        waiting.join(2 * IN_TIME)
        assert len(got) == 1, "the wake went to the one that left"
        second.complete(got)
        second.__exit__(None, None, None)
    queue.sync.close()


@pytest.mark.parametrize("face", ["async", "threads"])
async def test_a_bell_that_rings_for_one_who_leaves_is_passed_on(
    server: Server, queue_name: str, face: str
) -> None:
    """Forty times: a job arrives while one of two processes leaves. The other gets it at once,
    without a beat."""
    leaving = rota.Queue(queue_name, url=server.url, beat=FAR_BEAT)
    async with (
        open_queue(server, queue_name, beat=FAR_BEAT) as staying,
        staying.consumer() as consumer,
    ):
        for round in range(40):
            waiting = asyncio.create_task(consumer.claim(1, wait=IN_TIME))
            go = await _idle_once(leaving, face, server)
            await asyncio.sleep(round % 8 * 0.0005)
            publish = asyncio.create_task(staying.enqueue(spec()))
            await go()
            await publish
            (job,) = await waiting
            await consumer.complete(job)
    await leaving.close()


async def _idle_once(queue: rota.Queue, face: str, server: Server) -> Callable[[], Any]:
    """A second process parks first on the bell; what is returned makes it leave."""
    if face == "async":
        consumer = queue.consumer()
        await consumer.__aenter__()
        claim = asyncio.create_task(consumer.claim(1, wait=IN_TIME))
        await until_blocked(server, 2)

        async def go() -> None:
            claim.cancel()
            (jobs,) = await asyncio.gather(claim, return_exceptions=True)
            if isinstance(jobs, list):
                await consumer.release(jobs)
            await consumer.__aexit__(None, None, None)

        return go
    threaded = queue.sync.consumer()
    await asyncio.to_thread(threaded.__enter__)
    parked = threading.Event()

    def park() -> None:
        while not parked.is_set():
            threaded.claim(1, wait=0.05)

    waiting = asyncio.create_task(asyncio.to_thread(park))
    try:
        await until_blocked(server, 2)
    finally:
        parked.set()

    async def go_thread() -> None:
        await waiting
        await asyncio.to_thread(threaded.__exit__, None, None, None)

    return go_thread


async def test_leaving_does_not_hang_while_the_server_is_away(
    private_server: Any, queue_name: str
) -> None:
    server = private_server()
    queue = rota.Queue(queue_name, url=server.url, beat=FAR_BEAT)
    bell = queue.consuming.bell()
    async with queue.consumer(lease=LEASE) as consumer:
        waiting = asyncio.create_task(consumer.claim(1, wait=FAR_BEAT))
        await until_blocked(server)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(0.3)  # the blocker has failed and pauses before it tries again
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        bell.gone(consumer)
        began = time.monotonic()
        await bell.leave()
        assert time.monotonic() - began < IN_TIME
        bell.enter()
        await asyncio.to_thread(server.restart)
    await queue.close()
