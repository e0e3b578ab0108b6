"""Leases: kept whatever the handlers do, lost in time, and what becomes of the jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

import rota
from rota import embedded
from rota.connection.steps import ROOMS
from rota.consume import lease
from rota.consume.lease_thread import LeaseThread
from rota.work import watchdog
from rota.worker import Worker
from tests.support import child
from tests.support.child import Order
from tests.support.proxy import Proxy
from tests.support.queues import (
    assert_drained,
    assert_sound,
    calls,
    dump,
    end_leases,
    held_on_server,
    open_queue,
    spec,
    specs,
)
from tests.support.servers import Server
from tests.support.times import FAR_BEAT, IN_TIME, LEASE, PATIENCE, SHORT_BEAT, SHORT_LEASE
from tests.support.waiting import eventually, eventually_async

Start = Callable[[Order], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children; those that still run are killed after the test."""
    children: list[subprocess.Popen[bytes]] = []

    def run(order: Order) -> subprocess.Popen[bytes]:
        children.append(child.start(order))
        return children[-1]

    yield run
    for one in children:
        one.send_signal(signal.SIGCONT)
        one.kill()
        one.wait(IN_TIME)


async def completed(server: Server, queue: rota.Queue, n: int, timeout: float = PATIENCE) -> None:
    await eventually_async(
        lambda: dump(server, queue).counts("stats").get("completed", 0) >= n,
        f"not all {n} jobs were done",
        timeout=timeout,
    )


def work(lane: str, n: int, seconds: float = 0) -> list[rota.JobSpec]:
    return specs(n, lane, task="work", payload=b'{"seconds": %f}' % seconds)


# ── dying ───────────────────────────────────────────────────────────────────────────────────────

STEPS = ("claimed", "decoding", "starting", "handler", "middle", "ending", "acknowledged")


async def test_a_worker_killed_at_any_step_loses_nothing(
    valkey: Server, queue_name: str, start: Start, tmp_path: Path
) -> None:
    """C03, 50 tasks scaled to 2 x 10: a child dies with SIGKILL at each step, with lanes of
    ceiling 1 and 5; then another worker. All steps at the same time, each in its own queue."""
    slots = 4

    async def one(step: str) -> None:
        log = tmp_path / step
        async with open_queue(valkey, f"{queue_name}-{step}", beat=SHORT_BEAT) as queue:
            await queue.set_lanes({"one": {"ceiling": 1}, "five": {"ceiling": 5}})
            jobs = work("one", 10, 0.01) + work("five", 10, 0.01)
            await queue.enqueue_many(jobs)
            order = Order(url=valkey.url, queue=queue.name, log=str(log), slots=slots, kill=step)
            process = start(order)
            assert await asyncio.to_thread(process.wait, PATIENCE) == -signal.SIGKILL
            child.register(queue, child.logger(str(log)), Order(url="", queue="", log=""))
            worker = Worker(queue, concurrency=slots, lease=LEASE)
            run = asyncio.create_task(worker.run())
            await completed(valkey, queue, 20)
            worker.stop()
            await run
            ran = Counter(event.job for event in child.read_log(log) if event.what == "start")
            assert ran.keys() == {job.id for job in jobs}
            assert sum(ran.values()) - len(ran) <= slots
            assert max(ran.values()) <= 2
            assert_drained(valkey, queue, done=20)

    await asyncio.gather(*(one(step) for step in STEPS))


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_dead_consumers_jobs_return_to_their_places(
    server: Server, queue_name: str, start: Start, tmp_path: Path
) -> None:
    """Issue 9: in order, only what had started counting a death."""
    log = tmp_path / "log"
    async with open_queue(server, queue_name, beat=SHORT_BEAT) as queue:
        jobs = work("!o", 5) + work("a", 2)
        await queue.enqueue_many(jobs)
        order = Order(url=server.url, queue=queue.name, log=str(log), kill="starting", lease=LEASE)
        process = start(order)
        await asyncio.to_thread(process.wait, PATIENCE)
        assert sum(map(len, held_on_server(server, queue).values())) == 7
        end_leases(server, queue, process.pid)
        async with queue.consumer(prefetch=10) as consumer:
            claimed: list[rota.Job] = []
            while len(claimed) < 7:
                jobs_back = await consumer.claim(3, wait=IN_TIME)
                assert jobs_back
                claimed += jobs_back
            assert [job.id for job in claimed if job.lane == "!o"] == [job.id for job in jobs[:5]]
            deaths = dump(server, queue).counts("deaths")
            assert deaths == {jobs[0].id: 1, jobs[5].id: 1, jobs[6].id: 1}
            for job in claimed:
                assert job.attempt == 1
                if job.suspect:
                    assert await consumer.start(job)
            await consumer.complete(claimed)
        assert_drained(server, queue, done=7)


