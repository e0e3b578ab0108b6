"""How late does a delayed job start on an idle worker?

Jobs with delays between 0.2 and 1.2 s, a few hundred of them at a time, on one worker with slots
to spare; late is the start of the handler against the instant asked for, by this machine's clock,
which is the server's too. A delay is kept in whole milliseconds: up to one is rounding. Not shown:
a busy worker, thousands that fall due at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from statistics import median, quantiles

import rota
from benchmarks.report import Figure, Plan, figure
from benchmarks.server import Server

MOST_LATE_MS = 5.0


def run(server: Server, plan: Plan) -> list[Figure]:
    return asyncio.run(_run(server, plan))


async def _run(server: Server, plan: Plan) -> list[Figure]:
    queue = rota.Queue("delays", url=server.url)
    late: asyncio.Queue[float] = asyncio.Queue()

    @queue.task
    async def note(due: float) -> None:
        late.put_nowait(time.time() - due)

    jobs, dice = plan.size(400, 150), random.Random(5)
    middles, tails = [], []
    async with rota.Worker(queue, concurrency=200):
        for _ in range(plan.runs):
            for _ in range(jobs):
                due = time.time() + dice.uniform(0.2, 1.2)
                await note.options(at=due).enqueue(due)
            found = [await late.get() * 1000 for _ in range(jobs)]
            middles.append(median(found))
            tails.append(quantiles(found, n=100)[98])
    await queue.close()
    return [
        figure("late, median", middles, "ms"),
        figure("late, 99th percentile", tails, "ms", at_most=MOST_LATE_MS),
    ]
