"""How many jobs a second does one process enqueue, and one process work off?

*work*: a `rota.Worker` in this process, no-op async jobs on 1,000 lanes, 100 slots, in a burst
over what was enqueued before; the server is the only other process. *by hand*: the same jobs
claimed and completed by a consumer, fifty at a time and one at a time. *enqueue*: typed jobs in
calls of 100; one call per job, one after the other; and so by fifty
tasks of one event loop. Figures are by the wall clock and count
client and server together, so they move with the machine and with what else runs on it; compare
only figures of one run. Not shown: handlers that do anything, several worker processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import rota
from benchmarks.report import Figure, Plan, figure, ratio
from benchmarks.server import Server

LANES = 1_000
BATCH = 100
CALLERS = 50


def run(server: Server, plan: Plan) -> list[Figure]:
    return asyncio.run(_run(server, plan))


async def _run(server: Server, plan: Plan) -> list[Figure]:
    queue = rota.Queue("throughput", url=server.url)

    @queue.task(lane_from="tenant")
    async def noop(tenant: str, n: int) -> None:
        pass

    many, few = plan.size(20_000, 5_000), plan.size(2_000, 500)

    def specs(n: int) -> list[rota.JobSpec]:
        return [noop.spec(f"tenant-{i % LANES}", i) for i in range(n)]

    async def fill(n: int) -> None:
        made = specs(n)
        for first in range(0, n, BATCH):
            await queue.enqueue_many(made[first : first + BATCH])

    async def work() -> None:
        await rota.Worker(queue).run(burst=True)

    async def at_once() -> None:
        numbers = iter(range(few * 5))

        async def caller() -> None:
            for i in numbers:
                await noop.enqueue(f"tenant-{i % LANES}", i)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def single() -> None:
        for i in range(few):
            await noop.enqueue(f"tenant-{i % LANES}", i)

    rates: dict[str, list[float]] = {
        "enqueue": [], "work": [], "single": [], "at once": [], "fifty": [], "one": [],
    }  # fmt: skip
    await fill(BATCH)
    await work()
    for _ in range(plan.runs):
        rates["enqueue"].append(await _rate(many, lambda: fill(many)))
        rates["work"].append(await _rate(many, work))
        rates["single"].append(await _rate(few, single))
        rates["at once"].append(await _rate(few * 5, at_once))
        await work()
        await fill(many)
        rates["fifty"].append(await _by_hand(queue, many - few, 50))
        rates["one"].append(await _by_hand(queue, few, 1))
    await queue.close()
    return [
        figure("work, one process, no-op", rates["work"], "jobs/s"),
        figure("enqueue, calls of 100, specs made on the way", rates["enqueue"], "jobs/s"),
        figure("enqueue, one call per job", rates["single"], "jobs/s"),
        figure("by hand, fifty at a time", rates["fifty"], "jobs/s"),
        figure("by hand, one at a time", rates["one"], "jobs/s"),
        figure(f"enqueue, {CALLERS} callers at once, one job a call", rates["at once"], "jobs/s"),
        ratio(f"enqueue, {CALLERS} callers : one", rates["at once"], rates["single"], at_least=5.0),
        ratio("by hand, fifty : one", rates["fifty"], rates["one"], at_least=3.0),
    ]


async def _rate(jobs: int, action: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await action()
    return jobs / (time.perf_counter() - began)


async def _by_hand(queue: rota.Queue, jobs: int, at_once: int) -> float:
    async with queue.consumer() as consumer:

        async def work() -> None:
            left, done = jobs, list[rota.Job]()
            while left > 0:
                done = await consumer.exchange(done, min(at_once, left))
                left -= len(done)
            await consumer.complete(done)

        return await _rate(jobs, work)
