"""Tasks that declare a cost, and tasks charged by the time they take, in a real worker."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import rota
from rota.errors import ConfigError
from tests.support.queues import assert_drained, dump, open_queue
from tests.support.servers import Server
from tests.support.times import IN_TIME


async def test_lanes_share_a_worker_by_time(valkey: Server, queue_name: str) -> None:
    """Two lanes, one slot: jobs of 60 ms beside jobs of 6 ms get about as much time. Where the
    machine stands still in one round, a job is charged that as well."""
    for n in range(5):
        slow = await time_of_the_slow(valkey, f"{queue_name}-{n}")
        if 200 <= slow <= 1000:  # by turns it would have had all its 1,200 ms by then
            break
    else:
        pytest.fail(f"the slow lane had {slow} ms")


async def time_of_the_slow(valkey: Server, queue_name: str) -> int:
    """The ms that the slow lane had when the fast one had 600."""
    async with open_queue(valkey, queue_name) as queue:
        spent: Counter[str] = Counter()
        at_half: Counter[str] = Counter()

        @queue.task(lane_from="tenant", charge="time")
        async def work(tenant: str, ms: int) -> None:
            await asyncio.sleep(ms / 1000)
            spent[tenant] += ms
            if spent["fast"] == 600 and not at_half:
                at_half.update(spent)

        await queue.enqueue_many(work.spec("slow", 60) for _ in range(20))
        await queue.enqueue_many(work.spec("fast", 6) for _ in range(140))
        done = await rota.Worker(queue, concurrency=1).run(burst=True)
        assert done.done == 160
        assert "work" in dump(valkey, queue).get("durations")
        assert not dump(valkey, queue).get("costs")
        assert_drained(valkey, queue, done=160)
    return at_half["slow"]


async def test_a_manual_consumer_charges_the_time_it_held_a_job(
    valkey: Server, queue_name: str
) -> None:
    async with open_queue(valkey, queue_name) as queue:

        @queue.task(charge="time")
        def work() -> None: ...

        await queue.enqueue_many(work.spec() for _ in range(3))
        async with queue.consumer() as consumer:
            first, second = await consumer.claim(2)
            await asyncio.sleep(0.05)
            await consumer.complete(first)
            await consumer.exchange(done=second, n=1)
        mean = float(dump(valkey, queue).get("durations")["work"])
        assert 0.05 <= mean < IN_TIME


async def test_costs_of_tasks_and_of_single_jobs(valkey: Server, queue_name: str) -> None:
    async with open_queue(valkey, queue_name) as queue:

        @queue.task(cost=2)
        def heavy() -> None: ...

        usual = await heavy.enqueue()
        other = await heavy.options(cost=0.5).enqueue()
        plain = await heavy.options(cost=1).enqueue()
        assert dump(valkey, queue).get("costs") == {usual.id: "2", other.id: "0.5"}
        assert plain.outcome == "created"
        with pytest.raises(ConfigError, match="cost: expected a number"):
            heavy.options(cost=0)
        with pytest.raises(ConfigError, match="cost: expected a number"):
            queue.task(cost=2000)
        with pytest.raises(ConfigError, match="charge: expected 'cost' or 'time'"):
            queue.task(charge="euro")  # type: ignore[call-overload]
        assert (await rota.Worker(queue).run(burst=True)).done == 3
        assert_drained(valkey, queue, done=3)
