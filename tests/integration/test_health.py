"""Health: bad as soon as one part is down although others answer, and good again after it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import rota
from rota import worker as workers
from rota.health import Health, check
from rota.link import Link
from rota.worker import Worker
from tests.conftest import PrivateServer
from tests.support.proxy import Proxy
from tests.support.queues import open_queue, specs
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, PATIENCE, SHORT_BEAT
from tests.support.waiting import eventually, eventually_async


@pytest.fixture
async def queue(valkey: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(valkey, queue_name, beat=SHORT_BEAT) as queue:
        yield queue


def problems(health: Health) -> set[str]:
    """What is not well, without the queue's name."""
    return {one.name.rpartition(": ")[2] for one in health.problems}


async def test_a_worker_is_well_while_it_works_and_says_when_it_does_not(
    queue: rota.Queue,
) -> None:
    worker = Worker(queue, lease=LEASE)
    assert problems(worker.health()) == {"worker"}
    assert worker.health().alive, "what has not begun is not to be replaced"
    async with worker:
        assert worker.health().healthy
        worker.stop()
        assert "worker" in problems(worker.health())
        assert worker.health().alive, "it drains"
    assert not worker.health().alive


async def test_a_doorbell_that_is_down_is_told_though_all_else_answers(
    queue: rota.Queue,
    valkey: Server,
    proxy: Callable[[Server], Proxy],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = proxy(valkey)

    apart = queue.link.apart

    def through_proxy(*, resend: bool = True, **bounds: Any) -> Link:
        own = apart(resend=resend, **bounds)
        if resend:  # the doorbell's; the lease thread and probes send nothing again
            assert own.use(network.url)
        return own

    monkeypatch.setattr(queue.link, "apart", through_proxy)
    done: list[int] = []

    @queue.task
    async def work(n: int) -> None:
        done.append(n)

    async with Worker(queue, lease=LEASE) as worker:
        await eventually_async(lambda: network.open, "the doorbell is never connected")
        assert worker.health().healthy
        network.refuse()
        await eventually_async(
            lambda: problems(worker.health()) == {"doorbell"}, "nobody misses the doorbell"
        )
        assert worker.health().alive
        (problem,) = worker.health().problems
        assert problem.text == "its connection is down"
        await work.enqueue(1)
        await eventually_async(lambda: done == [1], "without the doorbell nobody looks")
        assert problems(worker.health()) == {"doorbell"}
        network.pass_through()
        await eventually_async(lambda: worker.health().healthy, "it does not recover")


async def test_a_lease_that_cannot_be_renewed_is_told_though_claims_are_answered(
    queue: rota.Queue, valkey: Server, faulty_keeper: Callable[[rota.Queue], None]
) -> None:
    async with Worker(queue, lease=LEASE) as worker:
        faulty_keeper(queue)
        await eventually_async(
            lambda: problems(worker.health()) == {"lease"}, "nobody misses the heartbeat"
        )


@pytest.fixture
def faulty_keeper(monkeypatch: pytest.MonkeyPatch) -> Callable[[rota.Queue], None]:
    """Its beats fail from now on."""

    def fail(**_: object) -> object:
        raise rota.Unavailable("no way")

    return lambda queue: monkeypatch.setattr(queue.link.store, "keep_time", fail)


async def test_a_dead_lease_thread_and_a_dead_blocker_are_told(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Worker(queue, lease=LEASE) as worker:
        with monkeypatch.context() as patched:
            gone = threading.Thread(target=int)
            gone.start()
            gone.join()
            patched.setattr("rota.consume.lease.lease_thread._thread", gone)
            assert problems(worker.health()) == {"lease"}
        assert worker.health().healthy
        bell = queue.consuming.bell()
        blocker = bell._blocker
        assert blocker is not None
        blocker.cancel()
        await eventually_async(
            lambda: problems(worker.health()) == {"doorbell"}, "nobody misses the blocker"
        )
        bell._blocker = None
        bell._users -= 1
        bell.enter()


async def test_a_server_that_is_gone_is_told_and_the_process_stays(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server()
    async with (
        open_queue(server, queue_name, beat=SHORT_BEAT) as queue,
        Worker(queue, lease=LEASE) as worker,
    ):
        server.kill()
        await eventually_async(
            lambda: {"lease", "server"} <= problems(worker.health()),
            "nobody misses the server",
            timeout=PATIENCE,
        )
        assert worker.health().alive, "a restart of the worker does not bring the server back"
        server.restart()
        await eventually_async(
            lambda: worker.health().healthy, "it does not recover", timeout=PATIENCE
        )


async def test_a_loop_that_hangs_is_told_from_outside(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "SLUGGISH_S", 0.2)
    hanging, seen_enough = threading.Event(), threading.Event()
    seen: list[Health] = []

    @queue.task
    async def hogs() -> None:
        hanging.set()
        seen_enough.wait(PATIENCE)

    async with Worker(queue, lease=LEASE) as worker:

        def watch() -> None:
            hanging.wait()
            eventually(lambda: not worker.health().healthy, "nobody misses the loop")
            seen.append(worker.health())
            monkeypatch.setattr(workers, "STUCK_S", 0.2)
            eventually(lambda: not worker.health().alive, "it is taken for alive")
            seen.append(worker.health())

        def watch_and_end() -> None:
            try:
                watch()
            finally:
                seen_enough.set()

        watching = asyncio.create_task(asyncio.to_thread(watch_and_end))
        await hogs.enqueue()
        await watching
        assert seen[0].alive
        assert problems(seen[0]) == {"event loop"}
        assert {"event loop", "process"} <= problems(seen[1])
        await eventually_async(lambda: worker.health().healthy, "it does not recover")
        assert worker.lag < 5


def test_a_queue_is_checked_from_outside(private_server: PrivateServer, queue_name: str) -> None:
    server = private_server()
    queue = rota.Queue(queue_name, url=server.url)
    found = check(queue)
    assert found.healthy
    assert found.checks[0].name == f"{queue_name}: server"
    assert check(queue, workers=True).healthy
    queue.sync.enqueue_many(specs(3))
    assert check(queue).healthy
    assert problems(check(queue, workers=True)) == {"workers"}
    assert "3 jobs wait, 0 consumers" in check(queue, workers=True).problems[0].text
    with queue.sync.consumer():
        assert check(queue, workers=True).healthy
    queue.sync.close()
    assert not server.strangers()
    server.kill()
    began = time.monotonic()
    assert problems(check(queue, workers=True)) == {"server"}
    assert time.monotonic() - began < IN_TIME
    server.restart()
    eventually(lambda: check(queue).healthy, "it does not recover")


def test_a_frozen_server_is_told_in_time(private_server: PrivateServer, queue_name: str) -> None:
    server = private_server()
    queue = rota.Queue(queue_name, url=server.url)
    server.freeze()
    began = time.monotonic()
    assert not check(queue).healthy
    assert time.monotonic() - began < IN_TIME
    server.thaw()
    assert check(queue).healthy
