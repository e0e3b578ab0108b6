"""Celery: kombu's lists; one thread fetches and runs."""

from __future__ import annotations

from bench import URL, Tally, arguments, measure
from celery import Celery

app = Celery("celery_peer", broker=URL)
app.conf.update(
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    worker_prefetch_multiplier=16,  # its guide: many for short tasks; the default is 4
    worker_enable_remote_control=False,
)
tally = Tally()


@app.task(name="noop")
def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


def enqueue() -> None:
    with app.producer_pool.acquire() as producer:  # else one is taken for each call
        measure(single=lambda i: noop.apply_async(arguments(i), producer=producer))
