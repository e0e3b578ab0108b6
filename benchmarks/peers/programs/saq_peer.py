"""SAQ: a list of job ids, moved one by one by as many tasks as the worker has places."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from bench import AT_ONCE, URL, Tally, arguments, measure_async
from saq import Queue

queue = Queue.from_url(URL, max_concurrent_ops=AT_ONCE)  # else 20 of the 50 tasks at once
tally = Tally()


async def noop(ctx: dict[str, Any], *, tenant: str, n: int, note: str) -> None:
    tally.hit()


settings = {
    "queue": queue,
    "functions": [noop],
    "concurrency": 50,  # its default is 10; 100 are no faster
}


async def _single(i: int) -> object:
    tenant, n, note = arguments(i)
    # No result is kept; a second try, else a crash ends the job.
    return await queue.enqueue("noop", tenant=tenant, n=n, note=note, ttl=-1, retries=2)


def enqueue() -> None:
    asyncio.run(measure_async(single=_single))


# Not in its documents, but faster: its worker takes the loop of the policy.
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
