"""A server that has lost what it was told: by a failover to a replica that lacked it, by a restored
snapshot. Its keys are taken, the work goes on, and the keys are put back as they were.

The leases are long, and renewed twice a second: nothing here is mended by the end of a lease.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import pytest

import rota
from tests.failures.tools import jobs, stats, until_done, working
from tests.support.queues import assert_drained, dump, held_on_server, open_queue
from tests.support.servers import Server
from tests.support.times import LEASE, PATIENCE
from tests.support.waiting import eventually, eventually_async

pytestmark = pytest.mark.usefixtures("quick_renewals")


def snapshot(server: Server, queue: rota.Queue) -> Callable[[], None]:
    """The queue's keys; what it answers puts them back, all others of the queue gone."""
    raw = cast(Any, server.raw(decode=False))

    def names() -> list[bytes]:
        return cast("list[bytes]", raw.keys(queue.link.keys.root + "*"))

    with raw.pipeline(transaction=True) as taking:
        for name in (taken := names()):
            taking.pttl(name)
            taking.dump(name)
        found = iter(taking.execute())
    kept = [(name, max(0, next(found)), next(found)) for name in taken]

    def restore() -> None:
        with raw.pipeline(transaction=True) as putting:
            putting.delete(*names(), b"none")
            for name, life, value in kept:
                if value is not None:
                    putting.restore(name, life, value)
            putting.execute()

    return restore


class Works:
    """Handlers that wait at their first run, and say what became of it."""

    def __init__(self, queue: rota.Queue) -> None:
        self.gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.starts: list[str] = []
        self.stopped: list[str] = []

        @queue.task(name="work")
        async def work() -> None:
            id = rota.current_job().id
            again = id in self.starts
            self.starts.append(id)
            try:
                if not again:
                    await self.gates[id].wait()
            except asyncio.CancelledError:
                self.stopped.append(id)
                raise


async def lose_an_ending(server: Server, queue: rota.Queue, works: Works) -> None:
    await queue.enqueue_many(jobs(["a"], lane="one"))
    await eventually_async(lambda: works.starts == ["a"], "it does not begin")
    restore = snapshot(server, queue)
    works.gates["a"].set()
    await until_done(server, queue, 1)
    restore()


async def ending(server: Server, queue: rota.Queue, works: Works) -> int:
    """It alone: the worker waits for work, and nothing comes."""
    await lose_an_ending(server, queue, works)
    await eventually_async(lambda: works.starts == ["a", "a"], "it is held for ever")
    return 1


async def ending_behind_a_new_claim(server: Server, queue: rota.Queue, works: Works) -> int:
    """What comes at once finds the lane of ceiling 1 free, as soon as the worker has looked."""
    await lose_an_ending(server, queue, works)
    works.gates["b"].set()
    await queue.enqueue_many(jobs(["b"], lane="one"))
    await until_done(server, queue, 2)
    assert works.starts.count("a") == 2
    return 2


async def claim(server: Server, queue: rota.Queue, works: Works) -> int:
    """The server thinks the job still waits: its handler is stopped, and it runs anew."""
    await queue.lane("one").pause()
    await queue.enqueue_many(jobs(["a"], lane="one"))
    restore = snapshot(server, queue)
    await queue.lane("one").resume()
    await eventually_async(lambda: works.starts == ["a"], "it does not begin")
    restore()
    await eventually_async(lambda: works.stopped == ["a"], "it runs for ever")
    await queue.lane("one").resume()
    return 1


async def as_many_of_each(server: Server, queue: rota.Queue, works: Works) -> int:
    """An ending and a claim: it holds one job on either side, but not the same."""
    await queue.enqueue_many(jobs(["a"], lane="one"))
    await eventually_async(lambda: works.starts == ["a"], "it does not begin")
    restore = snapshot(server, queue)
    await queue.enqueue_many(jobs(["b"], lane="one"))
    works.gates["a"].set()
    await eventually_async(lambda: works.starts == ["a", "b"], "the next does not begin")
    restore()
    await eventually_async(lambda: works.starts == ["a", "b", "a"], "it is held for ever")
    await eventually_async(lambda: works.stopped == ["b"], "what nobody knows runs for ever")
    return 1


async def head_of_a_sequence(server: Server, queue: rota.Queue, works: Works) -> int:
    """Its next job, which was taken with it, is running: both go back, and run in order."""
    await queue.enqueue_many(jobs(["a", "b"], lane="!one"))
    await eventually_async(lambda: works.starts == ["a"], "it does not begin")
    restore = snapshot(server, queue)
    works.gates["a"].set()
    await eventually_async(lambda: works.starts == ["a", "b"], "the next does not begin")
    restore()
    await eventually_async(lambda: works.stopped == ["b"], "it runs beside its head")
    await until_done(server, queue, 2)
    assert works.starts == ["a", "b", "a", "b"]
    return 2


