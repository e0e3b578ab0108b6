"""dramatiq."""

from __future__ import annotations

import dramatiq
from bench import URL, Tally, arguments, enqueue
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)
tally = Tally()


@dramatiq.actor
def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


if __name__ == "__main__":
    enqueue(single=lambda i: noop.send(*arguments(i)))
