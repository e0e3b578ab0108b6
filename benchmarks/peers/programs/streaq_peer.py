"""streaQ: a stream with a consumer group; a worker prefetches and pipelines what it can."""

from __future__ import annotations

import asyncio
import os

from bench import URL, Tally, arguments, enqueue_async
from streaq import Worker

worker = Worker(
    redis_url=URL,
    concurrency=int(os.environ.get("C", "100")),
    anyio_kwargs={"use_uvloop": True},
)
tally = Tally()


@worker.task(ttl=0, silent=True)
async def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


async def add(i: int) -> object:
    return await noop.enqueue(*arguments(i))


async def add_all(numbers: range) -> None:
    await worker.enqueue_many([noop.enqueue(*arguments(i)) for i in numbers])


async def main() -> None:
    async with worker:
        await enqueue_async(single=add, batch=add_all)


if __name__ == "__main__":
    import uvloop

    asyncio.run(main(), loop_factory=uvloop.new_event_loop) if False else uvloop.run(main())
