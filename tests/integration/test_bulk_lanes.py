"""Moving and reprioritising lanes through the queue, on both faces, while consumers work."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

import rota
from rota.script import stubs
from rota.store.bulk import MOVE_START
from tests.support.queues import assert_drained, assert_sound
from tests.support.servers import Server

KEYS = [None, None, "k", "l", "m"]


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    queue = rota.Queue(queue_name, url=server.url)
    yield queue
    await queue.close()


def some_specs(n: int, dice: random.Random, lane: str = "a") -> list[rota.JobSpec]:
    """Jobs with and without keys, of the priorities -1, 0 and 1, named by their order."""
    return [
        rota.JobSpec(
            task="t",
            lane=lane,
            id=f"{lane}{i:05}",
            ordering_key=dice.choice(KEYS),
            priority=dice.choice([-1, 0, 1]),
        )
        for i in range(n)
    ]


async def work(queue: rota.Queue, runs: list[rota.Job], dice: random.Random, n: int) -> None:
    """Claims and settles until `n` jobs are done by all; some are sent back first."""
    async with queue.consumer(prefetch=5) as consumer:
        while len(runs) < n:
            jobs = await consumer.claim(dice.randint(1, 8), wait=0.05)
            if jobs and dice.random() < 0.2:
                await consumer.release(jobs)
                continue
            runs += jobs
            await consumer.complete(jobs)


def lines_of(jobs: list[rota.Job]) -> dict[tuple[str | None, int], list[str]]:
    """Per key and priority, in the order they ran."""
    lines: dict[tuple[str | None, int], list[str]] = {}
    for job in jobs:
        lines.setdefault((job.ordering_key, job.priority), []).append(job.id)
    return lines


async def test_a_lane_moves_and_says_how_many(queue: rota.Queue, server: Server) -> None:
    await queue.enqueue_many(some_specs(450, random.Random(1)))
    await queue.enqueue_many([rota.JobSpec(task="t", lane="a", delay_ms=60_000)])
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        moved = await queue.lane("a").move("b")
        here, there = await queue.lane("a").info(), await queue.lane("b").info()
        assert moved == rota.Moved(moved=there.waiting + there.delayed, left=here.waiting)
        assert moved.moved + moved.left == 450
        assert (here.delayed, there.delayed) == (0, 1)
        await consumer.complete(job)
    assert await queue.lane("a").move("b") == rota.Moved(moved.left, 0)
    assert (await queue.info()).totals["moved"] == 450
    assert_sound(server, queue)


def test_the_blocking_face_does_the_same(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url)
    try:
        specs = some_specs(450, random.Random(2))
        queue.sync.enqueue_many(specs)
        lane = queue.sync.lane("a")
        changed = sum(1 for spec in specs if spec.priority != 1)
        assert lane.reprioritize(1) == changed
        assert lane.reprioritize(1) == 0
        assert lane.move("b") == rota.Moved(moved=450, left=0)
        with queue.sync.consumer(prefetch=100) as consumer:
            jobs = consumer.claim(1000)
            assert {(job.lane, job.priority) for job in jobs} == {("b", 1)}
            unordered = [job.id for job in jobs if job.ordering_key is None]
            assert unordered == [spec.id for spec in specs if spec.ordering_key is None]
            consumer.complete(jobs)
        assert_sound(server, queue)
    finally:
        queue.sync.close()


@pytest.mark.parametrize("name", ["a", "", "!o", 7, "x" * 201])
async def test_bad_lanes_are_refused_before_anything_moves(queue: rota.Queue, name: Any) -> None:
    await queue.enqueue_many(some_specs(3, random.Random(3)))
    with pytest.raises(rota.ConfigError):
        await queue.lane("a").move(name)
    assert (await queue.lane("a").info()).waiting == 3


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_while_lanes_move_and_consumers_work(
    queue: rota.Queue, server: Server, seed: int
) -> None:
    dice = random.Random(seed)
    n = 1500
    runs: list[rota.Job] = []
    specs = some_specs(n, dice)
    await queue.enqueue_many(specs)
    workers = [asyncio.create_task(work(queue, runs, random.Random(i), n)) for i in range(3)]
    for source, target in [("a", "b"), ("a", "b"), ("b", "c"), ("c", "a")]:
        await queue.lane(source).move(target)
    await asyncio.wait_for(asyncio.gather(*workers), 30)
    assert sorted(job.id for job in runs) == [spec.id for spec in specs]
    assert_drained(server, queue, done=n)


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_while_priorities_change(
    queue: rota.Queue, server: Server, seed: int
) -> None:
    dice = random.Random(seed)
    n = 1200
    runs: list[rota.Job] = []
    specs = some_specs(n, dice)
    await queue.enqueue_many(specs)
    workers = [asyncio.create_task(work(queue, runs, random.Random(i), n)) for i in range(2)]
    for priority in (0, -1, 5):
        await queue.lane("a").reprioritize(priority)
    await asyncio.wait_for(asyncio.gather(*workers), 30)
    assert sorted(job.id for job in runs) == [spec.id for spec in specs]
    assert_drained(server, queue, done=n)


@pytest.mark.parametrize("seed", range(4))
async def test_a_sequence_keeps_its_order_through_interleaved_pages(
    queue: rota.Queue, server: Server, seed: int
) -> None:
    """Pages of a move, claims and settlements in any order, new jobs between them."""
    dice = random.Random(seed)
    keys, link = queue.link.keys, queue.link
    specs = [
        rota.JobSpec(
            task="t",
            lane="a",
            id=f"j{i:05}",
            ordering_key=dice.choice(["k", "k", "l"]),
            priority=dice.choice([-1, 0, 1]),
        )
        for i in range(1300)
    ]
    await queue.enqueue_many(specs[:1200])
    late, cursor = specs[1200:], MOVE_START
    runs: list[rota.Job] = []
    held: list[rota.Job] = []
    async with queue.consumer(prefetch=20) as consumer:
        while cursor:
            step = dice.random()
            if step < 0.4:
                page = stubs.move(
                    keys, source="a", target="b", cursor=cursor, limit=dice.randint(1, 60)
                )
                cursor, _, _ = await link.run(iter(page))
            elif step < 0.5 and late:
                await queue.enqueue_many(late[:9])
                del late[:9]
            elif held:
                await consumer.complete(held)
                runs, held = runs + held, []
            else:
                held = await consumer.claim(dice.randint(1, 2))
        await queue.enqueue_many(late)
        await consumer.complete(held)
        runs += held
        await queue.lane("a").move("b")
        while jobs := await consumer.claim(2):
            await consumer.complete(jobs)
            runs += jobs
    assert sorted(job.id for job in runs) == [spec.id for spec in specs]
    assert {job.lane for job in runs} >= {"b"}
    early = [job for job in runs if job.id < "j01200"]
    for ids in lines_of(early).values():
        assert ids == sorted(ids)
    assert_drained(server, queue, done=len(specs))
