"""arq: a sorted set of job ids; the worker polls it and takes jobs with WATCH, one by one."""

from __future__ import annotations

import asyncio

import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from bench import HOST, PORT, Tally, arguments, enqueue_async

REDIS = RedisSettings(host=HOST, port=PORT)
tally = Tally()


async def noop(ctx: dict, tenant: str, n: int, note: str) -> None:
    tally.hit()


class WorkerSettings:
    functions = [noop]  # noqa: RUF012 (the shape arq's documents show)
    redis_settings = REDIS
    max_jobs = 100
    poll_delay = 0.001  # else it sleeps half a second after each read of the queue
    keep_result = 0
    log_results = False


async def main() -> None:
    pool = await create_pool(REDIS)
    await enqueue_async(single=lambda i: pool.enqueue_job("noop", *arguments(i)))


asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
if __name__ == "__main__":
    asyncio.run(main())
