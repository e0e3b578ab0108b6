"""rota: a lane per tenant, each with a ceiling; leases, at least once."""

from __future__ import annotations

import asyncio

from bench import URL, Tally, arguments, measure_async

import rota

queue = rota.Queue("bench", url=URL, default_ceiling=10)
tally = Tally()


@queue.task(lane_from="tenant")
async def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


async def _batch(numbers: range) -> None:
    await queue.enqueue_many([noop.spec(*arguments(i)) for i in numbers])


async def _enqueue() -> None:
    await measure_async(single=lambda i: noop.enqueue(*arguments(i)), batch=_batch)
    await queue.close()


def enqueue() -> None:
    try:
        import uvloop
    except ImportError:  # it runs in an environment that is not its own
        asyncio.run(_enqueue())
    else:
        uvloop.run(_enqueue())