@pytest.mark.parametrize("seconds", [0.5, 60.0])
async def test_a_frozen_process_finds_its_lease_lost(
    valkey: Server, queue_name: str, start: Start, tmp_path: Path, seconds: float
) -> None:
    """Stopped for longer than its lease: another ran its job. A handler whose time is over ends,
    and its ending is refused; one that would run on is cancelled."""
    log = tmp_path / "log"
    async with open_queue(valkey, queue_name, beat=SHORT_BEAT) as queue:
        (job,) = work("a", 1, seconds)
        await queue.enqueue(job)
        process = start(Order(url=valkey.url, queue=queue.name, log=str(log), freeze=True))
        await eventually_async(
            lambda: child.read_log(log), "the job does not start", timeout=PATIENCE
        )
        async with queue.consumer(lease=LEASE) as consumer:
            (again,) = await consumer.claim(1, wait=IN_TIME)
            assert again.id == job.id
            assert await consumer.start(again)
            os.kill(process.pid, signal.SIGCONT)
            await asyncio.sleep(0.8)  # long enough for the first run to have ended
            assert dump(valkey, queue).counts("stats")["running"] == 1
            assert await consumer.complete(again) == ["ok"]
        ended = "end" in [event.what for event in child.read_log(log)]
        assert not ended or seconds == 0.5
        assert_drained(valkey, queue, done=1)
        process.terminate()
        assert await asyncio.to_thread(process.wait, PATIENCE) == 0


