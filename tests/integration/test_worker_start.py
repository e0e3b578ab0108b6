"""A worker that starts or ends can be given up, stopped, and asked to be quiet."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Callable

import pytest

import rota
from tests.support.proxy import Proxy
from tests.support.queues import held_on_server, open_queue, spec
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, PATIENCE
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


# ── lifespans that do not begin, or do not end ──────────────────────────────────────────────


class Slow:
    """A lifespan that waits before its `yield` or after it; `stubborn`: it ignores cancelling."""

    def __init__(self, queue: rota.Queue, *, before: bool, stubborn: bool) -> None:
        self.reached, self.left, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._before = before
        self._stubborn = stubborn
        queue.lifespan(self.resources)

    async def resources(self) -> AsyncIterator[None]:
        try:
            if self._before:
                await self._wait()
            yield
            await self._wait()
        finally:
            self.left.set()

    async def _wait(self) -> None:
        self.reached.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("before", [True, False])
async def test_a_stop_does_not_wait_for_ever_for_a_lifespan(
    server: Server,
    queue: rota.Queue,
    queue_name: str,
    caplog: pytest.LogCaptureFixture,
    before: bool,
    stubborn: bool,
) -> None:
    """The start is given up at once; the end has the grace period. What was opened is closed."""
    async with open_queue(server, f"{queue_name}-1") as first:
        door = Door(first)
        door.opened.set()
        slow = Slow(queue, before=before, stubborn=stubborn)
        worker = rota.Worker([first, queue], lease=LEASE, grace=LEASE if before else 0.05)
        run = asyncio.create_task(worker.run())
        await (slow.reached if before else worker.started).wait()
        worker.stop()
        try:
            async with asyncio.timeout(PATIENCE):
                drained = await run
            assert (drained.done, slow.left.is_set()) == (0, not stubborn)
        finally:
            slow.let_go.set()
        assert door.left.is_set()
        assert await first.consumers() == await queue.consumers() == []
        said = caplog.text.count(f"queue {queue.name}: its lifespan does not end: it is cancelled")
        assert said == (0 if before else 1)
        assert ("ignores being cancelled" in caplog.text) is stubborn
        await slow.left.wait()


async def test_a_block_around_a_worker_ends_although_a_lifespan_does_not(queue: rota.Queue) -> None:
    slow = Slow(queue, before=False, stubborn=False)
    async with asyncio.timeout(PATIENCE), rota.Worker(queue, lease=LEASE, grace=0.05):
        pass
    assert slow.left.is_set()


async def test_a_stop_in_a_hurry_waits_for_no_lifespan(queue: rota.Queue) -> None:
    slow = Slow(queue, before=False, stubborn=False)
    worker = rota.Worker(queue, lease=LEASE, grace=LEASE)
    run = asyncio.create_task(worker.run())
    await worker.started.wait()
    worker.stop()
    await slow.reached.wait()
    worker.stop(now=True)
    async with asyncio.timeout(PATIENCE):
        await run
    assert slow.left.is_set()


async def test_a_stop_gives_up_a_start_without_a_server(
    server: Server, queue: rota.Queue, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    network = proxy(server)
    network.silent()
    async with open_queue(network.url, f"{queue_name}-away") as away:
        worker = rota.Worker([queue, away], lease=LEASE)
        run = asyncio.create_task(worker.run())
        await eventually_async(lambda: bool(worker.fetchers), "the first queue is joined", PATIENCE)
        began = time.monotonic()
        worker.stop()
        drained = await run
        assert time.monotonic() - began < IN_TIME  # a client's time-out takes longer
        assert drained.left is None
        assert await queue.consumers() == []


async def test_a_lifespan_that_fails_while_the_worker_runs_ends_it(queue: rota.Queue) -> None:
    async def fails() -> None:
        raise ValueError("lost the database")

    @queue.lifespan
    async def resources() -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:  # cancels the task it was entered in
            await failing.wait()
            group.create_task(fails())
            yield

    failing = asyncio.Event()
    failing.set()
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        async with asyncio.timeout(PATIENCE):
            await rota.Worker(queue, lease=LEASE).run()


async def test_handlers_see_the_context_of_their_lifespan(queue: rota.Queue) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    @queue.lifespan
    async def resources() -> AsyncIterator[str]:
        variable.set("set")
        yield "state"

    @queue.task
    async def work() -> None:
        seen.append((variable.get(), rota.current_job().state))

    seen: list[tuple[str, object]] = []
    await work.enqueue()
    await rota.Worker(queue, lease=LEASE).run(burst=True)
    assert seen == [("set", "state")]
