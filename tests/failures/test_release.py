"""Jobs whose handlers release them over and over: they stay away by themselves, and say so once."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

import rota
from rota.observe.observer import JobCounts
from rota.worker import Worker
from tests.failures.tools import Timed, jobs, working
from tests.support.queues import assert_sound, dump
from tests.support.servers import Server
from tests.support.times import LEASE
from tests.support.waiting import eventually_async


async def burst(queue: rota.Queue) -> rota.Drained:
    """A worker of its own."""
    return await Worker(queue, lease=LEASE, concurrency=4).run(burst=True)


@pytest.mark.parametrize("kind", ["async", "plain", "group"])
@pytest.mark.parametrize("lane", ["a", "!o"])
async def test_a_job_that_always_releases_starves_nobody(
    server: Server, timed: Timed, lane: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever worker it comes to."""
    queue, clock = timed.queue, timed.clock
    caplog.set_level(logging.WARNING)
    ran: Counter[str] = Counter()

    async def on_loop() -> None:
        ran[rota.current_job().id] += 1
        if rota.current_job().id == "hot":
            raise rota.Release

    def in_thread() -> None:
        ran[rota.current_job().id] += 1
        if rota.current_job().id == "hot":
            raise rota.Release

    async def in_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(on_loop())

    handlers: dict[str, Any] = {"async": on_loop, "plain": in_thread, "group": in_group}
    queue.task(name="work")(handlers[kind])
    await queue.enqueue_many(jobs(["hot", *"bcd"], lane))
    sequence = lane == "!o"
    waiting = 4 if sequence else 1
    assert (await burst(queue)).left == waiting
    assert ran == ({"hot": 3} if sequence else {"hot": 3, "b": 1, "c": 1, "d": 1})
    for n, pause in enumerate((1000, 2000, 4000, 8000), 4):
        clock.advance(pause - 1)
        await burst(queue)
        assert ran["hot"] == n - 1
        clock.advance(1)
        assert await burst(queue) == rota.Drained(done=0, retried=0, dead=0, left=waiting)
        assert ran["hot"] == n
    said = [one for one in caplog.records if "third time in a row" in one.getMessage()]
    assert len(said) == 1
    assert (vars(said[0])["job"], vars(said[0])["outcome"]) == ("hot", "slowed")
    assert_sound(server, queue)


async def test_a_delay_that_a_handler_names_is_kept(server: Server, timed: Timed) -> None:
    queue, clock = timed.queue, timed.clock
    ran: list[int] = []

    @queue.task
    async def work() -> None:
        ran.append(clock.now)
        raise rota.Release(0.002)

    await queue.enqueue_many(jobs("a"))
    for n in range(1, 8):
        await burst(queue)
        assert len(ran) == n
        clock.advance(2)
    assert not dump(server, queue).get("releases")


async def test_what_a_stopping_worker_gives_back_does_not_count(
    server: Server, queue: rota.Queue
) -> None:
    ran = 0

    @queue.task
    async def work() -> None:
        nonlocal ran
        ran += 1
        await asyncio.sleep(60)

    await queue.enqueue_many(jobs("a"))
    for n in range(1, 5):
        async with working(queue, grace=0):
            await eventually_async(lambda: ran == n, "it does not come back at once")
    assert not dump(server, queue).get("releases")
    assert_sound(server, queue)


@pytest.mark.parametrize("how", ["release", "settle"])
async def test_consumers_by_hand_release_as_often_as_they_like(
    server: Server, queue: rota.Queue, how: str
) -> None:
    await queue.enqueue_many(jobs("a"))
    async with queue.consumer() as consumer:
        for _ in range(6):
            (job,) = await consumer.claim()
            if how == "release":
                assert await consumer.release(job) == ["ok"]
            else:
                assert await consumer.settle([(job, rota.Release())]) == ["ok"]
    assert not dump(server, queue).get("releases")


async def test_they_count_as_released(server: Server, timed: Timed) -> None:
    queue = timed.queue

    @queue.task
    async def work() -> None:
        raise rota.Release

    await queue.enqueue_many(jobs("a"))
    worker, counts = Worker(queue, lease=LEASE), JobCounts()
    worker.observe(queue, counts)
    await worker.run(burst=True)
    assert counts.jobs == {("work", "released"): 3}
    assert dump(server, queue).counts("stats")["released"] == 3