# ── handlers that starve the heartbeat (C09) ────────────────────────────────────────────────────


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """What ends a handler that hears nothing."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("task", ["busy", "sleeper"])
async def test_a_handler_that_keeps_the_event_loop_keeps_its_lease(
    valkey: Server, queue_name: str, start: Start, tmp_path: Path, gate: Path, task: str
) -> None:
    """C09 a and c: it is renewed twice meanwhile, so it runs once, another worker waiting."""
    log = tmp_path / "log"
    async with open_queue(valkey, queue_name, beat=SHORT_BEAT) as queue:
        await queue.enqueue(spec(task=task))
        order = Order(url=valkey.url, queue=queue.name, log=str(log), gate=str(gate), lease=5)
        start(order)
        await eventually_async(
            lambda: child.read_log(log), "the job does not start", timeout=PATIENCE
        )
        (holder,) = held_on_server(valkey, queue)
        async with queue.consumer(lease=LEASE) as consumer:
            waiting = asyncio.create_task(consumer.claim(1, wait=FAR_BEAT))
            for _ in range(2):
                before = dump(valkey, queue).get("consumers")[holder]
                await eventually_async(
                    lambda: dump(valkey, queue).get("consumers")[holder] > before,
                    "it is not renewed",
                )
            gate.write_bytes(b"x")
            await completed(valkey, queue, 1)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert [event.what for event in child.read_log(log)] == ["start", "end"]
        assert_drained(valkey, queue, done=1)


async def test_a_handler_that_keeps_the_interpreters_lock_is_found_out(
    valkey: Server, queue_name: str, start: Start, tmp_path: Path, gate: Path
) -> None:
    """C09 b: no thread can renew meanwhile. The job goes to another; the first ending is
    refused."""
    log = tmp_path / "log"
    async with open_queue(valkey, queue_name, beat=SHORT_BEAT) as queue:
        await queue.enqueue(spec(task="locked"))
        start(Order(url=valkey.url, queue=queue.name, log=str(log), gate=str(gate)))
        await eventually_async(
            lambda: child.read_log(log), "the job does not start", timeout=PATIENCE
        )
        async with queue.consumer(lease=LEASE) as consumer:
            (again,) = await consumer.claim(1, wait=IN_TIME)
            await consumer.start(again)
            gate.write_bytes(b"x")
            await eventually_async(
                lambda: child.read_log(log)[-1].what == "end", "the first run does not end"
            )
            await asyncio.sleep(0.3)
            assert dump(valkey, queue).counts("stats")["running"] == 1
            assert await consumer.complete(again) == ["ok"]
        assert_drained(valkey, queue, done=1)


def test_a_blocked_event_loop_is_warned_about_by_the_name_of_the_task(
    valkey: Server,
    queue_name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("rota.work.watchdog.WARN_AFTER_S", 0.5)

    async def main() -> None:
        async with open_queue(valkey, queue_name, beat=SHORT_BEAT) as queue:

            @queue.task
            async def hogging() -> None:
                time.sleep(3.2)

            await hogging.enqueue()
            await Worker(queue, lease=LEASE).run(burst=True)

    asyncio.run(main())
    assert any("hogging" in record.getMessage() for record in caplog.records)


# ── waiting longer than the lease (C08) ─────────────────────────────────────────────────────────


async def test_what_waits_longer_than_a_lease_is_not_leased_meanwhile(
    server: Server, queue_name: str
) -> None:
    """9 s scaled to 2.5 with a lease of 1 s: delayed, rejected with a delay, behind a block."""
    ran: dict[str, float] = {}
    async with open_queue(server, queue_name) as queue:

        @queue.task
        async def task(name: str) -> None:
            if name == "rejected" and rota.current_job().attempt == 1:
                raise rota.Retry(2.5)
            ran[name] = time.monotonic() - began

        workers = [Worker(queue, prefetch=10, lease=1) for _ in range(5)]
        runs = [asyncio.create_task(worker.run()) for worker in workers]
        began = time.monotonic()
        await queue.lane("blocked").block(2.5)
        await task.options(delay=2.5).enqueue("delayed")
        await task.options(lane="blocked").enqueue("blocked")
        await task.enqueue("rejected")
        await asyncio.sleep(0.3)
        while True:
            held = held_on_server(server, queue)
            if time.monotonic() - began > 2.4:
                break
            assert not any(held.values())
            assert not ran
            await asyncio.sleep(0.1)
        await eventually_async(lambda: len(ran) == 3, "not all ran")
        for worker in workers:
            worker.stop()
        await asyncio.gather(*runs)
        assert sorted(ran) == ["blocked", "delayed", "rejected"]
        assert min(ran.values()) > 2.45
        assert_drained(server, queue, done=3)


# ── clocks (C16) ────────────────────────────────────────────────────────────────────────────────


async def test_wall_clocks_decide_nothing(
    valkey: Server, queue_name: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 delayed tasks of 3 s scaled to 40 of 1 s: a publisher whose clock jumps by an hour
    either way, workers an hour early and an hour late, jobs during which leases are renewed."""
    log, real, real_ns = tmp_path / "log", time.time, time.time_ns
    shift = lambda: random.choice((-3600, 0, 3600))  # noqa: E731
    monkeypatch.setattr(time, "time", lambda: real() + shift())
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + shift() * 10**9)
    async with open_queue(valkey, queue_name, beat=SHORT_BEAT) as queue:
        for hours in (-1, 1):
            start(
                Order(
                    url=valkey.url,
                    queue=queue.name,
                    log=str(log),
                    slots=20,
                    lease=5,
                    wall_clock=hours * 3600,
                )
            )
        child.register(queue, child.logger(str(log)), Order(url="", queue="", log=""))
        worker = Worker(queue, concurrency=20, lease=5)
        run = asyncio.create_task(worker.run())
        await eventually_async(
            lambda: len(dump(valkey, queue).get("consumers")) == 3,
            "the children do not start",
            timeout=PATIENCE,
        )
        began = time.monotonic()
        delayed = [spec(f"d{n % 4}", payload=b'{"seconds": 0}', delay_ms=1000) for n in range(40)]
        await queue.enqueue_many(delayed)
        await queue.enqueue_many(work("long", 10, 2))
        await completed(valkey, queue, 50)
        worker.stop()
        await run
        starts = {e.job: e.at - began for e in child.read_log(log) if e.what == "start"}
        assert len(child.read_log(log)) == 100, "something ran twice"
        assert len({e.pid for e in child.read_log(log)}) > 1
        for job in delayed:
            assert starts[job.id] > 0.99
        assert_drained(valkey, queue, done=50)


# ── the keeper ──────────────────────────────────────────────────────────────────────────────────


