"""A worker and its server at the same time: handlers run while the next exchange is on its way,
each in a task and a context of its own, and never more is claimed than slots are free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import pytest

import rota
from rota.script.loader import Operation
from rota.store import Store
from rota.values.model import Exchanged
from rota.worker import Worker
from tests.support.queues import assert_drained, held_on_server, open_queue
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE

Watch = Callable[[str, str, dict[str, Any]], None]


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


def watch_exchanges(monkeypatch: pytest.MonkeyPatch, watch: Watch) -> None:
    """`watch` is told of each exchange: `sent` before it is, `answered` when its answer is here."""
    original = Store.exchange

    def exchange(self: Store, consumer: str, **given: Any) -> Operation[Exchanged]:
        watch("sent", consumer, given)
        reply = yield from original(self, consumer, **given)
        watch("answered", consumer, given)
        return reply

    monkeypatch.setattr(Store, "exchange", exchange)


async def test_handlers_run_while_the_next_exchange_is_on_its_way(
    server: Server, queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way = 0
    beside: list[int] = []

    def watch(what: str, consumer: str, given: dict[str, Any]) -> None:
        nonlocal under_way
        under_way += 1 if what == "sent" else -1

    @queue.task
    async def work(n: int) -> None:
        beside.append(under_way)

    await queue.enqueue_many(work.spec(n) for n in range(1000))
    watch_exchanges(monkeypatch, watch)
    await Worker(queue, concurrency=100, lease=LEASE).run(burst=True)
    assert len(beside) == 1000
    assert sum(beside) >= 900, "but for the last exchange there is always a next one"
    assert max(beside) == 1, "one exchange at a time"
    assert_drained(server, queue, done=1000)


@pytest.mark.parametrize("slots", [1, 7, 50, 100])
@pytest.mark.parametrize("waits", [False, True])
async def test_never_more_is_held_than_there_are_slots(
    server: Server, queue: rota.Queue, monkeypatch: pytest.MonkeyPatch, slots: int, waits: bool
) -> None:
    jobs, wanted = 4 * slots + 10, list[int]()

    def watch(what: str, consumer: str, given: dict[str, Any]) -> None:
        if what == "sent":
            held = len(held_on_server(server, queue).get(consumer, ()))
            assert held - len(given["done"]) + given["want"] <= slots
            wanted.append(given["want"])

    @queue.task
    async def work(n: int) -> None:
        if waits:
            await asyncio.sleep(n % 3 * 0.001)

    await queue.enqueue_many(work.spec(n) for n in range(jobs))
    watch_exchanges(monkeypatch, watch)
    drained = await Worker(queue, concurrency=slots, lease=LEASE).run(burst=True)
    assert drained.done == jobs
    assert max(wanted) == (slots if slots < 50 else slots // 2)
    assert_drained(server, queue, done=jobs)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("waits", [False, True])
async def test_each_job_has_a_task_and_a_context_of_its_own(
    server: Server, queue: rota.Queue, waits: bool, ordered: bool
) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    tasks: list[asyncio.Task[Any] | None] = []
    seen: list[tuple[str, str, str]] = []

    @queue.task(lane_from="name")
    async def work(name: str) -> None:
        before = tenant.get()
        tenant.set(name)
        tasks.append(asyncio.current_task())
        if waits:
            await asyncio.sleep(0)
        seen.append((before, tenant.get(), rota.current_job().lane))

    names = [f"!t{n % 5}" if ordered else f"t{n}" for n in range(200)]
    await queue.enqueue_many(work.spec(name) for name in names)
    await Worker(queue, concurrency=20, lease=LEASE).run(burst=True)
    assert len({id(task) for task in tasks}) == len(tasks) == 200
    assert all(before == "nobody" and mine == lane for before, mine, lane in seen)
    assert tenant.get() == "nobody"
    assert_drained(server, queue, done=200)


@pytest.mark.parametrize("ordered", [False, True])
async def test_each_plain_function_has_a_context_of_its_own(
    server: Server, queue: rota.Queue, ordered: bool
) -> None:
    """Also in a lane with async handlers, which see nothing of it, nor it of them."""
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen: list[tuple[str, str]] = []

    def look(name: str) -> None:
        before = tenant.get()
        tenant.set(name)
        assert tenant.get() == name
        seen.append((before, rota.current_job().id))

    @queue.task(id_from="name")
    def in_thread(name: str) -> None:
        look(name)

    @queue.task(id_from="name")
    async def on_loop(name: str) -> None:
        look(name)

    of_lanes = [
        task.options(lane=f"{'!' * ordered}t{n}") for n in range(3) for task in (in_thread, on_loop)
    ]
    await queue.enqueue_many(one.spec(f"{n}") for n, one in enumerate(of_lanes * 5))
    await Worker(queue, concurrency=4, lease=LEASE).run(burst=True)
    assert {before for before, _ in seen} == {"nobody"}
    assert sorted(id for _, id in seen) == sorted(map(str, range(30)))
    assert_drained(server, queue, done=30)


@pytest.mark.parametrize(("jobs", "which"), [(1, 1), (3, 1), (3, 2), (3, 3)])
async def test_a_job_cancelled_before_its_first_step_frees_its_slot_and_goes_back(
    server: Server, queue: rota.Queue, jobs: int, which: int
) -> None:
    """Also in a sequence, with what was taken behind it."""
    ran: list[int] = []
    begun: list[str] = []

    @queue.task
    async def work(n: int) -> None:
        ran.append(n)

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **given: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **given)
        if coroutine.__qualname__ == "Entries._run":
            begun.append(coroutine.__qualname__)
            if len(begun) == which:
                task.cancel()
        return task

    await queue.enqueue_many(work.options(ordering_key="k").spec(n) for n in range(jobs))
    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        drained = await asyncio.wait_for(
            Worker(queue, concurrency=1, lease=LEASE).run(burst=True), IN_TIME
        )
    finally:
        loop.set_task_factory(None)
    assert (drained.done, ran, len(begun)) == (jobs, list(range(jobs)), jobs + 1)
    assert_drained(server, queue, done=jobs)


async def test_a_broken_record_in_the_middle_leaves_no_slot_behind(
    server: Server, queue: rota.Queue
) -> None:
    ran: list[int] = []

    @queue.task
    async def work(n: int) -> None:
        ran.append(n)

    await queue.enqueue_many(work.spec(n) for n in range(4))
    bad = [rota.JobSpec(task=work.name, payload=b'{"n":"x"}') for _ in range(5)]
    await queue.enqueue_many(bad)
    await queue.enqueue_many(work.spec(n) for n in range(4, 8))
    worker = Worker(queue, concurrency=2, lease=LEASE)
    await asyncio.wait_for(worker.run(burst=True), IN_TIME)
    assert sorted(ran) == list(range(8))
    assert (await queue.info()).dead == 5
