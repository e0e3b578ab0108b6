"""A server whose memory is full, or that evicts: C68, and what goes missing from the keys."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter

import pytest

import rota
from rota.errors import BatchInterrupted, ServerFull, Unavailable
from tests.conftest import PrivateServer
from tests.failures.tools import Hand, beat, jobs, until_done, working
from tests.support.faulty import CUT_AFTER, Break
from tests.support.queues import assert_drained, assert_sound, dump, open_queue
from tests.support.servers import Kind, Server
from tests.support.times import PATIENCE
from tests.support.waiting import eventually_async

KIB = b'{"pad":"' + b"x" * 1000 + b'"}'


def task_of(queue: rota.Queue, ran: Counter[str]) -> None:
    @queue.task(name="work")
    async def work(pad: str = "") -> None:
        ran[rota.current_job().id] += 1


def load(n: int) -> list[rota.JobSpec]:
    return [
        rota.JobSpec(
            task="work",
            lane=f"l{i % 20}",
            id=f"j{i:05}",
            payload=KIB,
            ordering_key="k" if i % 5 == 0 else None,
        )
        for i in range(n)
    ]


# ── full ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
async def test_a_full_server_refuses_jobs_whole_and_is_drained(
    private_server: PrivateServer, queue_name: str, kind: Kind, policy: str
) -> None:
    """50 MB scaled to 12. Nothing is half stored; consumers drain; enqueueing works again. With
    a policy that evicts keys that end only, only receipts could go."""
    server = private_server(kind, maxmemory="12mb", maxmemory_policy=policy)
    ran: Counter[str] = Counter()
    async with open_queue(server, queue_name) as queue:
        task_of(queue, ran)
        with pytest.raises(BatchInterrupted, match="out of memory") as caught:
            await queue.enqueue_many(load(20_000))
        stored = [done.id for done in caught.value.outcomes]
        found = assert_sound(server, queue)
        assert {id for id, _ in found.each("job:")} == set(stored)
        # The refused batch has left room for some single ones.
        with pytest.raises(ServerFull):
            await fill_up(queue, stored)
        found = assert_sound(server, queue)
        assert {id for id, _ in found.each("job:")} == set(stored)
        await queue.lane("l0").pause()
        await queue.lane("l0").resume()
        async with queue.consumer() as consumer:
            (job,) = await consumer.claim(1)
            assert await consumer.bury(job, "while it is full") == ["ok"]
        async with working(queue, slots=100):
            await until_done(server, queue, len(stored) - 1, timeout=2 * PATIENCE)
        assert len(ran) == len(stored) - 1
        assert await queue.dead.replay_all() == 1
        assert (await queue.enqueue(jobs(["again"])[0])).outcome == "created"
        assert await queue.purge() == 2
        assert_drained_again(server, queue, len(stored) - 1)


async def fill_up(queue: rota.Queue, stored: list[str]) -> None:
    for n in range(9000):
        await queue.enqueue(jobs([f"more{n}"], payload=KIB)[0])
        stored.append(f"more{n}")


def assert_drained_again(server: Server, queue: rota.Queue, done: int) -> None:
    found = assert_sound(server, queue)
    assert found.counts("stats")["completed"] == done
    assert found.counts("stats").get("waiting", 0) == 0
    assert not list(found.each("job:"))


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
async def test_a_full_server_stores_nothing_of_a_bulk_and_says_so(
    private_server: PrivateServer, queue_name: str, kind: Kind
) -> None:
    """However many calls' worth, in either face, and single jobs that travel together."""
    server = private_server(kind)
    async with open_queue(server, queue_name) as queue:
        with queue.sync as blocking:
            await queue.enqueue(jobs(["before"])[0])
            server.raw().config_set("maxmemory", 1)
            for specs in load(10), load(2500):
                with pytest.raises(ServerFull):
                    await queue.enqueue_many(specs)
                with pytest.raises(ServerFull):
                    [done async for done in queue.enqueue_stream(specs)]
                with pytest.raises(ServerFull):
                    blocking.enqueue_many(specs)
                with pytest.raises(ServerFull):
                    list(blocking.enqueue_stream(specs))
            singles = [queue.enqueue(spec) for spec in load(20)]
            refused = await asyncio.gather(*singles, return_exceptions=True)
            assert {type(error) for error in refused} == {ServerFull}
        assert [id for id, _ in assert_sound(server, queue).each("job:")] == ["before"]


