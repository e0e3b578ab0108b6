"""What a claim brings after its lease has ended is not run: others may have it by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import rota
from tests.support.queues import assert_drained, end_lease, held_on_server, open_queue, spec, specs
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, SHORT_BEAT
from tests.support.waiting import eventually_async


def over_after_the_first_look(
    server: Server, queue: rota.Queue, consumer: str
) -> Callable[[str], bool]:
    """The process's own clock: the lease held when the claim was sent, not when it came back. By
    then it has ended on the server as well."""
    looks = iter([True])
    real = queue.consuming.keeper.is_alive

    def is_alive(id: str) -> bool:
        if id != consumer:
            return real(id)
        if next(looks, False):
            return True
        end_lease(server, queue, consumer)
        return False

    return is_alive


@pytest.mark.parametrize("suspect", [False, True])
async def test_a_worker_starts_nothing_under_a_lease_that_is_over(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch, suspect: bool
) -> None:
    """The keeper's thread, which stood still as well, has not noticed yet. A job with a death
    behind it needs two answers: the claim's, in time here, and that to its start mark."""
    holders: list[str] = []
    async with open_queue(server, queue_name, beat=SHORT_BEAT) as queue:

        @queue.task
        async def work() -> None:
            id = rota.current_job().id
            holders.extend(c for c, held in held_on_server(server, queue).items() if id in held)

        worker = rota.Worker(queue, lease=LEASE)
        async with worker:
            await eventually_async(lambda: held_on_server(server, queue), "it does not join")
            (before,) = held_on_server(server, queue)
            keeper = queue.consuming.keeper
            is_alive = over_after_the_first_look(server, queue, before)
            if suspect:
                server.raw().hset(queue.link.keys.key("deaths"), "poor", 1)
            else:
                is_alive(before)
            monkeypatch.setattr(keeper, "is_alive", is_alive)
            await work.options(id="poor").enqueue()
            await eventually_async(lambda: holders, "it does not run")
        assert len(holders) == 1
        assert holders != [before]
        assert_drained(server, queue, done=1)


@pytest.mark.legs("valkey", "cluster")
async def test_a_consumer_does_not_hand_on_what_came_too_late(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_queue(server, queue_name, beat=SHORT_BEAT) as queue,
        queue.consumer(lease=LEASE) as consumer,
    ):
        await queue.enqueue(spec())
        keeper, before = queue.consuming.keeper, consumer.id
        monkeypatch.setattr(keeper, "is_alive", over_after_the_first_look(server, queue, before))
        (job,) = await consumer.claim(wait=IN_TIME)
        assert consumer.id != before
        assert list(held_on_server(server, queue)) == [consumer.id]
        assert await consumer.complete(job) == ["ok"]
        assert_drained(server, queue, done=1)


@pytest.mark.legs("valkey", "cluster")
async def test_a_blocking_consumer_does_not_hand_on_what_came_too_late(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_queue(server, queue_name, beat=SHORT_BEAT) as queue:
        await queue.enqueue(spec())

        def work() -> None:
            with queue.sync.consumer(lease=LEASE) as consumer:
                keeper, before = queue.consuming.keeper, consumer.id
                monkeypatch.setattr(
                    keeper, "is_alive", over_after_the_first_look(server, queue, before)
                )
                (job,) = consumer.claim(wait=IN_TIME)
                assert consumer.id != before
                assert consumer.complete(job) == ["ok"]

        await asyncio.to_thread(work)
        assert_drained(server, queue, done=1)


async def test_a_late_answer_that_also_took_an_ending_brings_nothing(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_queue(server, queue_name, beat=SHORT_BEAT) as queue,
        queue.consumer(lease=LEASE) as consumer,
    ):
        await queue.enqueue_many(specs(2))
        (job,) = await consumer.claim()
        keeper, before = queue.consuming.keeper, consumer.id
        monkeypatch.setattr(keeper, "is_alive", over_after_the_first_look(server, queue, before))
        assert await consumer.exchange(job) == []
        assert consumer.held == []
        (other,) = await consumer.claim(wait=IN_TIME)
        assert other.id != job.id
        assert await consumer.complete(other) == ["ok"]
        assert_drained(server, queue, done=2)


async def test_what_it_holds_already_is_told_to_be_lost(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_queue(server, queue_name, beat=SHORT_BEAT) as queue,
        queue.consumer(lease=LEASE) as consumer,
    ):
        await queue.enqueue_many(specs(2))
        (job,) = await consumer.claim()
        keeper, before = queue.consuming.keeper, consumer.id
        monkeypatch.setattr(keeper, "is_alive", over_after_the_first_look(server, queue, before))
        with pytest.raises(rota.LeaseLost):
            await consumer.claim()
        with pytest.raises(rota.LeaseLost):
            await consumer.complete(job)


async def test_a_start_mark_that_was_answered_too_late(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_queue(server, queue_name, beat=SHORT_BEAT) as queue,
        queue.consumer(lease=LEASE) as consumer,
    ):
        await queue.enqueue(spec())
        (job,) = await consumer.claim()
        monkeypatch.setattr(queue.consuming.keeper, "is_alive", lambda _: False)
        with pytest.raises(rota.LeaseLost):
            await consumer.start(job)
