"""What do 200 idle consumers in one process cost?

They wait in `claim(wait=…)` on an empty queue. Shown: commands that reach the server per second
(INFO commandstats, those sent by clients), and this process's CPU time against the clock.
Everything that waits is counted: the doorbell, the looks at each beat, heartbeats, beats. Not
shown: a queue in which something falls due, several processes.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import rota
from benchmarks.report import Figure, Plan, figure
from benchmarks.server import Server

CONSUMERS = 200
MOST_COMMANDS = 1.0
MOST_CPU = 1.0
SETTLE_S = 6.0
"""Longer than a beat: every consumer has had its first answers."""


def run(server: Server, plan: Plan) -> list[Figure]:
    return asyncio.run(_run(server, plan))


async def _run(server: Server, plan: Plan) -> list[Figure]:
    span = plan.size(30, 10)
    queue = rota.Queue("idle", url=server.url)
    async with AsyncExitStack() as stack:
        consumers = [await stack.enter_async_context(queue.consumer()) for _ in range(CONSUMERS)]
        waiting = [asyncio.create_task(one.claim(wait=3600)) for one in consumers]
        await asyncio.sleep(SETTLE_S)
        before, clock, cpu = server.work(), time.perf_counter(), time.process_time()
        await asyncio.sleep(span)
        passed = time.perf_counter() - clock
        busy = time.process_time() - cpu
        sent = server.work().since(before).sent
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    await queue.close()
    note = f"over {span} s"
    return [
        figure(
            f"commands sent by {CONSUMERS} idle consumers",
            [sent / passed],
            "per s",
            at_most=MOST_COMMANDS,
            note=note,
        ),
        figure("CPU of their process", [100 * busy / passed], "%", at_most=MOST_CPU, note=note),
    ]
