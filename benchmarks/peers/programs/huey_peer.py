"""Huey: a list, popped by each of the worker's threads."""

from __future__ import annotations

from bench import HOST, PORT, Tally, arguments, measure
from huey import RedisHuey

huey = RedisHuey("bench", results=False, host=HOST, port=PORT)
tally = Tally()


@huey.task()
def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


def enqueue() -> None:
    measure(single=lambda i: noop(*arguments(i)))
