"""Jobs that die before they are run: a worker counts them and says why, once each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import rota
from rota.observe.observer import JobCounts
from rota.testing import drain
from rota.worker import Worker
from tests.support.queues import open_queue
from tests.support.servers import Server
from tests.support.times import LEASE


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


async def fill(queue: rota.Queue) -> dict[str, str]:
    """One that runs, three that cannot: the reasons by their ids."""

    @queue.task
    async def work(n: int) -> None:
        pass

    stale = timedelta(milliseconds=1)
    await work.options(lane="t1", id="fine").enqueue(1)
    await queue.enqueue(rota.JobSpec(task="nobody's", lane="t1", id="unknown"))
    await queue.enqueue(rota.JobSpec(task="work", lane="t2", id="misfit", payload=b'{"m": 2}'))
    await work.options(lane="t3", id="expired", expires=stale, ordering_key="k").enqueue(3)
    await asyncio.sleep(0.01)
    return {"unknown": "nobody's", "misfit": "does not fit", "expired": "expired before"}


def of_refused(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [one for one in caplog.records if "was not run" in one.getMessage()]


async def test_a_worker_counts_them_as_dead_and_says_why(
    queue: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    reasons = await fill(queue)
    worker, counts = Worker(queue, lease=LEASE), JobCounts()
    worker.observe(queue, counts)
    assert await worker.run(burst=True) == rota.Drained(done=1, retried=0, dead=3, left=0)
    lines = {vars(one)["job"]: one for one in of_refused(caplog)}
    assert len(of_refused(caplog)) == len(lines) == 3
    for id, why in reasons.items():
        said = vars(lines[id])
        assert (said["name"], said["levelname"]) == ("rota.job", "WARNING")
        assert (said["queue"], said["outcome"]) == (queue.name, "refused")
        start, _, reason = lines[id].getMessage().partition(" was not run and is dead: ")
        assert start == f"job {id} of task {said['task']} in lane {said['lane']}"
        assert why in reason
    assert (vars(lines["unknown"])["task"], vars(lines["unknown"])["lane"]) == ("nobody's", "t1")
    assert vars(lines["expired"])["ordering_key"] == "k"
    assert counts.jobs == {("work", "completed"): 1, ("", "refused"): 3}
    assert {job.id async for job in queue.dead.iterate()} == set(reasons)


async def test_drain_counts_them(queue: rota.Queue, caplog: pytest.LogCaptureFixture) -> None:
    await fill(queue)
    drained = await drain(queue)
    assert (drained.done, drained.dead, len(of_refused(caplog))) == (1, 3, 3)
