"""taskiq-redis."""

from __future__ import annotations

import os
import uvloop
from bench import URL, Tally, arguments, enqueue_async
from taskiq_redis import ListQueueBroker, RedisStreamBroker

if os.environ.get("B") == "list":
    broker = ListQueueBroker(URL)
else:
    broker = RedisStreamBroker(URL, consumer_id="0", xread_count=int(os.environ.get("X", "100")))
tally = Tally()


@broker.task
async def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


async def main() -> None:
    await broker.startup()
    await enqueue_async(single=lambda i: noop.kiq(*arguments(i)))


if __name__ == "__main__":
    uvloop.run(main())
