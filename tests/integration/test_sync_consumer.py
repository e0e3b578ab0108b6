"""Consumers without an event loop: the same rules, in threads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import rota
from rota.consumer import SyncConsumer
from tests.support.proxy import Proxy
from tests.support.queues import assert_drained, assert_sound, held_on_server, ids, spec, specs
from tests.support.servers import Server
from tests.support.times import FAR_BEAT, IN_TIME, LEASE, PATIENCE
from tests.support.waiting import eventually


@contextmanager
def open_sync(server: Server | Proxy, name: str, beat: float = FAR_BEAT) -> Iterator[rota.Queue]:
    queue = rota.Queue(name, url=server.url, beat=beat)
    try:
        yield queue
    finally:
        queue.sync.close()


@pytest.fixture
def queue(server: Server, queue_name: str) -> Iterator[rota.Queue]:
    with open_sync(server, queue_name) as queue:
        yield queue


def consumer_of(queue: rota.Queue, prefetch: int = 1) -> SyncConsumer:
    return queue.sync.consumer(lease=LEASE, prefetch=prefetch)


class Waiting:
    """A claim of a thread of its own."""

    def __init__(self, consumer: SyncConsumer) -> None:
        self.jobs: list[rota.Job] = []
        self._thread = threading.Thread(target=self._run, args=(consumer,))
        self._thread.start()

    def _run(self, consumer: SyncConsumer) -> None:
        self.jobs = consumer.claim(1, wait=IN_TIME)

    def result(self) -> list[rota.Job]:
        self._thread.join(2 * IN_TIME)
        assert not self._thread.is_alive(), "the claim does not return"
        assert self.jobs, "nothing came in time"
        return self.jobs


def until_parked(server: Server) -> None:
    def blocked() -> bool:
        for node in server.nodes:
            with node.client() as client:
                if client.info("clients")["blocked_clients"]:
                    return True
        return False

    eventually(blocked, "nobody parks")


@pytest.mark.legs("valkey", "cluster", "redis7")
def test_every_ending(server: Server, queue: rota.Queue) -> None:
    jobs = specs(6)
    queue.sync.enqueue_many(jobs)
    with consumer_of(queue) as consumer:
        claimed = consumer.claim(6)
        assert consumer.complete(claimed[0]) == ["ok"]
        assert consumer.complete(claimed[0]) == ["settled"]
        assert consumer.retry(claimed[1], delay=60, error="later") == ["ok"]
        assert consumer.release(claimed[2]) == ["ok"]
        assert consumer.bury(claimed[3], "bad") == ["ok"]
        assert consumer.settle([(claimed[4], rota.Release(60))]) == ["ok"]
        assert consumer.held == [claimed[5]]
        (again,) = consumer.exchange(done=claimed[5], n=1)
        assert again.id == jobs[2].id
        states = [i.state if (i := queue.sync.job(id).info()) else None for id in ids(jobs)]
        assert states == [None, "delayed", "running", "dead", "delayed", None]
    assert assert_sound(server, queue).counts("stats")["waiting"] == 1


def test_a_sequence_is_taken_by_one_and_given_back_as_a_whole(
    server: Server, queue: rota.Queue
) -> None:
    jobs = specs(4, lane="!o")
    queue.sync.enqueue_many(jobs)
    with consumer_of(queue, prefetch=3) as one, consumer_of(queue, prefetch=3) as other:
        claimed = one.claim(2)
        assert ids(claimed) == ids(jobs[:3])
        assert other.claim(2) == []
        one.complete(claimed[0])
        one.release(claimed[1])
        assert one.held == []
        assert ids(other.claim(2)) == ids(jobs[1:])
        assert_sound(server, queue)


@pytest.mark.legs("valkey", "cluster", "redis7")
def test_an_idle_thread_wakes_at_once_and_on_time(server: Server, queue: rota.Queue) -> None:
    with consumer_of(queue) as consumer:
        waiting = Waiting(consumer)
        until_parked(server)
        queue.sync.enqueue(spec())
        consumer.complete(waiting.result())
        waiting = Waiting(consumer)
        until_parked(server)
        began = time.monotonic()
        queue.sync.enqueue(spec(delay_ms=400))
        consumer.complete(waiting.result())
        assert time.monotonic() - began > 0.38
        assert consumer.claim(1, wait=0.1) == []
    assert_drained(server, queue, done=2)


def test_a_pause_holds_and_a_resume_wakes(server: Server, queue: rota.Queue) -> None:
    lane = queue.sync.lane("a")
    lane.pause()
    queue.sync.enqueue(spec())
    with consumer_of(queue) as consumer:
        waiting = Waiting(consumer)
        until_parked(server)
        lane.resume()
        consumer.complete(waiting.result())
    assert_drained(server, queue, done=1)


def test_ten_threads_share_the_work(server: Server, queue: rota.Queue) -> None:
    jobs = specs(200, "a") + specs(100, "b", ordering_key="k")
    queue.sync.set_lanes({"a": {"ceiling": 3}})
    done: Counter[str] = Counter()
    order: list[str] = []

    all_taken = threading.Event()

    def work() -> None:
        with consumer_of(queue, prefetch=5) as consumer:
            taken: list[rota.Job] = []
            while taken or not all_taken.is_set():
                taken = consumer.exchange(done=taken, n=2, wait=0.3)
                done.update(ids(taken))
                order.extend(job.id for job in taken if job.lane == "b")
                if done.total() >= len(jobs):
                    all_taken.set()

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    queue.sync.enqueue_many(jobs)
    all_taken.wait(PATIENCE)
    all_taken.set()
    for thread in threads:
        thread.join(IN_TIME)
    assert done == Counter(ids(jobs))
    assert order == ids(jobs[200:])
    assert_drained(server, queue, done=300)


class Sleeper:
    """A waiter that only notes that it was poked."""

    def __init__(self) -> None:
        self.poked = threading.Event()

    def poke(self) -> None:
        self.poked.set()


def test_a_debt_does_not_wait_behind_a_parked_blocker(server: Server, queue_name: str) -> None:
    """Nobody here can pay it and the blocker still waits at the bell: it is passed on at once."""
    with open_sync(server, queue_name) as queue:
        bell, waiter, raw = queue.consuming.thread_bell, Sleeper(), server.raw()
        keys = queue.link.keys
        queue.sync.lane("a").pause()
        queue.sync.enqueue(spec())
        bell.enter()
        bell.sending(waiter)
        bell.idle(waiter, due_in=None, taken=False, left=False)
        until_parked(server)
        raw.srem(keys.key("paused"), "a")  # as a resume whose bell was lost
        raw.hdel(keys.key("why"), "p:a")
        raw.zadd(keys.key("ring"), {"a": 1})
        bell.sending(waiter)
        bell.failed(waiter)
        eventually(lambda: raw.llen(keys.wake) == 1, "nothing is passed on")
        bell.leave()


def test_a_lost_reply_to_a_claim_is_reconciled(
    valkey: Server, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    between = proxy(valkey)
    with open_sync(between, queue_name) as queue, consumer_of(queue) as consumer:
        queue.sync.enqueue_many(specs(4))
        done = consumer.claim(2)
        between.drop_reply_then_cut(after=b"EVALSHA")
        jobs = consumer.exchange(done=done, n=2)
        assert between.dropped == 1
        assert held_on_server(valkey, queue) == {consumer.id: set(ids(jobs))}
        consumer.complete(jobs)
        assert_drained(valkey, queue, done=4)


def test_a_lost_lease_is_told_and_the_next_claim_starts_anew(
    server: Server, queue: rota.Queue
) -> None:
    queue.sync.enqueue(spec())
    with consumer_of(queue) as consumer:
        (job,) = consumer.claim(1)
        old = consumer.id
        server.raw().zadd(queue.link.keys.key("consumers"), {old: float("-inf")})
        calls: list[Callable[[Any], Any]] = [consumer.complete, consumer.release, consumer.retry]
        for _ in range(2):
            for call in calls:
                with pytest.raises(rota.LeaseLost):
                    call(job)
            with pytest.raises(rota.LeaseLost):
                consumer.exchange(done=job, n=1)
            (again,) = consumer.claim(1, wait=IN_TIME)
            assert (again.id, again.attempt) == (job.id, 1)
            assert consumer.id != old
            consumer.release(again)
    assert_sound(server, queue)
