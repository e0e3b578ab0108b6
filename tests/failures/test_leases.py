"""Leases that end: what a dead consumer held goes back in bounded pages, whoever does it.

C11's gap between "list lapsed" and "act" does not exist: the reaper is one script that looks and
acts. What is shown is that it looks again inside. C35's 500 consumers are scaled to 150.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.consume.deliveries import Deliveries
from tests.conftest import PrivateServer
from tests.failures.tools import Hand, Timed, beat, jobs, stats, until_done, working
from tests.model import audit
from tests.support.faulty import SILENT, Break
from tests.support.queues import assert_drained, assert_sound, calls, dump, open_queue
from tests.support.servers import Server
from tests.support.times import FAR_BEAT, IN_TIME, LEASE, PATIENCE, SHORT_LEASE
from tests.support.waiting import eventually_async

LUA = Path(rota.__file__).parent / "script" / "lua"


# ── reaping ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", ["one lane", "many lanes", "sequences", "buried"])
async def test_thousands_of_jobs_of_a_dead_consumer_return_in_bounded_pages(
    private_server: PrivateServer, queue_name: str, shape: str
) -> None:
    """2,000 jobs: none of the scripts that take them back takes many."""
    server = private_server()
    async with open_queue(server, queue_name) as queue:
        names = [f"j{n:04}" for n in range(2000)]
        fields: Callable[[int], dict[str, Any]] = {
            "one lane": lambda n: {"lane": "a"},
            "many lanes": lambda n: {"lane": f"l{n % 500}"},
            "sequences": lambda n: {"lane": f"l{n % 4}", "ordering_key": str(n % 40)},
            "buried": lambda n: {"lane": f"l{n % 500}"},
        }[shape]
        await queue.enqueue_many(
            rota.JobSpec(task="work", id=id, **fields(n)) for n, id in enumerate(names)
        )
        hand = await Hand(queue, lease=0.3).join()
        taken: list[str] = []
        while len(taken) < 2000:
            taken += await hand.claim(500, prefetch=100)
        raw = server.raw()
        if shape == "buried":
            raw.hset(queue.link.keys.key("deaths"), mapping=dict.fromkeys(names, 2))
        raw.config_set("slowlog-max-len", 1000)
        raw.config_set("slowlog-log-slower-than", 300)
        # Somebody keeps the time, else the server would count as away and nobody as to blame.
        for _ in range(6):
            await asyncio.sleep(0.08)
            await beat(queue)
        assert not dump(server, queue).get("consumers"), "not reaped"
        raw.config_set("slowlog-log-slower-than", -1)
        scripts = [
            entry for entry in raw.slowlog_get(1000) if entry["command"].startswith(b"EVALSHA")
        ]
        assert len(scripts) >= 15, "one script took back more than its page"
        found = assert_sound(server, queue)
        gone = 2000 if shape == "buried" else 0
        assert stats(server, queue)["reaped"] == 2000
        assert len(found.get("dead")) == gone
        again = await Hand(queue, lease=60).join()
        if shape in ("one lane", "sequences"):
            back: list[str] = []
            while page := await again.claim(500, prefetch=100):
                back += page
            assert back == taken, "not in their places"


async def test_many_dead_consumers_are_reaped_while_others_work(
    server: Server, beating: rota.Queue
) -> None:
    """C35 scaled: 150 consumers die with 10 jobs each, at the same time; workers go on. Of those
    that went nothing stays."""
    queue = beating
    ran: set[str] = set()

    @queue.task(name="work")
    async def work() -> None:
        ran.add(rota.current_job().id)

    names = [f"j{n:04}" for n in range(1500)]
    await queue.enqueue_many(
        rota.JobSpec(task="work", id=id, lane=f"l{n % 50}", payload=b"{}")
        for n, id in enumerate(names)
    )
    hands = [Hand(queue, lease=1.5) for _ in range(150)]
    await asyncio.gather(*(hand.join() for hand in hands))
    await asyncio.gather(*(hand.claim(10) for hand in hands))
    assert stats(server, queue)["running"] == 1500
    async with working(queue, slots=50), working(queue, slots=50):
        await until_done(server, queue, 1500, timeout=PATIENCE)
    assert ran == set(names)
    found = assert_sound(server, queue)
    assert found.get("consumers") == {}
    assert not list(found.each("c:"))
    assert_drained(server, queue, done=1500)
    left = {name for name in found.types if not name.startswith(audit.TRANSIENT)}
    assert left <= {"config", "seq", "stats", "wake", "vt", "owed"}, "traces of what has gone"


async def test_workers_that_came_and_went_leave_no_memory(
    private_server: PrivateServer, queue_name: str
) -> None:
    """C35: after 300 consumers that never left, and 100 that did, the memory is as before."""
    server = private_server()
    raw = server.raw()
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many(jobs("abc"))
        hand = await Hand(queue, lease=60).join()
        before = raw.info("memory")["used_memory"]
        for _ in range(3):
            gone = [Hand(queue, lease=0.2) for _ in range(100)]
            await asyncio.gather(*(one.join() for one in gone))
            await asyncio.gather(*(one.claim(1) for one in gone))
            await asyncio.sleep(0.25)
            await beat(queue)
        for _ in range(100):
            async with queue.consumer():
                pass
        await eventually_async(
            lambda: dump(server, queue).get("consumers").keys() == {hand.id}, "some were not reaped"
        )
        await hand.leave()
        assert raw.info("memory")["used_memory"] - before < 1_000_000
        assert_sound(server, queue)
        assert len(await (await Hand(queue).join()).claim(9)) == 3


async def test_the_reaper_looks_again(server: Server, timed: Timed) -> None:
    """C11: four tasks whose state changes after their lease had looked lapsed, and a fifth that
    truly lapsed. Only the fifth is taken back."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs(f"j{n}" for n in range(5)))
    hands = [await Hand(queue, lease=2).join() for _ in range(5)]
    assert [await hand.claim() for hand in hands] == [[f"j{n}"] for n in range(5)]
    clock.advance(900)
    await beat(queue)
    clock.advance(900)
    await beat(queue)
    clock.advance(250)
    # All five have lapsed now; a beat that begins here sees what follows.
    assert await hands[0].settle("j0", "complete") == "ok"
    assert await hands[1].settle("j1", "retry", delay=60_000) == "ok"
    assert await hands[2].heartbeat()
    other = await Hand(queue, lease=60).join()
    assert await hands[3].settle("j3", "release") == "ok"
    assert await other.claim() == ["j3"]
    await beat(queue)
    found = assert_sound(server, queue)
    assert found.get("g:a:pending").keys() == {"j4"}
    assert found.counts("deaths") == {"j4": 1}
    assert found.counts("attempts") == {"j1": 1}
    assert found.counts("gactive") == {"a": 2}
    assert found.get("consumers").keys() == {hands[2].id, other.id}
    assert found.deliveries(hands[2].id).keys() == {"j2"}
    assert await other.claim() == ["j4"]


