"""taskiq: its stream broker, which acknowledges; the list broker does not and was slower."""

from __future__ import annotations

import uvloop
from bench import URL, Tally, arguments, measure_async
from taskiq_redis import RedisStreamBroker

# No result backend. `consumer_id`: from the first message, also what was sent before the worker.
broker = RedisStreamBroker(URL, consumer_id="0", xread_count=100)
tally = Tally()


@broker.task(task_name="noop")
async def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


async def _enqueue() -> None:
    await broker.startup()
    await measure_async(single=lambda i: noop.kiq(*arguments(i)))
    await broker.shutdown()


def enqueue() -> None:
    uvloop.run(_enqueue())