@pytest.mark.parametrize(("answer", "unsure"), [("OOM", []), (CUT_AFTER, ["j3"])])
async def test_what_waits_for_room_in_a_lane_leaves_no_doubt_of_the_rest(
    server: Server, queue_name: str, faulty: Break, answer: str, unsure: list[str]
) -> None:
    between = faulty(server)
    async with open_queue(between.url, queue_name) as queue:
        await queue.lane("a").set(backlog=2)
        bulk = asyncio.create_task(
            queue.enqueue_many(jobs(["j1", "j2", "j3"]), on_full="wait", wait=600)
        )
        await eventually_async(lambda: between.passed.get("enqueue"), "nothing was sent")
        between.plant("enqueue", answer, times=1)
        between.plant("enqueue", "OOM")
        with pytest.raises(BatchInterrupted) as caught:
            await bulk
    assert [spec.id for spec in caught.value.unsure] == unsure
    outcomes = {done.id: done.outcome for done in caught.value.outcomes}
    refused = {} if unsure else {"j3": "lane_full"}
    assert outcomes == {"j1": "created", "j2": "created"} | refused


async def test_a_refusal_after_a_lost_reply_does_not_say_that_nothing_was_written(
    server: Server, queue_name: str, faulty: Break
) -> None:
    between = faulty(server)
    async with open_queue(between.url, queue_name) as queue:
        await queue.enqueue(jobs(["before"])[0])  # the script is known
        for specs in jobs(["j1"]), jobs(["j2", "j3"]):
            between.plant("enqueue", CUT_AFTER, times=1)
            between.plant("enqueue", "OOM", times=1)
            with pytest.raises((Unavailable, BatchInterrupted), match="out of memory") as caught:
                await queue.enqueue_many(specs)
            assert not isinstance(caught.value, ServerFull)
            if isinstance(caught.value, BatchInterrupted):
                assert caught.value.unsure == specs
        assert (await queue.info()).waiting == 4


