"""Fixtures of the tests of what goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

import rota
from tests.failures.tools import Timed
from tests.support.clock import Clock, on_test_clock
from tests.support.faulty import Break, Faulty
from tests.support.queues import open_queue
from tests.support.servers import Server
from tests.support.times import SHORT_BEAT


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


@pytest.fixture
async def beating(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    """A queue for what is left to the beats of its workers."""
    async with open_queue(server, queue_name, beat=SHORT_BEAT) as queue:
        yield queue


@pytest.fixture
async def timed(server: Server, queue_name: str) -> AsyncIterator[Timed]:
    """A queue whose time the test tells."""
    queue = on_test_clock(rota.Queue(queue_name, url=server.url))
    yield Timed(queue, Clock(server.raw(), queue.link.keys))
    await queue.close()


@pytest.fixture
def faulty() -> Iterator[Break]:
    """Puts proxies in front of servers that answer chosen commands with errors."""
    made: list[Faulty] = []

    def put(server: Server) -> Faulty:
        made.append(Faulty(server))
        return made[-1]

    yield put
    for one in made:
        one.close()
