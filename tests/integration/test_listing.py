"""Lists of jobs and sequences, skipping, retrying, quiet and stop: by both faces."""

from __future__ import annotations

import asyncio

import pytest

import rota
from tests.support.queues import assert_sound, open_queue, spec, specs
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, SHORT_BEAT
from tests.support.waiting import eventually_async


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_lists_go_page_by_page(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many([*specs(7), spec(ordering_key="k"), spec("!o"), spec("!o")])
        await queue.enqueue_many(specs(3, delay_ms=60_000))
        page = await queue.jobs("waiting", lane="a", limit=5)
        assert len(page.jobs) == 5
        rest = await queue.jobs("waiting", lane="a", limit=5, cursor=page.cursor)
        assert (len(rest.jobs), rest.cursor) == (3, None)
        assert (await asyncio.to_thread(queue.sync.jobs, "waiting", lane="a", limit=5)) == page
        assert {job.state for job in (await queue.jobs("delayed")).jobs} == {"delayed"}
        async with queue.consumer() as consumer:
            held = await consumer.claim(3)
            running = await queue.jobs("running")
            assert {job.id for job in running.jobs} == {job.id for job in held}
            assert all(job.worker for job in running.jobs)
            await consumer.bury(held, "no")
        assert {job.id for job in (await queue.jobs("dead")).jobs} == {job.id for job in held}
        found = await queue.sequences()
        assert {(one.lane, one.ordering_key) for one in found.sequences} <= {("a", "k"), ("!o", "")}
        assert queue.sync.sequences() == found
        assert await queue.lane("!o").sequence() == queue.sync.lane("!o").sequence()
        with pytest.raises(rota.ConfigError, match="ordering key"):
            await queue.lane("a").sequence()
        with pytest.raises(rota.ConfigError, match="ordering key"):
            await queue.lane("!o").skip("k")


async def test_skip_and_retry(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        first, second = spec("!o", on_dead="hold"), spec("!o")
        late = spec(delay_ms=60_000)
        await queue.enqueue_many([first, second, late])
        async with queue.consumer() as consumer:
            await consumer.bury(await consumer.claim(), "no")
            assert await consumer.claim(5) == []
            info = await queue.lane("!o").sequence()
            assert info is not None
            assert (info.state, info.head, info.head_dead) == ("blocked", first.id, True)
            assert await queue.lane("!o").skip(by="ops") == first.id
            assert await queue.lane("!o").skip() is None
            assert await queue.job(late.id).retry() == "ok"
            assert await queue.job(first.id).retry() == "ok"
            assert await queue.job("none").retry() == "none"
            taken = await consumer.claim(5)
            assert {job.id for job in taken} == {first.id, late.id}
            assert queue.sync.job(late.id).retry() == "running"
            await consumer.complete(taken)
            assert [job.id for job in await consumer.claim(5)] == [second.id]
            assert queue.sync.lane("!o").skip() is None
        assert_sound(server, queue)


async def test_a_worker_that_is_asked_to_be_quiet_and_then_to_stop(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name, beat=SHORT_BEAT) as queue:
        ran: list[int] = []
        gate = asyncio.Event()

        @queue.task
        async def work(n: int) -> None:
            if n == 1:
                await gate.wait()
            ran.append(n)

        worker = rota.Worker(queue, lease=LEASE, concurrency=4)
        running = asyncio.create_task(worker.run())
        await work.enqueue(1)
        await eventually_async(lambda: worker.running == 1, "the job never ran")
        (consumer,) = await queue.consumers()
        assert await queue.quiet(consumer.id)
        assert not queue.sync.quiet("nobody")
        assert (await queue.consumers())[0].asked == "quiet"

        (fetcher,) = worker.fetchers
        await eventually_async(lambda: fetcher.is_quiet, "it never heard of it")
        await work.enqueue(2)
        gate.set()
        await eventually_async(lambda: 1 in ran, "what it held did not go on")
        await eventually_async(lambda: worker.running == 0, "it is still busy")
        left = await queue.info()
        assert (left.waiting, ran) == (1, [1])
        assert not running.done()
        assert await queue.stop(consumer.id)
        await asyncio.wait_for(running, IN_TIME)
        assert await queue.consumers() == []
        assert (await queue.info()).waiting == left.waiting
        assert (await rota.Worker(queue).run(burst=True)).done == left.waiting
        assert_sound(server, queue)


async def test_a_consumer_is_told_what_was_asked(server: Server, queue_name: str) -> None:
    async with (
        open_queue(server, queue_name, beat=SHORT_BEAT) as queue,
        queue.consumer(lease=LEASE) as consumer,
    ):
        assert consumer.asked is None
        assert await queue.stop(consumer.id)
        await eventually_async(lambda: consumer.asked == "stop", "it was never told")


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_queues_are_found_on_every_node(server: Server, queue_name: str) -> None:
    names = {f"{queue_name}-{n}" for n in range(12)} | {"[red] ☃:x"}
    for name in names:
        async with open_queue(server, name) as other:
            await other.enqueue(spec())
    async with open_queue(server, queue_name) as queue:
        found = await queue.server_queues()
        assert [one.name for one in found] == sorted(names)
        assert {one.prefix for one in found} == {queue.prefix}
        assert [one.info.waiting for one in found] == [1] * len(names)
