"""streaQ: a stream with a consumer group; what a worker may prefetch it reads at once."""

from __future__ import annotations

import uvloop
from bench import URL, Tally, arguments, measure_async
from streaq import Worker

worker = Worker(
    redis_url=URL,
    concurrency=100,  # it prefetches as many
    anyio_kwargs={"use_uvloop": True},
)
tally = Tally()


@worker.task(ttl=0, silent=True)  # no results; no two log lines per job
async def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


async def _single(i: int) -> object:
    return await noop.enqueue(*arguments(i))


async def _batch(numbers: range) -> None:
    await worker.enqueue_many([noop.enqueue(*arguments(i)) for i in numbers])


async def _enqueue() -> None:
    async with worker:
        await measure_async(single=_single, batch=_batch)


def enqueue() -> None:
    uvloop.run(_enqueue())
