"""Queues for the dashboard to show."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import rota
from tests.support.queues import open_queue, spec
from tests.support.servers import Server

REFUSED = """Traceback (most recent call last):
  File "app.py", line 7, in charge
    raise ValueError("card 4711 refused")
ValueError: card 4711 refused"""


@pytest.fixture
async def queue(valkey: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    """The test's queue, empty, with the short clock."""
    async with open_queue(valkey, queue_name) as opened:
        yield opened


@pytest.fixture
async def busy(queue: rota.Queue) -> AsyncIterator[rota.Queue]:
    """With jobs in every state: waiting, delayed, running, in sequences, dead of two errors."""
    lane = queue.lane("big")
    await lane.set(ceiling=2, weight=2, rate=rota.Rate(100, per=60, burst=20))
    await queue.set_template("gold", ceiling=7)
    dying = [spec("failing", "charge", payload=b'{"n":%d}' % n) for n in range(4)]
    await queue.enqueue_many(dying)
    async with queue.consumer() as consumer:
        jobs = await consumer.claim(4)
        await consumer.bury(jobs[:3], REFUSED)
        await consumer.bury(jobs[3:], "OSError: no route")
        await queue.enqueue_many([spec("big", "send") for _ in range(12)])
        await queue.enqueue_many([spec("orders", "ship", ordering_key="o-1") for _ in range(3)])
        await queue.enqueue_many([spec("later", "send", delay_ms=600_000) for _ in range(2)])
        await consumer.claim(3)
        yield queue