@pytest.mark.parametrize(
    "lost", [ending, ending_behind_a_new_claim, claim, as_many_of_each, head_of_a_sequence]
)
async def test_a_worker_sets_right_what_its_server_has_lost(
    valkey: Server, queue_name: str, lost: Callable[..., Any]
) -> None:
    async with open_queue(valkey, queue_name) as queue:
        await queue.set_lanes({"one": {"ceiling": 1}})
        works = Works(queue)
        async with working(queue, lease=LEASE):
            await eventually_async(lambda: len(dump(valkey, queue).get("consumers")) == 1, "no one")
            before = dump(valkey, queue).get("consumers").keys()
            done = await lost(valkey, queue, works)
            await until_done(valkey, queue, done)
            assert dump(valkey, queue).get("consumers").keys() == before, "by a new lease"
            assert dump(valkey, queue).get("deaths") == {}
        assert_drained(valkey, queue, done=done)


@pytest.mark.parametrize("settles", ["complete", "retry"])
async def test_a_consumer_in_hand_gives_back_what_it_has_ended(
    valkey: Server, queue_name: str, settles: str
) -> None:
    """Without another claim of its own. What else it holds it keeps."""
    async with open_queue(valkey, queue_name) as queue:
        await queue.set_lanes({"one": {"ceiling": 1}})
        await queue.enqueue_many([*jobs(["a"], lane="one"), *jobs(["b"], lane="two")])
        async with queue.consumer(lease=LEASE) as consumer, queue.consumer(lease=LEASE) as other:
            one, two = await consumer.claim(2)
            restore = snapshot(valkey, queue)
            await getattr(consumer, settles)(one)
            restore()
            (again,) = await other.claim(wait=PATIENCE)
            assert again.id == "a"
            assert await other.complete(again) == ["ok"]
            assert await consumer.complete(two) == ["ok"]
        assert_drained(valkey, queue, done=2)


async def test_a_consumer_in_hand_lets_go_of_what_others_have(
    valkey: Server, queue_name: str
) -> None:
    async with open_queue(valkey, queue_name) as queue:
        await queue.enqueue_many(jobs(["a"]))
        async with queue.consumer(lease=LEASE) as consumer, queue.consumer(lease=LEASE) as other:
            restore = snapshot(valkey, queue)
            (job,) = await consumer.claim()
            restore()
            (again,) = await other.claim()
            await eventually_async(lambda: consumer.held == [], "it believes in its job")
            assert await consumer.complete(job) == ["settled"]
            assert await other.complete(again) == ["ok"]
        assert_drained(valkey, queue, done=1)


def test_a_blocking_consumer_gives_back_what_it_has_ended(valkey: Server, queue_name: str) -> None:
    """Its thread does something else meanwhile."""
    queue = rota.Queue(queue_name, url=valkey.url)
    with queue.sync.consumer(lease=LEASE, prefetch=2) as consumer:
        queue.sync.enqueue_many(jobs(["a", "b"], lane="!one"))
        one, two = consumer.claim()
        restore = snapshot(valkey, queue)
        assert consumer.complete([one, two]) == ["ok", "ok"]
        restore()
        assert held_on_server(valkey, queue) == {consumer.id: {"a", "b"}}
        eventually(lambda: held_on_server(valkey, queue) == {consumer.id: set()}, "held for ever")
        again = consumer.claim()
        assert [job.id for job in again] == ["a", "b"]
        assert consumer.complete(again) == ["ok", "ok"]
    queue.sync.close()
    assert_drained(valkey, queue, done=2)


def test_what_an_unanswered_claim_brought_goes_back_without_another(
    valkey: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller was told of the failure, and does not come again."""
    queue = rota.Queue(queue_name, url=valkey.url)
    with queue.sync.consumer(lease=LEASE) as consumer:
        queue.sync.enqueue_many(jobs(["a"]))
        exchange = consumer._deliveries._store.exchange

        def unheard(*args: Any, **settings: Any) -> Any:
            yield from exchange(*args, **settings)
            raise rota.Unavailable("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(consumer._deliveries._store, "exchange", unheard)
            with pytest.raises(rota.Unavailable):
                consumer.claim()
        eventually(lambda: not stats(valkey, queue).get("running"), "held for ever")
        (job,) = consumer.claim()
        consumer.complete(job)
    queue.sync.close()
    assert_drained(valkey, queue, done=1)
