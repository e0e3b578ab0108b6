"""RQ: a list, popped by a worker that runs one job at a time."""

from __future__ import annotations

from bench import URL, Tally, arguments, measure
from redis import Redis
from rq import Queue

tally = Tally()


def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


def enqueue() -> None:
    queue = Queue("bench", connection=Redis.from_url(URL))

    def single(i: int) -> object:
        return queue.enqueue("rq_peer.noop", *arguments(i), result_ttl=0)  # no result is kept

    def batch(numbers: range) -> object:
        return queue.enqueue_many(
            [Queue.prepare_data("rq_peer.noop", arguments(i), result_ttl=0) for i in numbers]
        )

    measure(single=single, batch=batch)
