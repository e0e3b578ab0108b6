"""Huey."""

from __future__ import annotations

from bench import HOST, PORT, Tally, arguments, enqueue
from huey import RedisHuey

huey = RedisHuey("bench", results=False, host=HOST, port=PORT)
tally = Tally()


@huey.task()
def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


if __name__ == "__main__":
    enqueue(single=lambda i: noop(*arguments(i)))
