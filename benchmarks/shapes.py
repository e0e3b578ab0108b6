"""Do long handlers, slow lanes, large payloads and 10,000 slots break the shape?

*long*: handlers of 50 ms on 100 slots, against what 100 slots can do at best. *slow lane*: fast
jobs of many lanes beside a lane at its ceiling whose handlers take 200 ms, against the same fast
jobs alone. *large*: jobs of 1 MiB from enqueue to done, against SET, GET and DEL of the same bytes
by the same client. *10,000 slots*: handlers of 1 s, against what 10,000 slots can do at best.
Each ratio is taken within one round. Not shown: plain functions in threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import redis.asyncio

import rota
from benchmarks.report import Figure, Plan, ratio
from benchmarks.server import Server

LARGE = 1024 * 1024 - 100


def run(server: Server, plan: Plan) -> list[Figure]:
    return asyncio.run(_run(server, plan))


async def _run(server: Server, plan: Plan) -> list[Figure]:
    queue = rota.Queue("shapes", url=server.url)
    handlers = _Handlers(queue)
    figures = []
    for part in (_long, _slow_lane, _large, _many_slots):
        above, below = [], []
        name = ""
        for _ in range(plan.runs):
            name, ours, best = await part(server, queue, handlers, plan)
            above.append(ours)
            below.append(best)
        figures.append(ratio(name, above, below))
    await queue.close()
    return figures


class _Handlers:
    def __init__(self, queue: rota.Queue) -> None:
        @queue.task(lane_from="tenant")
        async def sleep(tenant: str, ms: int) -> None:
            await asyncio.sleep(ms / 1000)

        @queue.task(lane_from="tenant")
        async def take(tenant: str, text: str) -> None:
            self._left -= 1
            if not self._left:
                self.taken.set()

        self.sleep = sleep
        self.take = take
        self.taken = asyncio.Event()
        self._left = 0

    def expect(self, jobs: int) -> None:
        """`taken` is set when so many `take`s have run."""
        self._left = jobs
        self.taken.clear()


async def _seconds(action: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await action()
    return time.perf_counter() - began


async def _burst(queue: rota.Queue, slots: int) -> float:
    return await _seconds(lambda: rota.Worker(queue, concurrency=slots).run(burst=True))


async def _long(
    server: Server, queue: rota.Queue, handlers: _Handlers, plan: Plan
) -> tuple[str, float, float]:
    jobs = plan.size(4_000, 1_000)
    await queue.enqueue_many(handlers.sleep.spec(f"t{n % 100}", 50) for n in range(jobs))
    took = await _burst(queue, 100)
    return "handlers of 50 ms, 100 slots: time : the best possible", took, jobs / 100 * 0.05


async def _slow_lane(
    server: Server, queue: rota.Queue, handlers: _Handlers, plan: Plan
) -> tuple[str, float, float]:
    jobs = plan.size(10_000, 3_000)

    async def run(slots: int) -> float:
        handlers.expect(jobs)
        await queue.enqueue_many(handlers.take.spec(f"t{n % 100}", "x") for n in range(jobs))
        async with rota.Worker(queue, concurrency=slots):
            return await _seconds(handlers.taken.wait)

    alone = await run(100)
    slow = queue.lane("slow")
    await slow.set(ceiling=10)
    await queue.enqueue_many(handlers.sleep.spec("slow", 200) for _ in range(1000))
    beside = await run(110)
    await slow.cancel()
    await slow.reset()
    return "fast jobs beside a slow lane at its ceiling : alone", beside, alone


async def _large(
    server: Server, queue: rota.Queue, handlers: _Handlers, plan: Plan
) -> tuple[str, float, float]:
    jobs, text = plan.size(100, 30), "x" * LARGE
    raw = redis.asyncio.Redis.from_url(server.url)

    async def bare() -> None:
        for n in range(jobs):
            await raw.set(f"bench-{n}", text)
        for n in range(jobs):
            await raw.get(f"bench-{n}")
            await raw.delete(f"bench-{n}")

    async def ours() -> None:
        for n in range(jobs):
            await handlers.take.enqueue(f"t{n % 10}", text)
        await rota.Worker(queue).run(burst=True)

    best, took = await _seconds(bare), await _seconds(ours)
    await raw.aclose()
    return "jobs of 1 MiB, enqueued and run : SET, GET, DEL", took, best


async def _many_slots(
    server: Server, queue: rota.Queue, handlers: _Handlers, plan: Plan
) -> tuple[str, float, float]:
    jobs = plan.size(30_000, 10_000)
    await queue.enqueue_many(handlers.sleep.spec(f"t{n % 1000}", 1000) for n in range(jobs))
    took = await _burst(queue, 10_000)
    return "handlers of 1 s, 10,000 slots: time : the best possible", took, float(jobs // 10_000)
