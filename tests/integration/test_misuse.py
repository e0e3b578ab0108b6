"""What handlers, embedding programs and operators do that nobody expects of them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import rota
from tests.support.queues import open_queue
from tests.support.servers import Server
from tests.support.waiting import eventually_async


def plainly(function: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Awaitable[None]:
        return function(*args, **kwargs)

    return inner


async def test_an_async_handler_behind_a_plain_wrapper_is_run(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name) as queue:
        ran: list[int] = []

        @queue.task(max_attempts=1)
        @plainly
        async def work(n: int) -> None:
            await asyncio.sleep(0)
            ran.append(n)
            if n == 2:
                raise ValueError("no")

        await queue.enqueue_many(work.spec(n) for n in (1, 2))
        assert await rota.Worker(queue).run(burst=True) == rota.Drained(1, 0, 1, 0)
        assert sorted(ran) == [1, 2]


async def test_a_handler_that_cancels_itself_uses_its_attempts(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name) as queue:
        runs = 0

        @queue.task(max_attempts=2, backoff=rota.Backoff(base=0, jitter=0))
        async def work() -> None:
            nonlocal runs
            runs += 1
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await asyncio.sleep(0)

        await work.enqueue()
        assert await rota.Worker(queue).run(burst=True) == rota.Drained(0, 1, 1, 0)
        assert runs == 2


async def test_a_stop_counts_nothing_whatever_a_handler_makes_of_it(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name) as queue:
        started = asyncio.Event()

        @queue.task(max_attempts=1)
        async def work() -> None:
            started.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError as error:
                raise ConnectionError("cut") from error

        await work.enqueue()
        async with rota.Worker(queue, grace=0):
            await started.wait()
        info = await queue.info()
        assert (info.waiting, info.dead) == (1, 0)


async def test_no_handler_outlives_a_stop_that_is_cancelled(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name) as queue:
        started, ended = asyncio.Event(), asyncio.Event()

        @queue.task
        async def work() -> None:
            started.set()
            try:
                await asyncio.sleep(30)
            finally:
                ended.set()

        async def serve() -> None:
            async with asyncio.timeout(None) as limit, rota.Worker(queue, grace=25):
                await started.wait()
                limit.reschedule(asyncio.get_running_loop().time() + 0.2)

        await work.enqueue()
        with pytest.raises(TimeoutError):
            await serve()
        await eventually_async(ended.is_set, "the handler runs on")
        assert (await queue.info()).waiting == 1


def test_a_worker_runs_in_one_loop_after_another(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url)

    @queue.task
    async def work() -> None: ...

    worker = rota.Worker(queue)
    for _ in range(2):
        queue.sync.enqueue(work.spec())
        assert asyncio.run(worker.run(burst=True)) == rota.Drained(1, 0, 0, 0)
    queue.sync.close()


async def test_a_worker_runs_once_at_a_time(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue, rota.Worker(queue) as worker:
        with pytest.raises(RuntimeError, match="runs already"):
            await worker.run()


async def test_a_worker_that_cannot_start_says_so_at_once() -> None:
    queue = rota.Queue("nowhere", url="redis://127.0.0.1:1")
    with pytest.raises(rota.Unavailable, match="127.0.0.1:1"):
        async with rota.Worker(queue):
            pytest.fail("it was entered")
    await queue.close()


async def test_a_consumer_is_used_inside_its_block(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        consumer = queue.consumer()
        with pytest.raises(rota.ConfigError, match="with"):
            await consumer.claim()
        async with consumer:
            assert not await consumer.claim()
        with pytest.raises(rota.ConfigError, match="with"):
            await consumer.claim()
        assert (await queue.info()).consumers == 0


async def test_replaying_all_ends_while_workers_bury_again(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many(rota.JobSpec(task="nobody's") for _ in range(500))
        await rota.Worker(queue).run(burst=True)
        async with rota.Worker(queue, concurrency=500):
            assert await asyncio.wait_for(queue.dead.replay_all(), 20) <= 500
        assert await queue.dead.discard_all() + (await queue.info()).waiting == 500
