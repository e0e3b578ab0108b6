"""One queue object, many event loops, one after the other and side by side (C64)."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import rota
from rota.worker import Worker
from tests.support.queues import assert_drained, assert_sound, ids, spec, specs
from tests.support.servers import Server
from tests.support.times import FAR_BEAT, IN_TIME, LEASE, PATIENCE
from tests.support.waiting import eventually

Loops = list["weakref.ref[asyncio.AbstractEventLoop]"]


@pytest.fixture
def queue(server: Server, queue_name: str) -> rota.Queue:
    """Never closed: its connections have to end with their loops."""
    return rota.Queue(queue_name, url=server.url, beat=FAR_BEAT)


def run(work: Coroutine[Any, Any, Any], loops: Loops | None = None) -> Any:
    async def noted() -> Any:
        if loops is not None:
            loops.append(weakref.ref(asyncio.get_running_loop()))
        return await work

    return asyncio.run(noted())


@pytest.mark.legs("valkey", "cluster")
def test_each_run_has_its_own_connections_and_takes_them_along(
    server: Server, queue: rota.Queue
) -> None:
    loops: Loops = []
    for _ in range(30):
        run(queue.enqueue(spec()), loops)
        assert server.strangers() == []
    gc.collect()
    assert sum(loop() is not None for loop in loops) <= 1, "closed loops are kept alive"
    assert run(queue.info()).waiting == 30


@pytest.mark.legs("valkey", "cluster")
def test_consumers_and_workers_live_in_one_loop_after_another(
    server: Server, queue: rota.Queue
) -> None:
    ran: list[int] = []
    loops: Loops = []

    @queue.task
    async def work(n: int) -> None:
        ran.append(n)

    async def consume() -> None:
        async with queue.consumer(lease=LEASE) as consumer:
            waiting = asyncio.create_task(consumer.claim(1, wait=IN_TIME))
            await asyncio.sleep(0.02)
            await work.enqueue(0)
            await consumer.complete(await waiting)

    for round in range(5):
        run(consume(), loops)
        run(work.enqueue(round), loops)
        assert run(Worker(queue, lease=LEASE).run(burst=True), loops).done == 1
    gc.collect()
    assert sum(loop() is not None for loop in loops) <= 1, "closed loops are kept alive"
    assert ran == list(range(5))
    assert_drained(server, queue, done=10)


@pytest.mark.legs("valkey", "cluster")
def test_a_loop_may_end_in_the_middle_of_a_wait(server: Server, queue: rota.Queue) -> None:
    """Ctrl-C in a script: what waited is cancelled, what was held goes back."""

    async def wait_for_ever() -> None:
        async with queue.consumer(lease=LEASE) as consumer:
            held = await consumer.claim(1)
            assert len(held) == 1
            await consumer.claim(1, wait=60)

    async def main() -> None:
        await queue.enqueue(spec())
        asyncio.get_running_loop().create_task(wait_for_ever())
        await asyncio.sleep(0.1)

    for _ in range(3):
        asyncio.run(main())
    assert assert_sound(server, queue).counts("stats")["waiting"] == 3


@pytest.mark.legs("valkey", "cluster")
def test_threads_with_loops_of_their_own_and_blocking_callers_side_by_side(
    server: Server, queue: rota.Queue
) -> None:
    got: list[str] = []
    failures: list[BaseException] = []
    sent = specs(60)
    all_taken = threading.Event()

    def note(jobs: list[rota.Job]) -> list[rota.Job]:
        got.extend(ids(jobs))
        if len(got) >= len(sent):
            all_taken.set()
        return jobs

    async def consume() -> None:
        async with queue.consumer(lease=LEASE) as consumer:
            jobs: list[rota.Job] = []
            while jobs or not all_taken.is_set():
                jobs = note(await consumer.exchange(done=jobs, n=5, wait=0.4))

    def consume_blocking() -> None:
        with queue.sync.consumer(lease=LEASE) as consumer:
            jobs: list[rota.Job] = []
            while jobs or not all_taken.is_set():
                jobs = note(consumer.exchange(done=jobs, n=5, wait=0.4))

    def safely(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    works = [lambda: asyncio.run(consume()), consume_blocking] * 3
    threads = [threading.Thread(target=safely, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    asyncio.run(queue.enqueue_many(sent[:20]))
    queue.sync.enqueue_many(sent[20:40])
    for one in sent[40:]:
        asyncio.run(queue.enqueue(one))
    all_taken.wait(PATIENCE)
    all_taken.set()
    for thread in threads:
        thread.join(IN_TIME)
    queue.sync.close()
    assert failures == []
    assert sorted(got) == sorted(ids(sent))
    assert_drained(server, queue, done=60)


@pytest.mark.legs("valkey", "cluster")
async def test_the_blocking_face_inside_a_loop_and_in_its_threads(
    server: Server, queue: rota.Queue
) -> None:
    """As in a synchronous view of an asynchronous server."""
    await asyncio.to_thread(queue.sync.enqueue, spec())
    queue.sync.enqueue(spec())
    await queue.enqueue(spec())
    assert (await queue.info()).waiting == 3
    await queue.close()


@pytest.mark.keeps_connections  # the loop of a test ends after the check
@pytest.mark.parametrize("n", range(3))
async def test_a_queue_of_the_module_in_loops_per_test(valkey: Server, n: int) -> None:
    MODULE_QUEUE.link.use(valkey.url)
    await MODULE_QUEUE.enqueue(spec())
    assert (await MODULE_QUEUE.info()).waiting == 1


MODULE_QUEUE = rota.Queue("module-queue")


def test_uvloop_does_as_well(valkey: Server, queue_name: str) -> None:
    uvloop = pytest.importorskip("uvloop", reason="no uvloop here: pip install uvloop")
    queue = rota.Queue(queue_name, url=valkey.url, beat=FAR_BEAT)

    @queue.task
    async def work() -> None: ...

    async def main() -> int:
        worker = Worker(queue, lease=LEASE)
        task = asyncio.create_task(worker.run())
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await work.enqueue()
        while (await queue.info()).totals.get("completed") is None:
            assert time.monotonic() - began < IN_TIME
            await asyncio.sleep(0.005)
        worker.stop()
        return (await task).done

    for _ in range(2):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            assert runner.run(main()) >= 1
        valkey.flush()


def test_a_loop_that_is_just_dropped_leaks_nothing(
    valkey: Server, queue_name: str, recwarn: pytest.WarningsRecorder
) -> None:
    """Closed by hand, without asyncio.run's care for what lives in it."""
    queue = rota.Queue(queue_name, url=valkey.url, beat=FAR_BEAT)
    for _ in range(10):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(queue.enqueue(spec()))
        loop.run_until_complete(queue.close())
        loop.close()
    gc.collect()
    eventually(lambda: not valkey.strangers(), "connections stay open")
    assert [str(warning.message) for warning in recwarn] == []