async def test_a_consumer_marked_gone_and_left_is_finished_by_anyone(
    server: Server, beating: rota.Queue
) -> None:
    """C20: who reaps may die after any script. The mark is no lock: the next beat goes on."""
    queue = beating
    await queue.enqueue_many(jobs((f"j{n}" for n in range(250)), lane="a"))
    hand = await Hand(queue, lease=60).join()
    assert len(await hand.claim(250)) == 250
    keys = queue.link.keys
    server.raw().zadd(keys.key("consumers"), {hand.id: "-inf"})
    assert not await hand.heartbeat()
    from rota.script import stubs

    def one_page() -> rota.script.loader.Operation[bool]:
        more, *_ = yield from stubs.beat(keys, limit=100, watched_ms=0)
        return more

    assert await queue.link.run(one_page())  # and its worker dies here
    assert stats(server, queue)["running"] == 150
    assert_sound(server, queue)
    async with queue.consumer() as consumer:
        assert len(await consumer.claim(1000, wait=IN_TIME)) >= 100
        await eventually_async(lambda: stats(server, queue).get("reaped") == 250, "nobody goes on")


def test_no_lock_is_set_and_given_its_time_to_live_apart() -> None:
    """C20: there is no leader and no lock. Of the keys with a time to live, receipts get it with
    their value, in one command, and figures of a minute nobody waits for."""
    with_life = {}
    for path in (*LUA.rglob("*.lua"), LUA.parent / "loader.py"):
        code = re.sub(r"--.*", "", path.read_text())
        found = re.findall(r"'(SETNX|SETEX|PSETEX|EXPIRE|PEXPIRE|PX|EX|GETEX)'", code)
        if found:
            with_life[path.name] = found
    # PEXPIRE lengthens a receipt that exists, ends figures, and is the doctor's for both.
    assert with_life == {
        "loader.py": ["PEXPIRE", "PX"],
        "figures.lua": ["PEXPIRE"],
        "judge_notes.lua": ["PEXPIRE"],
    }


# ── keeping ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("quick_renewals")
async def test_one_call_renews_all_leases_of_a_process(server: Server, queue: rota.Queue) -> None:
    """Whatever the number of consumers and of jobs they hold."""
    await queue.enqueue_many(jobs((f"j{n}" for n in range(400)), lane="a"))
    consumers = [queue.consumer(lease=LEASE) for _ in range(20)]
    for one in consumers:
        await one.__aenter__()
        assert len(await one.claim(20)) == 20
    before, began = calls(server, "evalsha"), time.monotonic()
    keeper = queue.consuming.keeper
    await eventually_async(lambda: keeper.renewals >= 3 * 20, "not all are renewed")
    sent = calls(server, "evalsha") - before
    assert not any(one._membership.is_over() for one in consumers)
    assert {one.id for one in consumers} == dump(server, queue).get("consumers").keys()
    # A renewal and a beat each half a second.
    assert sent <= 2 * (time.monotonic() - began) / 0.5 + 4
    for one in consumers:
        await one.__aexit__(None, None, None)
    assert_sound(server, queue)


