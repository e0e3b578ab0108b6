"""Calls a type checker must let pass. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import assert_type

import rota

queue = rota.Queue("orders")


@queue.task
async def bare(tenant: str) -> int:
    return len(tenant)


@queue.task(
    max_attempts=5,
    timeout=timedelta(minutes=5),
    backoff=rota.Backoff(base=1, factor=2, max=3600, jitter=0.2),
    on_dead="skip",
    lane_from="tenant",
)
async def charge(tenant: str, order_id: int, cents: int = 0) -> None: ...


@queue.task(backoff=lambda attempt: timedelta(seconds=attempt))
def plain(*names: str, **flags: bool) -> str:
    return ""


@queue.lifespan
async def resources() -> AsyncIterator[str]:
    yield "ready"


async def enqueue() -> None:
    assert_type(await charge.enqueue("t7", 42, 1999), rota.Enqueued)
    assert_type(await charge.enqueue("t7", order_id=42), rota.Enqueued)
    options = charge.options(
        lane="t7", ordering_key="order-42", priority=5, delay=60, id="charge-42", expires=3600
    )
    assert_type(await options.enqueue("t7", 42, 1999), rota.Enqueued)
    await charge.options(at=datetime.now(UTC), expires=datetime.now(UTC)).enqueue("t7", 42)
    await charge.options(delay=timedelta(seconds=3), expires=timedelta(1)).enqueue("t7", 42)
    assert_type(charge.spec("t7", 1), rota.JobSpec)
    assert_type(
        await queue.enqueue_many(charge.spec("t7", i) for i in range(3)), list[rota.Enqueued]
    )
    await queue.enqueue_many([charge.spec("t7", 1)], on_full="wait", wait=3, atomic=True)
    async for done in queue.enqueue_stream(iter([charge.spec("t7", 1)])):
        assert_type(done, rota.Enqueued)
    await plain.enqueue("a", "b", urgent=True)
    await bare.enqueue("t7")


def blocking() -> None:
    with queue.sync as face:
        assert_type(face.enqueue(charge.spec("t7", 42)), rota.Enqueued)
    assert_type(charge.sync.enqueue("t7", 42), rota.Enqueued)
    assert_type(charge.options(priority=1).sync.enqueue("t7", 42), rota.Enqueued)
    assert_type(queue.sync.enqueue_many([charge.spec("t7", 1)]), list[rota.Enqueued])
    queue.sync.lane("t7").set(ceiling=3, weight=None)
    with queue.sync.consumer(prefetch=3) as consumer:
        jobs = consumer.claim(10, wait=5)
        assert_type(jobs, list[rota.Job])
        consumer.settle([(jobs[0], None), (jobs[1], rota.Retry(3)), (jobs[2], rota.Bury("x"))])


def verbs_that_block() -> None:
    face, lane, job = queue.sync, queue.sync.lane("t7"), queue.sync.job("j")
    assert_type(face.info(), rota.QueueInfo)
    assert_type(face.lanes(10, by="waiting"), list[rota.LaneInfo])
    assert_type(face.doctor(repair=True), rota.Report)
    assert_type(face.templates(), dict[str, rota.Template])
    assert_type(face.evict("c"), int | None)
    assert_type(face.lanes_page("cursor"), rota.LanesPage)
    assert_type(face.exists(), bool)
    assert_type(queue.apart(timeout=2).census(3), rota.Census)
    assert_type(lane.explain(shell=("orders", "--url", "redis://host")), rota.Explanation)
    face.set(default_ceiling=5, dead_age=timedelta(days=3))
    assert_type(lane.resume(), bool)
    assert_type(lane.move("t8"), rota.Moved)
    assert_type(lane.skip("order-42", by="ops"), str | None)
    assert_type(job.info(), rota.JobInfo | None)
    assert_type(face.dead.list(lane="t7"), list[rota.JobInfo])
    assert_type(face.dead.replay_all(task="charge"), int)
    for dead in face.dead.iterate():
        assert_type(dead, rota.JobInfo)
    for done in face.enqueue_stream(iter([charge.spec("t7", 1)])):
        assert_type(done, rota.Enqueued)


async def call() -> None:
    await charge("t7", 42)
    assert_type(await bare("t7"), int)
    assert_type(plain("a"), str)
    assert_type(charge.__name__, str)
    assert_type(charge.__qualname__, str)
    async with rota.Queue("orders") as used:
        assert_type(used, rota.Queue)


async def lanes() -> None:
    lane = queue.lane("t7")
    await lane.set(ceiling=3, weight=2.5, backlog=10_000)
    await lane.set(ceiling=None)
    await lane.pause(reason="abuse", by="ops", until=datetime.now(UTC))
    assert_type(await lane.resume(), bool)
    await lane.block(timedelta(seconds=30))
    assert_type(await lane.info(), rota.LaneInfo)
    await queue.set(default_ceiling=5)
    await queue.set_lanes({"t7": {"ceiling": 3}})
    assert_type(await queue.job("j").info(), rota.JobInfo | None)


async def verbs_that_are_awaited() -> None:
    lane, job = queue.lane("t7"), queue.job("j")
    assert_type(await queue.info(), rota.QueueInfo)
    assert_type(await queue.lanes(10, by="waiting"), list[rota.LaneInfo])
    assert_type(await queue.doctor(repair=True), rota.Report)
    assert_type(await queue.templates(), dict[str, rota.Template])
    assert_type(await queue.evict("c"), int | None)
    assert_type((await queue.lanes_page()).cursor, str | None)
    assert_type(await queue.lanes_named({"t7"}), list[rota.LaneInfo])
    assert_type(await queue.exists(), bool)
    assert_type(await queue.advice(), list[rota.Advice])
    assert_type(await queue.server_queues(), list[rota.FoundQueue])
    await queue.doctor(progress=lambda check, number, of: print(check, number, of))
    assert_type(await queue.jobs("waiting", lane="t7"), rota.JobsPage)
    assert_type(await lane.move("t8"), rota.Moved)
    assert_type(await lane.explain(), rota.Explanation)
    assert_type(await lane.skip("order-42", by="ops"), str | None)
    assert_type(await job.explain(), rota.Explanation | None)
    assert_type(await queue.dead.list(lane="t7"), list[rota.JobInfo])
    assert_type(await queue.dead.discard_all(), int)
    async for dead in queue.dead.iterate(task="charge"):
        assert_type(dead, rota.JobInfo)


async def by_hand() -> None:
    async with queue.consumer(lease=30, prefetch=1) as consumer:
        jobs = await consumer.claim(10, wait=5)
        assert_type(jobs, list[rota.Job])
        await consumer.complete(jobs)
        await consumer.retry(jobs[0], delay=3, error="why")
        await consumer.settle([(jobs[0], rota.Release()), (jobs[1], rota.RateLimited(30))])
        assert_type(await consumer.exchange(jobs, 10, wait=5), list[rota.Job])
