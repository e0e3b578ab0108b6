"""A consumer's end: nothing of it goes on, and word of an old lease is not of the new one."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

import rota
from rota.consume.deliveries import Taken
from rota.errors import ConfigError, LeaseLost
from rota.script.loader import Operation, Wait
from rota.values.model import Answer, Settlement
from tests.support.queues import (
    assert_drained,
    end_lease,
    held_on_server,
    ids,
    open_queue,
    spec,
    specs,
)
from tests.support.servers import Server
from tests.support.times import LEASE, PATIENCE
from tests.support.waiting import eventually, eventually_async


async def test_claims_under_way_end_with_their_block(server: Server, queue_name: str) -> None:
    """One waits for work, one for its turn: neither joins again under another identity."""
    async with open_queue(server, queue_name) as queue:
        async with queue.consumer(lease=LEASE) as consumer:
            claims = [asyncio.create_task(consumer.claim(wait=LEASE)) for _ in range(2)]
            bell = queue.consuming.bell().rules
            await eventually_async(bell.wants_park, "the first claim waits")
        async with asyncio.timeout(PATIENCE):
            ended = await asyncio.gather(*claims, return_exceptions=True)
        assert [type(one) for one in ended] == [ConfigError, ConfigError]
        assert held_on_server(server, queue) == {}
        assert not queue.consuming.keeper.is_alive(consumer.id)
        assert queue.consuming.keeper.trouble is None
        await queue.enqueue(spec())
        async with queue.consumer(lease=LEASE) as other:
            assert len(await other.claim()) == 1


async def test_blocking_claims_under_way_end_with_their_block(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name) as queue:
        ended: list[Exception] = []

        def claim() -> None:
            try:
                consumer.claim(wait=LEASE)
            except Exception as error:
                ended.append(error)

        def work() -> list[threading.Thread]:
            with consumer:
                threads = [threading.Thread(target=claim) for _ in range(2)]
                for thread in threads:
                    thread.start()
                eventually(queue.consuming.thread_bell.rules.wants_park, "the first claim waits")
            return threads

        consumer = queue.sync.consumer(lease=LEASE)
        for thread in await asyncio.to_thread(work):
            await asyncio.to_thread(thread.join, PATIENCE)
            assert not thread.is_alive(), "a claim goes on"
        assert [type(one) for one in ended] == [ConfigError, ConfigError]
        assert held_on_server(server, queue) == {}


@pytest.mark.usefixtures("quick_renewals")
async def test_word_of_a_lost_lease_that_comes_late_does_not_end_the_next(
    server: Server, queue_name: str
) -> None:
    """The keeper's word is held up by a slow log handler, until the consumer has started anew."""
    held_up, go_on = threading.Event(), threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            held_up.set()
            go_on.wait(PATIENCE)

    slow, logger = Slow(), logging.getLogger("rota.lease")
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue(spec())
        async with queue.consumer(lease=LEASE) as consumer:
            logger.addHandler(slow)
            try:
                assert await queue.evict(consumer.id) is not None
                await eventually_async(held_up.is_set, "the keeper has found out")
                claimed = await consumer.claim()
            finally:
                go_on.set()
                logger.removeHandler(slow)
            keeper = queue.consuming.keeper
            before = keeper.renewals
            await eventually_async(lambda: keeper.renewals > before, "it has told, and gone on")
            assert await consumer.complete(claimed) == ["ok"]
        assert_drained(server, queue, done=1)


async def test_who_leaves_with_a_claim_on_its_way_leaves_the_bell_to_others(
    server: Server, queue_name: str
) -> None:
    """The answer comes after its block has ended; a bell that went on waiting for its next claim
    would wake nobody in this process."""
    async with open_queue(server, queue_name) as queue, queue.consumer(lease=LEASE) as other:
        bell = queue.consuming.bell().rules
        async with queue.consumer(lease=LEASE) as leaving:
            claim = asyncio.create_task(leaving.claim(wait=LEASE))
            await eventually_async(
                lambda: leaving in bell._flying, "its claim is on its way", interval=0
            )
        with pytest.raises(ConfigError, match="with"):
            await claim
        assert leaving not in {*bell._idle, *bell._poked, *bell._flying}
        waiting = asyncio.create_task(other.claim(wait=PATIENCE))
        await eventually_async(bell.wants_park, "the other waits")
        await queue.enqueue(spec())
        assert len(await waiting) == 1


