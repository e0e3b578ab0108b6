"""A module with a queue, for `rota worker`: what the worker processes of the benchmarks run."""

from __future__ import annotations

import asyncio

import rota

LANES = 1_000
queue = rota.Queue("processes", default_ceiling=100)


@queue.task(lane_from="tenant")
async def noop(tenant: str, n: int) -> None:
    pass


@queue.task(lane_from="tenant")
async def reckon(tenant: str, n: int) -> None:
    """Some hundred microseconds of a core: a worker that runs these leaves the server room."""
    sum(range(10_000))


@queue.task(lane_from="tenant")
async def pause(tenant: str, ms: int) -> None:
    await asyncio.sleep(ms / 1000)
