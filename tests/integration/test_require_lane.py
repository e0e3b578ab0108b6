"""A queue with `require_lane`: no job of it is in the default lane, whichever way it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import rota
from tests.support.queues import spec, specs
from tests.support.servers import Server

REFUSED = "this queue requires a lane other than 'default'"


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with rota.Queue(queue_name, url=server.url, require_lane=True) as queue:
        yield queue


async def test_a_spec_in_the_default_lane_is_refused(server: Server, queue: rota.Queue) -> None:
    bare, named = rota.JobSpec(task="work"), spec("default")
    for one in (bare, named):
        with pytest.raises(rota.ConfigError, match=f"task work: {REFUSED}"):
            await queue.enqueue(one)
        with pytest.raises(rota.ConfigError, match=REFUSED):
            queue.sync.enqueue(one)
        for batch in ([one], [*specs(3), one]):
            with pytest.raises(rota.ConfigError, match=REFUSED):
                await queue.enqueue_many(batch)
            with pytest.raises(rota.ConfigError, match=REFUSED):
                await queue.enqueue_many(batch, atomic=True)
            with pytest.raises(rota.ConfigError, match=REFUSED):
                queue.sync.enqueue_many(batch)
            with pytest.raises(rota.ConfigError, match=REFUSED):
                _ = [done async for done in queue.enqueue_stream(batch)]
            with pytest.raises(rota.ConfigError, match=REFUSED):
                list(queue.sync.enqueue_stream(batch))
    assert server.keys() == []


async def test_a_task_may_not_name_the_default_lane_either(
    server: Server, queue: rota.Queue
) -> None:
    @queue.task(lane_from="tenant")
    def charge(tenant: str) -> None: ...

    @queue.task
    def send() -> None: ...

    by_option = charge.options(lane="default")
    for make in (lambda: charge.spec("default"), lambda: by_option.spec("t7"), send.spec):
        with pytest.raises(rota.ConfigError, match=REFUSED):
            make()
    with pytest.raises(rota.ConfigError, match=f"task charge: {REFUSED}"):
        await charge.enqueue("default")
    with pytest.raises(rota.ConfigError, match=f"task send: {REFUSED}"):
        send.sync.enqueue()
    assert server.keys() == []


async def test_far_into_a_batch_it_interrupts(queue: rota.Queue) -> None:
    with pytest.raises(rota.BatchInterrupted, match=REFUSED) as caught:
        await queue.enqueue_many([*specs(1001), spec("default")])
    assert len(caught.value.outcomes) == 1000
    assert [lane.name for lane in await queue.lanes()] == ["a"]


async def test_other_lanes_are_taken(queue: rota.Queue) -> None:
    assert (await queue.enqueue(spec("t7"))).outcome == "created"
    assert queue.sync.enqueue_many(specs(2, "t8"))[1].outcome == "created"
    assert {lane.name for lane in await queue.lanes()} == {"t7", "t8"}
