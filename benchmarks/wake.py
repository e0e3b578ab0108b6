"""How soon does a parked worker start a job?

One event loop holds an idle `rota.Worker` and the enqueuer; a sample is the time from calling
`enqueue` to the first line of the handler. Beside it, in turn, the least that any doorbell
takes: LPUSH on one connection wakes BLPOP on another, same client library, same loop. The
worker has more to do: an enqueue script, the wake, a claim script, decoding, a task. Medians;
the spread of single samples is the machine's. Not shown: separate machines, busy workers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median, quantiles

import redis.asyncio

import rota
from benchmarks.report import Figure, Plan, figure, ratio
from benchmarks.server import Server

Command = Callable[..., Awaitable[object]]
MOST = 1.5
SETTLE_S = 0.002
"""A pause before each sample, so that the last one's worker is parked again."""


def run(server: Server, plan: Plan) -> list[Figure]:
    return asyncio.run(_run(server, plan))


async def _run(server: Server, plan: Plan) -> list[Figure]:
    queue = rota.Queue("wake", url=server.url)
    started: asyncio.Queue[float] = asyncio.Queue()

    @queue.task
    async def note() -> None:
        started.put_nowait(time.perf_counter())

    samples = plan.size(300, 100)
    raw = redis.asyncio.Redis.from_url(server.url)
    waiter = redis.asyncio.Redis.from_url(server.url)
    ours, bare, tails = [], [], []
    async with rota.Worker(queue):
        await note.enqueue()
        await started.get()
        for _ in range(plan.runs):
            jobs, bells = [], []
            for _ in range(samples):
                await asyncio.sleep(SETTLE_S)
                began = time.perf_counter()
                await note.enqueue()
                jobs.append(await started.get() - began)
                bells.append(await _bell(raw, waiter))
            ours.append(median(jobs) * 1e6)
            bare.append(median(bells) * 1e6)
            tails.append(quantiles(jobs, n=100)[98] * 1e6)
    await raw.aclose()
    await waiter.aclose()
    await queue.close()
    return [
        figure("enqueue → handler starts, idle worker", ours, "µs"),
        figure("the same, 99th percentile", tails, "µs"),
        figure("LPUSH → BLPOP returns", bare, "µs"),
        ratio("rota : bare", ours, bare, at_most=MOST),
    ]


async def _bell(raw: redis.asyncio.Redis, waiter: redis.asyncio.Redis) -> float:
    push: Command = raw.execute_command  # the client leaves its parameters untyped
    pop: Command = waiter.execute_command

    async def wait() -> float:
        await pop("BLPOP", "bench-bell", 5)
        return time.perf_counter()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(SETTLE_S)
    began = time.perf_counter()
    await push("LPUSH", "bench-bell", "1")
    return await waiting - began
