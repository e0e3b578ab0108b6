"""Celery."""

from __future__ import annotations

import os
from bench import URL, Tally, arguments, enqueue
from celery import Celery

app = Celery("celery_peer", broker=URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=int(os.environ.get("M", "4")),
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
)
tally = Tally()


@app.task(name="noop")
def noop(tenant: str, n: int, note: str) -> None:
    tally.hit()


if __name__ == "__main__":
    with app.producer_pool.acquire() as producer:
        enqueue(single=lambda i: noop.apply_async(arguments(i), producer=producer))
