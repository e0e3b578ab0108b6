"""RQ."""

from __future__ import annotations

from bench import URL, Tally, arguments, enqueue
from redis import Redis
from rq import Queue

tally = Tally()


def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


if __name__ == "__main__":
    queue = Queue("bench", connection=Redis.from_url(URL))

    def add(i: int) -> object:
        return queue.enqueue("rq_peer.noop", *arguments(i), result_ttl=0)

    def add_all(numbers: range) -> object:
        return queue.enqueue_many(
            [Queue.prepare_data("rq_peer.noop", arguments(i), result_ttl=0) for i in numbers]
        )

    enqueue(single=add, batch=add_all)
