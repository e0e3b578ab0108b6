"""SAQ: a list of job ids, taken with BLMOVE by as many tasks as the worker has places."""

from __future__ import annotations

import asyncio

import uvloop
from bench import URL, Tally, arguments, enqueue_async
from saq import Queue

queue = Queue.from_url(URL, max_concurrent_ops=50)
tally = Tally()


async def noop(ctx: dict, *, tenant: str, n: int, note: str) -> None:
    tally.hit()


settings = {
    "queue": queue,
    "functions": [noop],
    "concurrency": 100,
}


async def add(i: int) -> object:
    tenant, n, note = arguments(i)
    return await queue.enqueue("noop", tenant=tenant, n=n, note=note, ttl=-1)  # no result kept


async def main() -> None:
    await enqueue_async(single=add)


asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
if __name__ == "__main__":
    asyncio.run(main())
