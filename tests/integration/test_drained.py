"""What a worker says it has left, however it came to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

import rota
from rota.cli.serving import serve
from tests.conftest import PrivateServer
from tests.support.queues import open_queue, spec
from tests.support.servers import Server
from tests.support.times import PATIENCE


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still does not make a server one that does not answer."""
    monkeypatch.setattr("rota.worker.LEFT_S", PATIENCE)


async def fill(queue: rota.Queue) -> None:
    """Three jobs that stay: one delayed, two in a paused lane."""
    await queue.lane("paused").pause()
    await queue.enqueue_many(
        [spec("paused"), spec("paused"), spec(delay_ms=3_600_000), spec(task="done")]
    )


async def until_done(worker: rota.Worker, done: asyncio.Event) -> rota.Drained:
    run = asyncio.create_task(worker.run())
    await asyncio.wait_for(done.wait(), PATIENCE)
    worker.stop()
    return await run


def ending(queue: rota.Queue) -> asyncio.Event:
    """Set once the queue's job of task `done` has been run."""
    event = asyncio.Event()

    @queue.task
    async def done() -> None:
        event.set()

    return event


@pytest.mark.usefixtures("patient")
async def test_a_stopped_worker_counts_what_waits_and_what_is_delayed(queue: rota.Queue) -> None:
    await fill(queue)
    drained = await until_done(rota.Worker(queue), ending(queue))
    assert drained == rota.Drained(done=1, retried=0, dead=0, left=3)


@pytest.mark.usefixtures("patient")
async def test_it_counts_what_it_gave_back(queue: rota.Queue) -> None:
    started = asyncio.Event()

    @queue.task
    async def work() -> None:
        started.set()
        await asyncio.sleep(3600)

    await queue.enqueue(spec())
    drained = await until_done(rota.Worker(queue, grace=0), started)
    assert drained == rota.Drained(done=0, retried=0, dead=0, left=1)


async def test_it_counts_all_its_queues(server: Server, queue: rota.Queue) -> None:
    async with open_queue(server, f"{queue.name}-2") as other:
        await fill(queue)
        await fill(other)
        ending(other)
        worker = rota.Worker([queue, other], concurrency=1)
        ending(queue)
        assert (await worker.run(burst=True)).left == 6


async def test_of_a_server_that_is_gone_it_does_not_know(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server()
    async with open_queue(server, queue_name) as queue:
        done = ending(queue)
        await fill(queue)
        worker = rota.Worker(queue, grace=0)
        run = asyncio.create_task(worker.run())
        await asyncio.wait_for(done.wait(), PATIENCE)
        server.kill()
        worker.stop()
        drained = await asyncio.wait_for(run, PATIENCE)
        assert drained.left is None


@pytest.mark.usefixtures("patient")
def test_the_command_line_says_it(
    server: Server, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = rota.Queue(queue_name, url=server.url)
    worker = rota.Worker(queue)

    @queue.task
    async def done() -> None:
        worker.stop()

    with queue.sync:
        queue.sync.enqueue_many([spec(task="done"), spec(delay_ms=3_600_000)])
        with caplog.at_level(logging.INFO, "rota.worker"):
            assert serve(worker, burst=False, leash=None, set_up_logs=lambda: None) == 0
    assert "ended: 1 jobs done, 0 retried, 0 dead, 1 left" in caplog.messages
