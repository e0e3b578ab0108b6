"""C60: handlers that cannot be stopped. 50 sleeps of 10 s are scaled to 16 of 0.5 s.

The documented choice: a thread's slot stays taken, and its lease renewed, until it returns, and
its result stands; so no second run begins while it goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter

import pytest

import rota
from tests.failures.tools import stats, until_done, working
from tests.support.queues import assert_drained, assert_sound, dump
from tests.support.servers import Server
from tests.support.times import IN_TIME, PATIENCE
from tests.support.waiting import eventually_async


@pytest.mark.usefixtures("quick_renewals")
async def test_threads_over_their_time_out_keep_slots_and_leases(
    server: Server, queue: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease is renewed meanwhile; four threads, never more; each job once."""
    caplog.set_level(logging.WARNING, "rota.executor")
    running, most, lock = 0, 0, threading.Lock()
    ran: Counter[str] = Counter()

    @queue.task(timeout=0.1, max_attempts=1)
    def slow(name: str) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.5)
        with lock:
            ran[name] += 1
            running -= 1

    await queue.enqueue_many(slow.spec(str(n)) for n in range(16))
    async with working(queue, slots=4):
        await until_done(server, queue, 16, timeout=PATIENCE)
    assert queue.consuming.keeper.renewals >= 2
    assert most == 4
    assert set(ran.values()) == {1}
    assert len(ran) == 16
    assert dump(server, queue).get("deaths") == {}
    warned = [r.getMessage() for r in caplog.records if "over its time-out" in r.getMessage()]
    assert len(warned) == 16
    assert "task slow" in warned[0]
    assert_drained(server, queue, done=16)


@pytest.mark.usefixtures("quick_renewals")
async def test_a_thread_whose_lease_was_taken_is_fenced(server: Server, queue: rota.Queue) -> None:
    """Its job runs again while the thread goes on; what it says in the end is not sent."""
    said: list[str] = []
    second_ended = threading.Event()

    @queue.task
    def slow() -> None:
        if said:
            said.append("second")
            second_ended.set()
            return
        said.append("first")
        assert second_ended.wait(PATIENCE)
        said.append("first ends")
        raise rota.Bury("too late")

    await slow.enqueue()
    async with working(queue, slots=4):
        await eventually_async(lambda: said, "it does not start")
        (lease,) = dump(server, queue).get("consumers")
        await queue.evict(lease)
        await until_done(server, queue, 1)
        await eventually_async(lambda: len(said) == 3, "the thread does not end")
        await asyncio.sleep(0.1)
    assert said == ["first", "second", "first ends"]
    assert stats(server, queue).get("buried", 0) == 0
    assert_drained(server, queue, done=1)


async def test_a_handler_that_swallows_its_cancellation_is_waited_for(
    server: Server, queue: rota.Queue
) -> None:
    """What it does afterwards counts: returning is done, raising is a failed attempt. Its slot
    is its own until then; others work meanwhile."""
    ran: Counter[str] = Counter()

    @queue.task(timeout=0.1, max_attempts=2, backoff=rota.Backoff(base=0.01, jitter=0))
    async def stubborn(then: str) -> None:
        ran[then] += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)
        if then == "raise":
            raise ValueError("after all")

    @queue.task
    async def quick() -> None:
        ran["quick"] += 1

    await stubborn.enqueue("return")
    await stubborn.enqueue("raise")
    await queue.enqueue_many(quick.spec() for _ in range(20))
    async with working(queue, slots=3):
        await eventually_async(
            lambda: stats(server, queue).get("completed", 0) >= 20, "the others have to wait"
        )
        await until_done(server, queue, 21)
        await until_done(server, queue, 1, name="buried")
    assert ran == {"return": 1, "raise": 2, "quick": 20}
    (dead,) = await queue.dead.list()
    assert "after all" in str(dead.error)
    assert_sound(server, queue)


@pytest.mark.usefixtures("quick_renewals")
async def test_a_handler_that_never_awaits_costs_the_loop_not_the_lease(
    server: Server, queue: rota.Queue
) -> None:
    """Its time-out cannot reach it; it runs once, and is done. The grace period is long: a worker
    whose loop hangs for longer than both ends the process."""
    starts = []

    @queue.task(timeout=0.2)
    async def hog() -> None:
        starts.append(time.monotonic())
        enough = queue.consuming.keeper.renewals + 3
        while queue.consuming.keeper.renewals < enough and time.monotonic() < starts[0] + PATIENCE:
            pass

    await hog.enqueue()
    async with working(queue, slots=2, grace=60):
        await until_done(server, queue, 1)
    assert len(starts) == 1
    assert time.monotonic() < starts[0] + PATIENCE, "nobody renewed the lease"
    assert_drained(server, queue, done=1)


async def test_a_stop_leaves_a_thread_to_itself_and_gives_its_job_back(
    server: Server, queue: rota.Queue
) -> None:
    started, may_end, done = threading.Event(), threading.Event(), threading.Event()

    @queue.task
    def slow() -> None:
        started.set()
        may_end.wait(PATIENCE)
        done.set()

    await slow.enqueue()
    async with working(queue, grace=0.2):
        await eventually_async(started.is_set, "it does not start")
        began = time.monotonic()
    assert time.monotonic() - began < IN_TIME
    assert not done.is_set()
    found = assert_sound(server, queue)
    assert found.counts("stats")["waiting"] == 1
    assert found.counts("attempts") == {}
    may_end.set()
    assert done.wait(IN_TIME)
