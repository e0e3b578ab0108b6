"""Why something waits, asked of both faces while real consumers and workers hold it up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import rota
from rota.values.model import process_name
from rota.worker import Worker
from tests.support.queues import ids, open_queue, spec, specs
from tests.support.servers import Server
from tests.support.times import LEASE
from tests.support.waiting import eventually_async


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


async def job(queue: rota.Queue, id: str) -> rota.Explanation:
    """As both faces tell it: they agree, time apart."""
    found = await queue.job(id).explain()
    other = await asyncio.to_thread(queue.sync.job(id).explain)
    assert found is not None
    assert other is not None
    assert shape(found) == shape(other)
    return found


async def lane(queue: rota.Queue, name: str) -> rota.Explanation:
    found = await queue.lane(name).explain()
    assert shape(found) == shape(await asyncio.to_thread(queue.sync.lane(name).explain))
    return found


def shape(found: rota.Explanation) -> object:
    kinds = [reason.kind for reason in found.reasons]
    return found.kind, found.subject, found.lane, found.state, kinds, found.expected_turn


async def test_a_lane_at_its_ceiling_names_the_workers_that_hold_its_permits(
    queue: rota.Queue,
) -> None:
    gate, started = asyncio.Event(), list[str]()

    @queue.task
    async def work() -> None:
        started.append(rota.current_job().id)
        await gate.wait()

    await queue.lane("a").set(ceiling=2)
    await queue.enqueue_many(specs(5))
    worker = Worker(queue, concurrency=10, lease=LEASE)
    run = asyncio.create_task(worker.run())
    try:
        await eventually_async(lambda: len(started) == 2, "the worker starts two jobs")
        waiting = (await queue.enqueue(spec())).id
        answer = await job(queue, waiting)
        (reason,) = answer.reasons
        assert (answer.state, reason.kind) == ("waiting", "at_ceiling")
        assert {one["job"] for one in reason.detail["holders"]} == set(started)
        assert {one["task"] for one in reason.detail["holders"]} == {"work"}
        assert {one["name"] for one in reason.detail["holders"]} == {process_name()}
        assert (answer.waiting, answer.running) == (4, 2)
        held = await lane(queue, "a")
        assert (held.state, held.reasons[0].kind) == ("at ceiling", "at_ceiling")
        assert held.oldest_wait is not None
        running = await job(queue, started[0])
        assert running.state == "running"
        assert process_name() in running.reasons[0].text
        assert 0 < running.reasons[0].detail["lease_left"] <= LEASE
        assert running.reasons[0].detail["since"] is None
    finally:
        gate.set()
        worker.stop()
        await run


async def test_behind_the_head_of_a_sequence_in_all_its_states(queue: rota.Queue) -> None:
    head, behind = spec(ordering_key="k", on_dead="hold"), spec(ordering_key="k")
    await queue.enqueue_many([head, behind])
    async with queue.consumer(lease=LEASE) as consumer:
        (taken,) = await consumer.claim(1)
        assert taken.id == head.id
        reason = (await job(queue, behind.id)).reasons[0]
        assert (reason.kind, reason.detail["state"]) == ("sequence", "running")
        assert reason.detail["name"] == process_name()
        await consumer.retry(taken, delay=60, error="no luck")
        reason = (await job(queue, behind.id)).reasons[0]
        assert (reason.detail["job"], reason.detail["state"]) == (head.id, "waiting for its retry")
        assert reason.until is not None
        assert await queue.job(head.id).retry() == "ok"
        (taken,) = await consumer.claim(1)
        assert taken.id == head.id
        await consumer.bury(taken, "it broke")
        reason = (await job(queue, behind.id)).reasons[0]
        assert (reason.detail["job"], reason.detail["state"]) == (head.id, "dead")
        dead = (await job(queue, head.id)).reasons[0]
        assert "it broke" in dead.text
        assert dead.detail["holds_sequence"] is True
        await queue.dead.discard(head.id)
        assert shape(await job(queue, behind.id))[4:] == (["turn"], 1)  # type: ignore[index]


async def test_no_worker_then_its_turn_then_nothing(queue: rota.Queue) -> None:
    jobs = [*specs(2), *specs(2, "b")]
    await queue.enqueue_many(jobs)
    answer = await job(queue, jobs[3].id)
    assert [reason.kind for reason in answer.reasons] == ["no_worker", "turn"]
    assert (answer.expected_turn, answer.exact) == (4, True)
    async with queue.consumer(lease=LEASE) as consumer:
        assert [reason.kind for reason in (await lane(queue, "b")).reasons] == ["turn"]
        taken = await consumer.claim(4)
        assert ids(taken)[3] == jobs[3].id
        await consumer.complete(taken)
        assert await queue.job(jobs[3].id).explain() is None
        assert await asyncio.to_thread(queue.sync.job(jobs[3].id).explain) is None
        assert shape(await lane(queue, "b"))[3:] == ("idle", ["idle"], None)  # type: ignore[index]