async def test_an_unheard_renewal_counts_as_lost_by_the_own_clock(
    valkey: Server, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    """The link goes silent: no later than a lease after the last renewal was sent, the consumer
    refuses to settle by itself, without asking anybody."""
    between = proxy(valkey)
    async with open_queue(between.url, queue_name) as queue:
        await queue.enqueue(spec())
        async with queue.consumer(lease=SHORT_LEASE) as consumer:
            (job,) = await consumer.claim(1)
            between.silent()
            silent, keeper = time.monotonic(), queue.consuming.keeper
            if lease := keeper._leases.get(consumer.id):
                assert lease.deadline < silent + SHORT_LEASE
            await eventually_async(
                lambda: not keeper.is_alive(consumer.id), "it believes in its lease"
            )
            with pytest.raises(rota.LeaseLost):
                await consumer.complete(job)
            between.pass_through()
        assert_sound(valkey, queue)


async def test_a_lease_counts_from_before_the_server_made_it(
    valkey: Server, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    between = proxy(valkey)
    async with open_queue(between.url, queue_name) as queue:
        async with queue.consumer(lease=LEASE):
            pass  # the scripts are known
        between.delay(0.7)
        async with queue.consumer(lease=LEASE) as consumer:
            deadline = queue.consuming.keeper._leases[consumer.id].deadline
            assert deadline < time.monotonic() - 0.7 + LEASE
            between.pass_through()


@pytest.fixture
def lease_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[threading.Thread]]:
    """Those of this test alone: consumers that other tests have left open keep the process's."""
    before = threading.enumerate()
    thread = LeaseThread()
    for user in (lease, watchdog):
        monkeypatch.setattr(user, "lease_thread", thread)
    return lambda: [
        one for one in threading.enumerate() if one.name == "rota-lease" and one not in before
    ]


@pytest.mark.usefixtures("quick_renewals")
async def test_one_thread_keeps_all_leases_and_outlives_trouble(
    valkey: Server,
    queue_name: str,
    monkeypatch: pytest.MonkeyPatch,
    lease_threads: Callable[[], list[threading.Thread]],
) -> None:
    """C23 for the renewing loop: errors nobody foresaw, and one that ends a loop; it goes on."""
    async with open_queue(valkey, queue_name) as queue:
        consumers = [queue.consumer(lease=LEASE) for _ in range(20)]
        for consumer in consumers:
            await consumer.__aenter__()
        assert len(lease_threads()) == 1
        heartbeat = queue.link.store.heartbeat
        failures = [SystemExit("odd"), KeyError("odd"), OSError("odd")]

        def failing(*args: object, **settings: object) -> object:
            if failures:
                raise failures.pop()
            return heartbeat(*args, **settings)  # type: ignore[arg-type]

        monkeypatch.setattr(queue.link.store, "heartbeat", failing)
        before, keeper = calls(valkey, "evalsha"), queue.consuming.keeper
        await eventually_async(lambda: keeper.renewals >= 3 * 20, "it does not renew them")
        assert not failures
        assert calls(valkey, "evalsha") - before < 12
        assert all(keeper.is_alive(consumer.id) for consumer in consumers)
        for consumer in consumers:
            await consumer.__aexit__(None, None, None)
        await eventually_async(lambda: not lease_threads(), "the thread does not end")


@pytest.mark.usefixtures("quick_renewals")
async def test_all_queues_of_a_process_share_a_thread_and_its_connections(
    server: Server, queue_name: str, lease_threads: Callable[[], list[threading.Thread]]
) -> None:
    """Those of a worker and of blocking consumers alike; with the last user it ends."""
    queues = [rota.Queue(f"{queue_name}-{n}", url=server.url) for n in range(30)]
    before = len(server.strangers())
    with contextlib.ExitStack() as stack:
        for queue in queues[:3]:
            await asyncio.to_thread(stack.enter_context, queue.sync.consumer(lease=LEASE))
        mine = len(server.strangers()) - before  # two for each: its claims, and the bell
        await eventually_async(
            lambda: all(one.consuming.keeper.renewals for one in queues[:3]), "some is not renewed"
        )
        assert len(server.strangers()) - before <= mine + ROOMS["leases"]
        async with Worker(queues, concurrency=2, lease=LEASE):
            await eventually_async(
                lambda: all(one.consuming.keeper.renewals > 3 for one in queues),
                "some is not renewed",
                timeout=PATIENCE,
            )
            assert len(lease_threads()) == 1
        assert len(lease_threads()) == 1
        await asyncio.to_thread(stack.close)
    await eventually_async(lambda: not lease_threads(), "the thread does not end")
    for queue in queues:
        await queue.close()


@pytest.mark.usefixtures("quick_renewals")
async def test_a_server_that_stands_still_holds_up_no_other_queue(
    server: Server, queue_name: str, proxy: Callable[[Server], Proxy]
) -> None:
    between = proxy(server)
    async with (
        open_queue(between.url, queue_name) as still,
        open_queue(server, f"{queue_name}-other") as other,
        still.consumer(lease=LEASE),
        other.consumer(lease=LEASE),
    ):
        between.silent()
        waits, goes_on = still.consuming.keeper, other.consuming.keeper
        await eventually_async(lambda: waits.errors, "it does not find out")

        async def renewed_meanwhile() -> bool:
            errors, renewals = waits.errors, goes_on.renewals
            while waits.errors == errors:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return goes_on.renewals >= renewals + 2

        await eventually_async(renewed_meanwhile, "it waits with it", timeout=PATIENCE)
        between.pass_through()


async def test_a_lease_too_short_for_the_round_trips_is_kept_for_longer(
    server: Server,
    queue_name: str,
    proxy: Callable[[Server], Proxy],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The job takes longer than the lease that was asked for: it runs once, and is not blamed."""
    between = proxy(server)
    ran: list[int] = []
    async with open_queue(between.url, queue_name, beat=SHORT_BEAT) as queue:

        @queue.task
        async def work() -> None:
            ran.append(1)
            await asyncio.sleep(2.5)

        await work.enqueue()
        between.delay(0.4)
        async with Worker(queue, lease=1) as worker:
            problems = {one.name: one.text for one in worker.health().problems}
            assert "a lease of 1 s is too short" in problems[f"{queue.name}: lease"]
            await completed(server, queue, 1)
            between.pass_through()
        assert len(ran) == 1
        assert dump(server, queue).get("deaths") == {}
    assert any("too short for the round trips" in one.getMessage() for one in caplog.records)


async def test_a_lease_grows_with_the_round_trips(
    server: Server, queue_name: str, proxy: Callable[[Server], Proxy]
) -> None:
    between = proxy(server)
    async with (
        open_queue(between.url, queue_name) as queue,
        queue.consumer(lease=SHORT_LEASE) as consumer,
    ):
        between.delay(0.3)
        keeper = queue.consuming.keeper
        await eventually_async(lambda: "too short" in (keeper.trouble or ""), "nobody says so")
        renewals = keeper.renewals
        await eventually_async(lambda: keeper.renewals > renewals, "it is not renewed")
        left = (await queue.consumers())[0].lease_left
        assert consumer.id in dump(server, queue).get("consumers")
        assert left > SHORT_LEASE, "it is not kept for longer"
        between.pass_through()
        await eventually_async(lambda: keeper.trouble is None, "for longer than it has to")


# ── an embedded server ──────────────────────────────────────────────────────────────────────────


async def test_an_embedded_server_that_is_frozen_keeps_no_lost_lease(tmp_path: Path) -> None:
    """It is asked for its address, which waits longer than a lease may."""
    queue = rota.Queue("frozen", url=f"embedded:{tmp_path / 'data'}")
    began, ended = asyncio.Event(), asyncio.Event()

    @queue.task
    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await endless.enqueue()
    socket = tmp_path / "data" / "server.sock"
    server = Redis(unix_socket_path=str(socket)).info("server")["process_id"]
    async with Worker(queue, lease=SHORT_LEASE, grace=0.1):
        await asyncio.wait_for(began.wait(), PATIENCE)
        os.kill(server, signal.SIGSTOP)
        try:
            await asyncio.wait_for(ended.wait(), 10)  # of 20 that a start may take
        finally:
            os.kill(server, signal.SIGCONT)
    await queue.close()


def test_an_embedded_server_ends_after_its_last_blocking_consumer(tmp_path: Path) -> None:
    data = tmp_path / "data"
    queue = rota.Queue("let-go", url=f"embedded:{data}")
    with queue.sync.consumer(lease=SHORT_LEASE) as consumer:
        consumer.claim(1)
        eventually(lambda: queue.sync.info().beat_age is not None, "it keeps the time")
    queue.sync.close()
    eventually(lambda: not embedded.running(data), "the server ends")