async def test_a_late_answer_of_a_lost_lease_does_not_end_the_next(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue(spec())
        async with queue.consumer(lease=LEASE) as consumer:
            (job,) = await consumer.claim()
            lost, settle = consumer.id, consumer._deliveries.settle
            answered = asyncio.Event()

            def settle_slowly(what: Sequence[Settlement]) -> Operation[list[Answer]]:
                answers = yield from settle(what)
                answered.set()
                yield Wait(0.5)
                return answers

            await queue.evict(consumer.id)
            monkeypatch.setattr(consumer._deliveries, "settle", settle_slowly)
            late = asyncio.create_task(consumer.complete(job))
            await answered.wait()
            monkeypatch.undo()
            again = await consumer.claim(wait=PATIENCE)
            assert consumer.id != lost
            with pytest.raises(LeaseLost, match=lost):
                await late
            assert await consumer.complete(again) == ["ok"]
        assert_drained(server, queue, done=1)


async def test_who_stood_still_renews_its_lease_no_more(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has let go what the claim brought; were it to wait with its lease alive, nobody would
    have that. What was done counts, so the call does not fail."""
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many(specs(2))
        async with queue.consumer(lease=LEASE) as consumer:
            keeper, exchange = queue.consuming.keeper, consumer._deliveries.exchange
            (job,) = await consumer.claim()

            def stand_still(**given: Any) -> Operation[Taken]:
                taken = yield from exchange(**given)
                keeper._leases[consumer.id].deadline = 0
                return taken

            monkeypatch.setattr(consumer._deliveries, "exchange", stand_still)
            async with asyncio.timeout(PATIENCE):
                assert await consumer.exchange(job, wait=LEASE) == []
            monkeypatch.undo()
            assert consumer.id not in keeper._leases
            end_lease(server, queue, consumer.id)
            assert await consumer.complete(await consumer.claim(wait=PATIENCE)) == ["ok"]
        assert_drained(server, queue, done=2)


async def test_what_was_done_counts_while_nobody_has_taken_its_jobs(
    server: Server, queue_name: str
) -> None:
    """A lease that has ended by the server's clock and was not reaped yet: settling and exchanging
    say the same of it."""
    jobs = specs(3)
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many(jobs)
        async with queue.consumer(lease=LEASE) as consumer:
            first, second, third = await consumer.claim(3)
            end_lease(server, queue, consumer.id)
            assert await consumer.complete(first) == ["ok"]
            assert await consumer.exchange(second) == []
            with pytest.raises(LeaseLost):
                await consumer.complete(third)
            again = await consumer.claim(wait=PATIENCE)
            assert ids(again) == ids([third])
            await consumer.complete(again)
        assert_drained(server, queue, done=3)


async def test_a_worker_counts_what_was_done_before_its_lease_was_reaped(
    server: Server, queue_name: str
) -> None:
    async with open_queue(server, queue_name) as queue:

        @queue.task
        async def outlive() -> None:
            (consumer,) = held_on_server(server, queue)
            end_lease(server, queue, consumer)

        await outlive.enqueue()
        async with asyncio.timeout(PATIENCE):
            drained = await rota.Worker(queue, lease=LEASE).run(burst=True)
        assert (drained.done, drained.left) == (1, 0)
        assert_drained(server, queue, done=1)


async def test_endings_may_come_from_a_generator(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many(specs(2))
        async with queue.consumer(lease=LEASE) as consumer:
            claimed = await consumer.claim(2)
            assert await consumer.settle((job, None) for job in claimed) == ["ok", "ok"]
        assert_drained(server, queue, done=2)


async def test_a_claim_that_waits_its_turn_has_waited(server: Server, queue_name: str) -> None:
    """Its time counts from the call: after its turn has come it looks once, and waits no more."""
    async with open_queue(server, queue_name) as queue, queue.consumer(lease=LEASE) as consumer:
        first = asyncio.create_task(consumer.claim(wait=0.4))
        await eventually_async(queue.consuming.bell().rules.wants_park, "the first claim waits")
        began = time.monotonic()
        assert await consumer.claim(wait=0.1) == []
        assert first.done()
        assert time.monotonic() - began < 0.4 + PATIENCE
