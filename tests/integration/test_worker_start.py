"""A worker that has not started yet can be given up, stopped, and asked to be quiet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import rota
from tests.support.queues import held_on_server, open_queue, spec
from tests.support.servers import Server
from tests.support.times import LEASE, PATIENCE
from tests.support.waiting import eventually_async


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


class Door:
    """Holds a queue's lifespan up until it is opened."""

    def __init__(self, queue: rota.Queue) -> None:
        self.reached, self.opened, self.left = asyncio.Event(), asyncio.Event(), asyncio.Event()
        queue.lifespan(self._pass)

    async def _pass(self) -> AsyncIterator[None]:
        self.reached.set()
        try:
            await self.opened.wait()
            yield
        finally:
            self.left.set()


async def test_a_start_that_is_given_up_leaves_nothing_running(
    server: Server, queue: rota.Queue
) -> None:
    ran = asyncio.Event()

    @queue.task
    async def work() -> None:
        ran.set()

    await work.enqueue()
    door, worker = Door(queue), rota.Worker(queue, lease=LEASE)
    start = asyncio.create_task(worker.__aenter__())
    await door.reached.wait()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert door.left.is_set()
    assert not ran.is_set()
    assert held_on_server(server, queue) == {}
    drained = None
    door.opened.set()
    async with asyncio.timeout(PATIENCE):
        drained = await worker.run(burst=True)  # it can start again
    assert drained.done == 1


async def test_quiet_before_it_runs_holds(queue: rota.Queue) -> None:
    @queue.task
    async def work() -> None: ...

    await work.enqueue()
    worker = rota.Worker(queue, lease=LEASE)
    worker.quiet()
    async with asyncio.timeout(PATIENCE):
        drained = await worker.run(burst=True)
    assert (drained.done, drained.left) == (0, 1)


async def test_quiet_while_it_starts_reaches_every_queue(
    server: Server, queue: rota.Queue, queue_name: str
) -> None:
    """Asked of the first queue's consumer, while the second queue's lifespan is being entered."""
    async with open_queue(server, f"{queue_name}-1", beat=1) as first:
        door, worker = Door(queue), rota.Worker([first, queue], lease=LEASE)
        run = asyncio.create_task(worker.run())
        await door.reached.wait()
        (consumer,) = await first.consumers()
        assert await first.quiet(consumer.id)
        await eventually_async(lambda: worker._quiet, "it has heard", PATIENCE)
        door.opened.set()
        await worker.started.wait()
        await eventually_async(
            lambda: all(fetcher.is_quiet for fetcher in worker.fetchers),
            "both queues are quiet",
            PATIENCE,
        )
        await queue.enqueue(spec())
        worker.stop()
        await run
        assert (await queue.info()).waiting == 1
