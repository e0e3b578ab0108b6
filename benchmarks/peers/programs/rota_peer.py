"""rota: a lane per tenant, ceilings and leases on, at-least-once."""

from __future__ import annotations

import asyncio

import rota
from bench import URL, Tally, arguments, enqueue_async

queue = rota.Queue("bench", url=URL, default_ceiling=10)
tally = Tally()


@queue.task(lane_from="tenant")
async def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


async def add_all(numbers: range) -> None:
    await queue.enqueue_many([noop.spec(*arguments(i)) for i in numbers])


async def main() -> None:
    await enqueue_async(single=lambda i: noop.enqueue(*arguments(i)), batch=add_all)
    await queue.close()


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())
