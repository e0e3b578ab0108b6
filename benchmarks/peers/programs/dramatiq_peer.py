"""dramatiq: threads that share what one consumer thread prefetches."""

from __future__ import annotations

import dramatiq
from bench import URL, Tally, arguments, measure
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=URL))
tally = Tally()


@dramatiq.actor
def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


def enqueue() -> None:
    measure(single=lambda i: noop.send(*arguments(i)))