# ── evicting ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu"])
async def test_what_was_evicted_is_reported_and_stops_no_worker(
    private_server: PrivateServer, queue_name: str, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """More jobs than fit. A record that is gone is reported by whoever claims its job. Where a
    lane's own keys or counts are gone, that takes a repair; the worker goes on, with what is
    left and in lanes that are whole."""
    caplog.set_level(logging.WARNING, "rota.worker")
    server = private_server(maxmemory="10mb", maxmemory_policy=policy)
    ran: Counter[str] = Counter()
    async with open_queue(server, queue_name) as queue:
        task_of(queue, ran)
        await queue.enqueue_many(load(8_000))
        assert server.raw().info("stats")["evicted_keys"] > 500, "the memory was not full"
        async with working(queue, slots=100, prefetch=20):
            await eventually_async(
                lambda: not server.raw().exists(queue.link.keys.key("ring")),
                "it stops half-way",
                timeout=2 * PATIENCE,
            )
            server.raw().config_set("maxmemory", 0)
            fresh = [
                rota.JobSpec(task="work", lane=lane, id=f"fresh-{lane}-{n}", payload=b"{}")
                for lane in ("n0", "n1", "n2", "!n")
                for n in range(3)
            ]
            await queue.enqueue_many(fresh)
            await eventually_async(
                lambda: {spec.id for spec in fresh} <= ran.keys(), "the worker is stuck"
            )
        dead = [job async for job in queue.dead.iterate()]
        assert all("missing" in job.error for job in dead if job.error)
        assert set(ran.values()) == {1}
    warned = [record.getMessage() for record in caplog.records if "evicts" in record.getMessage()]
    assert len(warned) == 1
    assert policy in warned[0]


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_no_warning_where_nothing_is_evicted(
    server: Server, queue: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rota.worker")
    async with working(queue) as worker:
        await worker.started.wait()
    assert [r for r in caplog.records if "evicts" in r.getMessage()] == []


async def test_missing_bodies_are_reported_wherever_their_jobs_are(
    server: Server, queue: rota.Queue
) -> None:
    """A third of the records is deleted: of waiting jobs, of sequences, of delayed ones, of jobs
    in flight, of dead ones. The others are done, the missing ones are among the dead."""
    ran: Counter[str] = Counter()
    task_of(queue, ran)
    dice = random.Random(7)
    waiting = [
        rota.JobSpec(task="work", id=f"w{n}", lane=f"l{n % 7}", payload=b"{}") for n in range(90)
    ]
    ordered = [
        rota.JobSpec(task="work", id=f"o{n}", lane=f"!o{n % 5}", payload=b"{}") for n in range(90)
    ]
    delayed = [
        rota.JobSpec(task="work", id=f"d{n}", lane="later", payload=b"{}", delay_ms=1)
        for n in range(30)
    ]
    held = [rota.JobSpec(task="work", id=f"h{n}", lane="held", payload=b"{}") for n in range(30)]
    dead = [rota.JobSpec(task="work", id=f"x{n}", lane="dead", payload=b"{}") for n in range(30)]
    hand = await Hand(queue, lease=60).join()
    for specs in (dead, held):
        await queue.enqueue_many(specs)
        assert len(await hand.claim(30)) == 30
        if specs is dead:
            for spec in specs:
                await hand.settle(spec.id, "bury")
    await queue.enqueue_many([*waiting, *ordered, *delayed])
    every = [spec.id for spec in (*waiting, *ordered, *delayed, *held, *dead)]
    missing = {id for id in every if dice.random() < 0.33}
    for id in missing:
        server.raw().delete(queue.link.keys.key("job", id))
    await queue.evict(hand.id)
    await beat(queue)
    gone = {id for id in missing if id[0] != "x"}
    async with working(queue, slots=20, prefetch=5):
        await until_done(server, queue, 240 - len(gone))
        await eventually_async(
            lambda: {*dump(server, queue).get("dead")} >= gone, "missing ones are not reported"
        )
    assert ran.keys() == {id for id in every if id[0] != "x"} - gone
    found = {job.id: job async for job in queue.dead.iterate()}
    assert found.keys() == gone | {spec.id for spec in dead}
    assert all("missing" in str(found[id].error) for id in gone)
    state = dump(server, queue)
    assert state.counts("gactive") == {}
    assert state.get("held") == {}
    assert state.get("scheduled") == {}
    assert await queue.dead.discard_all() == len(found)
    fresh = [rota.JobSpec(task="work", lane=f"l{n}", payload=b"{}") for n in range(7)]
    await queue.enqueue_many([*fresh, rota.JobSpec(task="work", lane="!o1", payload=b"{}")])
    async with working(queue):
        await until_done(server, queue, 248 - len(gone))


async def test_a_lost_wake_list_or_receipt_costs_a_beat_at_most(
    server: Server, beating: rota.Queue
) -> None:
    queue, ran = beating, Counter[str]()
    task_of(queue, ran)
    keys, raw = queue.link.keys, server.raw()
    async with working(queue):
        for n in range(3):
            await queue.enqueue(jobs([f"j{n}"], payload=b"{}")[0])
            raw.delete(keys.wake, *[k for k in server.keys() if ":sent:" in k][:1])
            await until_done(server, queue, n + 1)
        await asyncio.sleep(0)
    assert_drained(server, queue, done=3)
