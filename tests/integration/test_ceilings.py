"""Ceilings hold over processes, whatever is changed or killed meanwhile (C32)."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import rota
from rota.worker import Worker
from tests.support import child
from tests.support.child import Event, Order
from tests.support.queues import assert_drained, dump, end_leases, open_queue, spec
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, PATIENCE
from tests.support.waiting import eventually_async

BEAT = 0.5
LAG_S = 0.25
"""Between a claim and the line its handler writes, and between a change and its answer."""
JOBS = 1600

Change = tuple[float, str, float]
"""When, which lane, its ceiling from then on."""


@pytest.fixture
def start() -> Iterator[Callable[[Order], subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []

    def run(order: Order) -> subprocess.Popen[bytes]:
        children.append(child.start(order))
        return children[-1]

    yield run
    for one in children:
        one.kill()
        one.wait(IN_TIME)


async def test_ceilings_hold_over_processes(
    valkey: Server,
    queue_name: str,
    start: Callable[[Order], subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    """20 lanes, 64 consumers in 4 processes, 20,000 tasks, a kill each 2 s scaled to 8 lanes, 64
    slots, 1,600 tasks and one kill."""
    log, rand = tmp_path / "log", random.Random(32)
    lanes = [f"l{n}" for n in range(8)]
    changes: list[Change] = []
    deaths: dict[int, float] = {}
    async with open_queue(valkey, queue_name, beat=BEAT) as queue, stalls() as stalled:

        async def change(lane: str, ceiling: int | None) -> None:
            before = time.monotonic()
            await queue.lane(lane).set(ceiling=ceiling)
            limit = float("inf") if ceiling is None else float(ceiling)
            # A raise may be used before its answer, a cut holds from its answer on.
            changes.append((before, lane, limit))
            changes.append((time.monotonic(), lane, limit))

        for n, lane in enumerate(lanes):
            await change(lane, 1 + n % 5)
        order = Order(
            url=valkey.url, queue=queue.name, log=str(log), slots=16, lease=LEASE, beat=BEAT
        )
        children = [start(order) for _ in range(4)]
        await eventually_async(
            lambda: len(dump(valkey, queue).get("consumers")) == 4,
            "the children do not start",
            timeout=PATIENCE,
        )
        await queue.enqueue_many(
            spec(
                lanes[n % 8],
                task="mixed",
                payload=b'{"seconds": %f, "n": %d}' % (rand.uniform(0, 0.005), n),
            )
            for n in range(JOBS)
        )
        for round in range(12):
            await change(rand.choice(lanes[1:]), rand.choice([0, 1, 2, 5, None]))
            if round == 4:
                children[0].kill()
                await asyncio.to_thread(children[0].wait, IN_TIME)
                deaths[children[0].pid] = time.monotonic()
                end_leases(valkey, queue, children[0].pid)
                start(order)
            await asyncio.sleep(0.08)
        await change("l0", 0)
        stopped = time.monotonic()
        await asyncio.sleep(0.4)
        for lane in lanes:
            await change(lane, 5)
        await eventually_async(
            lambda: dump(valkey, queue).counts("stats").get("completed") == JOBS,
            "not all jobs were done",
            timeout=PATIENCE,
        )
        assert_drained(valkey, queue, done=JOBS)
    events = child.read_log(log)
    assert len({event.pid for event in events}) >= 4
    lag = LAG_S + max(stalled)
    for lane in lanes:
        _check(
            [e for e in events if e.lane == lane], [c for c in changes if c[1] == lane], deaths, lag
        )
    after = [e for e in events if e.lane == "l0" and e.what == "start"]
    assert not [e for e in after if stopped + lag < e.at < stopped + 0.4]


@asynccontextmanager
async def stalls() -> AsyncIterator[list[float]]:
    """For how long the machine stood still meanwhile, each time."""
    found = [0.0]

    async def watch() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            found.append(time.monotonic() - began)

    watching = asyncio.create_task(watch())
    yield found
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def _check(
    events: list[Event], changes: list[Change], deaths: dict[int, float], lag: float
) -> None:
    """At each start no more ran than the highest ceiling that was valid around its claim."""
    running: dict[tuple[int, str], float] = {}
    for event in sorted(events, key=lambda event: event.at):
        if event.what == "end":
            running.pop((event.pid, event.job), None)
            continue
        running[event.pid, event.job] = event.at
        for pid, job in list(running):
            if deaths.get(pid, float("inf")) < event.at:
                del running[pid, job]
        earlier = [limit for at, _, limit in changes if at <= event.at - lag][-1:]
        recent = [limit for at, _, limit in changes if event.at - lag < at <= event.at]
        assert len(running) <= max(earlier + recent), (event, running)


async def test_a_raised_ceiling_wakes_idle_workers_at_once(server: Server, queue_name: str) -> None:
    """And a lowered one stops nothing that runs, but lets nothing start until below."""
    async with open_queue(server, queue_name) as queue:
        release, started = asyncio.Event(), list[str]()

        @queue.task
        async def work() -> None:
            started.append(rota.current_job().id)
            await release.wait()

        workers = [Worker(queue, concurrency=5, lease=LEASE) for _ in range(2)]
        runs = [asyncio.create_task(worker.run()) for worker in workers]
        lane = queue.lane("a")
        await lane.set(ceiling=2)
        await queue.enqueue_many(work.options(lane="a").spec() for _ in range(9))
        await eventually_async(lambda: len(started) == 2, "they do not start")
        for ceiling in (4, 6):
            await lane.set(ceiling=ceiling)
            await eventually_async(lambda: len(started) == ceiling, "they do not start")
        await lane.set(ceiling=1)
        await asyncio.sleep(0.1)
        assert len(started) == 6
        info = await lane.info()
        assert (info.running, info.ceiling) == (6, 1)
        release.set()
        await eventually_async(lambda: len(started) == 9, "the rest does not run")
        for worker in workers:
            worker.stop()
        await asyncio.gather(*runs)
        assert_drained(server, queue, done=9)
