"""arq: job ids in a sorted set; the worker reads it and takes each job by WATCH and MULTI."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from bench import HOST, PORT, Tally, arguments, measure_async

REDIS = RedisSettings(host=HOST, port=PORT)
tally = Tally()


async def noop(ctx: dict[str, Any], tenant: str, n: int, note: str) -> None:
    tally.hit()


class WorkerSettings:
    functions = (noop,)
    redis_settings = REDIS
    max_jobs = 100
    poll_delay = 0.001  # else it waits half a second between two reads of the queue
    keep_result = 0  # no results
    log_results = False


async def _enqueue() -> None:
    pool = await create_pool(REDIS)
    await measure_async(single=lambda i: pool.enqueue_job("noop", *arguments(i)))


def enqueue() -> None:
    asyncio.run(_enqueue())


# Not in its documents, but faster: its worker takes the loop of the policy.
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