@pytest.mark.usefixtures("quick_renewals")
async def test_a_failed_renewal_is_tried_again_while_the_lease_lives(
    valkey: Server, queue_name: str, faulty: Break
) -> None:
    """The consumer keeps its identity and its job."""
    proxy = faulty(valkey)
    async with open_queue(proxy.url, queue_name) as queue:
        await queue.enqueue_many(jobs("a"))
        async with queue.consumer(lease=LEASE) as consumer:
            (job,) = await consumer.claim(1)
            identity = consumer.id
            proxy.plant("heartbeat", "READONLY", times=3)
            await eventually_async(
                lambda: proxy.failed.get("heartbeat") == 3, "it does not try again"
            )
            renewals = queue.consuming.keeper.renewals
            await eventually_async(
                lambda: queue.consuming.keeper.renewals > renewals, "it does not go on"
            )
            assert consumer.id == identity
            assert await consumer.complete(job) == ["ok"]


async def test_a_lost_lease_cancels_refuses_and_starts_anew(
    valkey: Server, queue_name: str, faulty: Break
) -> None:
    """No renewal gets through: the worker's handlers are cancelled, their endings are not sent,
    it goes on under a new identity, and the job runs again."""
    proxy = faulty(valkey)
    async with open_queue(proxy.url, queue_name) as queue:
        said: list[str] = []

        @queue.task(name="work")
        async def work() -> None:
            said.append("started")
            if len(said) == 1:
                proxy.plant("heartbeat", "LOADING")
                try:
                    await asyncio.sleep(20)
                except asyncio.CancelledError:
                    said.append("cancelled")
                    proxy.heal()
                    raise

        await queue.enqueue_many(jobs("a", payload=b"{}"))
        async with working(queue, lease=SHORT_LEASE):
            await eventually_async(lambda: len(dump(valkey, queue).get("consumers")) == 1, "no one")
            (first,) = dump(valkey, queue).get("consumers")
            await until_done(valkey, queue, 1)
            assert first not in dump(valkey, queue).get("consumers")
        assert said == ["started", "cancelled", "started"]
        assert_drained(valkey, queue, done=1)


async def test_any_live_worker_reaps(server: Server, queue_name: str) -> None:
    """Of several that do nothing else; each in turn is the only one left."""
    async with open_queue(server, queue_name, beat=0.3) as queue:
        for n in range(3):
            await queue.enqueue_many(jobs([f"j{n}"], lane="a"))
            hand = await Hand(queue, lease=0.4).join()
            assert await hand.claim() == [f"j{n}"]
            async with queue.consumer(lease=LEASE) as consumer:
                (job,) = await consumer.claim(1, wait=IN_TIME)
                assert job.id == f"j{n}"
                await consumer.start(job)
                await consumer.complete(job)
        assert_drained(server, queue, done=3)


@pytest.mark.usefixtures("quick_renewals")
async def test_a_short_lease_is_not_renewed_with_the_patience_of_a_long_one(
    server: Server, queue_name: str, faulty: Break
) -> None:
    """Else one connection that stalls costs the short lease, which a new one would have kept."""
    proxy = faulty(server)
    async with (
        open_queue(proxy.url, queue_name, beat=FAR_BEAT) as queue,
        queue.consumer(lease=3600),
        queue.consumer(lease=LEASE),
    ):
        keeper = queue.consuming.keeper
        await eventually_async(lambda: keeper.renewals, "nothing is renewed")
        proxy.plant("heartbeat", SILENT, times=1)
        await eventually_async(lambda: proxy.failed.get("heartbeat"), "nothing stalls")
        before = keeper.renewals
        await eventually_async(lambda: keeper.renewals > before, "it waits for long")
        proxy.heal()


async def test_who_has_lost_a_lease_and_lives_leaves_it_uncounted(queue: rota.Queue) -> None:
    """A heartbeat that lay in a server that stood still may have renewed it, kept by nobody: its
    end would be blamed on its jobs."""
    await queue.enqueue_many(jobs(["j"], lane="a"))
    hand = Deliveries(queue.link.store, lease_ms=60_000, decode=lambda job: None)
    await queue.link.run(hand.join())
    former = hand.id
    (job,) = (await queue.link.run(hand.exchange(want=1, prefetch=1, park=False))).jobs
    await queue.link.run(hand.join())
    await queue.link.run(hand.leave_former())
    (again,) = (await queue.link.run(hand.exchange(want=1, prefetch=1, park=False))).jobs
    assert (again.id, again.suspect, again.attempt) == (job.id, False, job.attempt)
    assert former not in [one.id for one in await queue.consumers()]
    await queue.link.run(hand.leave())
