"""The doctor: what it finds in a damaged queue, what it mends; a sound one is left alone."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import struct
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis

import rota
from rota.doctor import Finding, Report, examine
from rota.script.keys import Keys
from rota.script.loader import Operation, Request
from tests.conftest import PrivateServer
from tests.failures.damage import Busy, make_busy
from tests.failures.tools import Hand, beat
from tests.model import audit
from tests.support.queues import assert_sound, dump, open_queue, spec, spent
from tests.support.servers import Server
from tests.support.times import LEASE

Damage = Callable[[redis.Redis, Keys, Busy], object]

HOUR_MS = 3_600_000


def _job(keys: Keys, id: str) -> str:
    return keys.key("job", id)


def _scheduled(raw: Any, keys: Keys, id: str) -> str:
    members: list[str] = raw.zrange(keys.key("scheduled"), 0, -1)
    return next(member for member in members if member[17:] == id)


def _write_figures(raw: redis.Redis, keys: Keys, value: str | bytes) -> None:
    minute = int(time.time() // 60)
    names = [keys.key("figures", str(at)) for at in (minute - 1, minute)]
    found = [name for name in names if raw.exists(name)]
    assert found, "nothing was claimed of late"
    for name in found:
        raw.hset(name, "a", value)


DAMAGES: dict[str, tuple[Damage, set[str]]] = {
    "a lane fell out of the ring": (lambda r, k, b: r.zrem(k.key("ring"), "a"), {"ring"}),
    "a full lane in the ring": (lambda r, k, b: r.zadd(k.key("ring"), {"c": 9}), {"ring"}),
    "a paused lane in the ring": (lambda r, k, b: r.zadd(k.key("ring"), {"p": 9}), {"ring"}),
    "a blocked lane in the ring": (lambda r, k, b: r.zadd(k.key("ring"), {"l": 9}), {"ring"}),
    "an empty lane in the ring": (lambda r, k, b: r.zadd(k.key("ring"), {"none": 9}), {"ring"}),
    "a tag behind the rotation": (
        lambda r, k, b: (r.set(k.key("vt"), 2), r.zadd(k.key("ring"), {"a": 1, "b": 3})),
        {"ring"},
    ),
    "the rotation ahead of all": (lambda r, k, b: r.set(k.key("vt"), 1e9), {"ring"}),
    "the rotation unreadable": (lambda r, k, b: r.set(k.key("vt"), "x"), {"ring"}),
    "in the ring and owed": (lambda r, k, b: r.zadd(k.key("owed"), {"a": 5}), {"ring"}),
    "the ring is gone": (lambda r, k, b: r.delete(k.key("ring")), {"ring"}),
    "permits too many": (lambda r, k, b: r.hset(k.key("gactive"), "a", 4), {"permits", "count"}),
    "permits lost": (lambda r, k, b: r.hdel(k.key("gactive"), "c"), {"permits", "ring", "count"}),
    "the total of permits": (lambda r, k, b: r.hincrby(k.key("stats"), "permits", 3), {"count"}),
    "permits nobody has": (lambda r, k, b: r.hset(k.key("gactive"), "q", 1), {"permits", "count"}),
    "held is gone": (lambda r, k, b: r.delete(k.key("held")), {"held", "token"}),
    "a sequence held for nothing": (
        lambda r, k, b: r.hset(k.key("held"), "1:b:m", f"{b.hand.id}\nnone"),
        {"held", "token"},
    ),
    "a delivery unreadable": (
        lambda r, k, b: r.hset(k.key("consumer", b.hand.id), "a1", "?"),
        {"held", "permits", "place"},
    ),
    "a token is gone": (lambda r, k, b: r.zrem(k.key("pending", "b"), "!m"), {"token", "ring"}),
    "a token out of place": (lambda r, k, b: r.zadd(k.key("pending", "b"), {"!m": 1}), {"token"}),
    "a token of a held sequence": (
        lambda r, k, b: r.zadd(k.key("pending", "b"), {"!k": 1}),
        {"token"},
    ),
    "a token of nothing": (lambda r, k, b: r.zadd(k.key("pending", "b"), {"!z": 1}), {"token"}),
    "out is gone": (lambda r, k, b: r.delete(k.key("out", "r")), {"token"}),
    "out of place in out": (lambda r, k, b: r.zadd(k.key("out", "t"), {"k": 1}), {"token"}),
    "an entry is gone": (lambda r, k, b: r.zrem(k.key("pending", "a"), "a3"), {"place", "count"}),
    "the entries are gone": (
        lambda r, k, b: r.delete(k.key("pending", "a")),
        {"place", "count", "ring"},
    ),
    "a sequence is gone": (
        lambda r, k, b: r.delete(k.key("sequence", "1:b:m")),
        {"place", "token", "count"},
    ),
    "a waiting job's place": (lambda r, k, b: r.zadd(k.key("pending", "a"), {"a4": -7}), {"place"}),
    "a job in another lane": (
        lambda r, k, b: (
            r.zrem(k.key("pending", "a"), "a3"), r.zadd(k.key("pending", "b"), {"a3": 9})
        ),
        {"place", "count"},
    ),
    "running and waiting": (
        lambda r, k, b: r.zadd(k.key("pending", "a"), {"a1": 5}),
        {"place", "count"},
    ),
    "waiting and dead": (lambda r, k, b: r.zadd(k.key("dead"), {"a2": 5}), {"place", "count"}),
    "running and dead": (lambda r, k, b: r.zadd(k.key("dead"), {"a1": 5}), {"place", "count"}),
    "in two hands": (
        lambda r, k, b: r.hset(
            k.key("consumer", b.other.id),
            "a1",
            str(r.hget(k.key("consumer", b.hand.id), "a1")),
        ),
        {"place", "permits", "count"},
    ),
    "a sequence in two hands": (
        lambda r, k, b: r.hset(
            k.key("consumer", b.other.id),
            "s2",
            str(r.hget(k.key("consumer", b.hand.id), "s2")),
        ),
        {"held", "count"},
    ),
    "a delayed job is gone": (
        lambda r, k, b: r.zrem(k.key("scheduled"), _scheduled(r, k, "d1")),
        {"place", "count"},
    ),
    "a delayed job's mirror gone": (lambda r, k, b: r.delete(k.key("delayed", "a")), {"delayed"}),
    "a delayed job's mirror differs": (
        lambda r, k, b: r.zadd(k.key("delayed", "a"), {_scheduled(r, k, "d1"): 12}),
        {"delayed"},
    ),
    "a delayed job that is none": (
        lambda r, k, b: r.zadd(k.key("scheduled"), {"x": 12}),
        {"place", "count"},
    ),
    "a waiting record is gone": (lambda r, k, b: r.delete(_job(k, "a3")), {"record"}),
    "a delayed record is gone": (lambda r, k, b: r.delete(_job(k, "d1")), {"record", "delayed"}),
    "a running record is gone": (lambda r, k, b: r.delete(_job(k, "a1")), {"record"}),
    "a record of a running sequence is gone": (
        lambda r, k, b: r.delete(_job(k, "s1")),
        {"record"},
    ),
    "a dead record is gone": (lambda r, k, b: r.delete(_job(k, "x1")), {"record", "leftover"}),
    "a record unreadable": (lambda r, k, b: r.set(_job(k, "u1"), "?"), {"record"}),
    "a record of nowhere unreadable": (
        lambda r, k, b: r.set(_job(k, "odd"), "?"),
        {"record", "count"},
    ),
    "the counter is gone": (lambda r, k, b: r.delete(k.key("seq")), {"counter"}),
    "the counter unreadable": (lambda r, k, b: r.set(k.key("seq"), "x"), {"counter"}),
    "gwaiting is gone": (lambda r, k, b: r.delete(k.key("gwaiting")), {"count"}),
    "gwaiting differs": (lambda r, k, b: r.hset(k.key("gwaiting"), "a", 77), {"count"}),
    "gwaiting of nothing": (lambda r, k, b: r.hset(k.key("gwaiting"), "zz", 1), {"count"}),
    "the totals are gone": (lambda r, k, b: r.delete(k.key("stats")), {"count"}),
    "a total unreadable": (lambda r, k, b: r.hset(k.key("stats"), "enqueued", "x"), {"count"}),
    "a minute's figures cut": (lambda r, k, b: _write_figures(r, k, "x"), {"count"}),
    "a minute's figures infinite": (
        lambda r, k, b: _write_figures(r, k, struct.pack("<3d", 1, math.inf, 0)),
        {"count"},
    ),
    "a minute's figures not numbers": (
        lambda r, k, b: _write_figures(r, k, struct.pack("<3d", 1, 2, math.nan)),
        {"count"},
    ),
    "a lease is gone": (
        lambda r, k, b: r.zrem(k.key("consumers"), b.hand.id),
        {"lease", "place", "permits", "count", "held"},
    ),
    "what a consumer holds is gone": (
        lambda r, k, b: r.delete(k.key("consumer", b.hand.id)),
        {"lease", "place", "permits", "count", "held"},
    ),
    "attempts of nothing": (lambda r, k, b: r.hset(k.key("attempts"), "gone", 1), {"leftover"}),
    "releases of nothing": (lambda r, k, b: r.hset(k.key("releases"), "gone", 1), {"leftover"}),
    "releases unreadable": (lambda r, k, b: r.hset(k.key("releases"), "a2", "x"), {"leftover"}),
    "attempts unreadable": (lambda r, k, b: r.hset(k.key("attempts"), "a2", "x"), {"leftover"}),
    "deaths of nothing": (lambda r, k, b: r.hset(k.key("deaths"), "gone", 1), {"leftover"}),
    "an error of nothing": (lambda r, k, b: r.hset(k.key("errors"), "gone", "{}"), {"leftover"}),
    "a cost of nothing": (lambda r, k, b: r.hset(k.key("costs"), "gone", 2), {"leftover"}),
    "a wish to cancel nothing": (lambda r, k, b: r.hset(k.key("cancels"), "gone", 1), {"leftover"}),
    "a wish to cancel what does not run": (
        lambda r, k, b: r.hset(k.key("cancels"), "a3", '{"at":1}'),
        {"leftover"},
    ),
    "a pause is gone": (lambda r, k, b: r.srem(k.key("paused"), "p"), {"leftover", "ring"}),
    "a pause without a note": (lambda r, k, b: r.hdel(k.key("why"), "p:p"), {"leftover"}),
    "an end without a pause": (
        lambda r, k, b: r.zadd(k.key("blocked"), {"p:zz": HOUR_MS}),
        {"leftover"},
    ),
    "an end without a pause of the queue": (
        lambda r, k, b: r.zadd(k.key("blocked"), {"q:": HOUR_MS}),
        {"leftover"},
    ),
    "a block is gone": (lambda r, k, b: r.zrem(k.key("blocked"), "l:l"), {"leftover", "ring"}),
    "a block without a note": (lambda r, k, b: r.hdel(k.key("why"), "l:l"), {"leftover"}),
    "a block of nothing": (lambda r, k, b: r.zadd(k.key("blocked"), {"?": 9e15}), {"leftover"}),
    "a dead job's hold is gone": (
        lambda r, k, b: r.zrem(k.key("blocked"), "h:1:h:k"),
        {"leftover", "token", "ring"},
    ),
    "a dead job's hold without a note": (
        lambda r, k, b: r.hdel(k.key("why"), "h:1:h:k"),
        {"leftover"},
    ),
    "a head's delay without note": (lambda r, k, b: r.hdel(k.key("why"), "h:1:r:k"), {"leftover"}),
    "a hold for a job that is not": (
        lambda r, k, b: r.hset(k.key("why"), "h:1:h:k", "nobody"),
        {"leftover"},
    ),
    "all blocks are gone": (
        lambda r, k, b: r.delete(k.key("blocked")),
        {"leftover", "token", "ring"},
    ),
    "a receipt for ever": (lambda r, k, b: r.set(k.key("sent", "n"), "c"), {"leftover"}),
    "a long bell": (lambda r, k, b: r.rpush(k.wake, *["1"] * 90), {"leftover"}),
    "a key about to vanish": (lambda r, k, b: r.pexpire(k.key("pending", "a"), HOUR_MS), {"key"}),
    "a record about to vanish": (lambda r, k, b: r.pexpire(_job(k, "a2"), HOUR_MS), {"key"}),
    "a ceiling unreadable": (lambda r, k, b: r.hset(k.key("glimit"), "a", "x"), {"limits"}),
    "a weight unreadable": (lambda r, k, b: r.hset(k.key("gweight"), "a", "-1"), {"limits"}),
    "a rate unreadable": (lambda r, k, b: r.hset(k.key("grate"), "a", "x"), {"limits"}),
    "a template unreadable": (lambda r, k, b: r.hset(k.key("templates"), "pro", "?"), {"limits"}),
    "a setting unreadable": (
        lambda r, k, b: r.hset(k.config, "default_ceiling", "x"),
        {"limits"},
    ),
}  # fmt: skip
"""What is done to a busy queue, and the kinds of what the doctor then finds."""


SURVIVORS = {
    *("a2", "a4", "a5", "a6", "a7", "c1", "c2", "o1", "o2"),
    *("s2", "s3", "s4", "s5", "u2", "w1"),
}
"""Jobs that none of the damages takes away for good."""


async def drain(queue: rota.Queue, busy: Busy) -> set[str]:
    """Takes back what is in flight, opens what is shut, and completes all there is."""
    for hand in (busy.hand, busy.other):
        await hand.leave()
    await beat(queue)
    for lane in ("p", "l", "a", "c", "w"):
        await queue.lane(lane).resume()
        await queue.lane(lane).unblock()
        await queue.lane(lane).set(ceiling=None, rate=None)
    done: set[str] = set()
    hand = await Hand(queue, lease=600).join()
    while taken := await hand.claim(50, prefetch=10):
        done.update(taken)
        settled = [await hand.settle(id, "complete") for id in taken]
        assert set(settled) == {"ok"}
    await hand.leave()
    return done


def kinds(report: Report) -> set[str]:
    return {finding.kind for finding in report.findings}


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_sound_queue_has_no_findings(server: Server, queue: rota.Queue) -> None:
    assert (await queue.doctor()).findings == []
    await make_busy(queue)
    assert_sound(server, queue)
    report = await queue.doctor()
    assert (report.findings, report.unchecked) == ([], [])
    before = dump(server, queue)
    assert (await queue.doctor(repair=True)).findings == []
    assert audit.picture(dump(server, queue)) == audit.picture(before)


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_found_and_mended(server: Server, queue: rota.Queue, name: str) -> None:
    busy = await make_busy(queue)
    damage, expected = DAMAGES[name]
    damage(server.raw(), queue.link.keys, busy)
    report = await queue.doctor()
    assert kinds(report) <= expected, report.findings
    assert report.findings, "nothing was found"
    assert not any(finding.mended for finding in report.findings)
    repaired = await queue.doctor(repair=True)
    assert repaired.findings
    assert repaired.left == []
    assert_sound(server, queue)
    assert (await queue.doctor()).findings == []
    assert await drain(queue, busy) >= SURVIVORS
    assert_sound(server, queue)


async def test_what_only_a_person_can_mend_is_reported(server: Server, queue: rota.Queue) -> None:
    await make_busy(queue)
    raw, keys = server.raw(), queue.link.keys
    raw.delete(keys.key("out", "r"))
    raw.set(keys.key("out", "r"), "a string")
    report = await queue.doctor(repair=True)
    assert kinds(report) == {"key"}
    assert report.left
    assert not report.sound
    raw.delete(keys.key("out", "r"))
    assert (await queue.doctor(repair=True)).left == []
    assert_sound(server, queue)


async def test_a_broken_central_key_ends_the_round(server: Server, queue: rota.Queue) -> None:
    await make_busy(queue)
    raw, keys = server.raw(), queue.link.keys
    raw.delete(keys.key("ring"))
    raw.set(keys.key("ring"), "a string")
    report = await queue.doctor(repair=True)
    assert [(f.kind, f.subject) for f in report.left] == [("key", "ring")]
    assert len(report.unchecked) == 1
    raw.delete(keys.key("ring"))
    assert (await queue.doctor(repair=True)).left == []
    assert_sound(server, queue)


@pytest.mark.foreign_keys
@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_an_unknown_key_is_reported_and_left(server: Server, queue: rota.Queue) -> None:
    await make_busy(queue)
    names = ["junk", "odd:thing", "s:no sequence", "jobs"]
    for name in names:
        server.raw().set(queue.link.keys.root + name, "x")
    report = await queue.doctor(repair=True)
    assert {(f.kind, f.subject, f.mended) for f in report.findings} == {
        ("key", name, False) for name in names
    }


async def test_a_running_change_of_limits_excuses(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many([spec(f"l{n}") for n in range(20)])
    hand = await Hand(queue, lease=600).join()
    await hand.claim(20)
    await queue.enqueue_many([spec(f"l{n}") for n in range(20)])
    server.raw().hset(queue.link.keys.config, mapping={"default_ceiling": "1", "sweep": "0"})
    assert (await queue.doctor()).findings == []
    await beat(queue)
    assert (await queue.doctor()).findings == []
    await hand.leave()


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_other_queues_and_odd_names_are_left_alone(server: Server) -> None:
    async with open_queue(server, "doc[a-z]*?\\x") as odd, open_queue(server, "docax") as other:
        await make_busy(odd)
        await other.enqueue(spec("line feed é :pending", ordering_key="a:b:c"))
        server.raw().zadd(other.link.keys.key("ring"), {"none": 1})
        assert (await odd.doctor(repair=True)).findings == []
        assert kinds(await other.doctor(repair=True)) == {"ring"}
        assert_sound(server, other)


async def test_both_faces_say_the_same(server: Server, queue: rota.Queue) -> None:
    await make_busy(queue)
    server.raw().zrem(queue.link.keys.key("ring"), "a")
    report = await queue.doctor()
    assert await asyncio.to_thread(queue.sync.doctor) == report
    (mended,) = (await asyncio.to_thread(queue.sync.doctor, True)).findings
    (found,) = report.findings
    assert mended == Finding(found.kind, found.subject, found.what, mended=True)
    queue.sync.close()


async def answer(queue: rota.Queue, request: Request) -> Any:
    """One request of an operation that the test drives itself."""

    def alone() -> Operation[Any]:
        return (yield request)

    return await queue.link.run(alone())


async def examine_restless(server: Server, queue: rota.Queue) -> Report:
    """Something moves after each of the doctor's calls."""
    operation = examine(queue.link.keys, repair=True)
    request = next(operation)
    while True:
        reply = await answer(queue, request)
        server.raw().hincrby(queue.link.keys.key("stats"), "retried", 1)
        try:
            request = operation.send(reply)
        except StopIteration as stop:
            report: Report = stop.value
            return report


# ── more than one script can look at ────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_long_lane_is_recounted_when_it_is_quiet(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many([spec("long") for _ in range(5_200)])
    await queue.enqueue_many([spec("long", ordering_key=f"k{n % 300}") for n in range(600)])
    assert (await queue.doctor()).findings == []
    server.raw().hset(queue.link.keys.key("gwaiting"), "long", 3)
    assert kinds(await queue.doctor()) == {"count"}
    assert (await queue.doctor(repair=True)).left == []
    assert_sound(server, queue)


async def test_a_long_lane_that_is_never_quiet_is_left_open(
    server: Server, queue: rota.Queue
) -> None:
    await queue.enqueue_many([spec("long") for _ in range(5_200)])
    report = await examine_restless(server, queue)
    assert report.findings == []
    assert len(report.unchecked) == 1
    assert "lane long" in report.unchecked[0]


async def test_too_much_in_flight_is_left_open(server: Server, queue: rota.Queue) -> None:
    hand = await Hand(queue, lease=600).join()
    await queue.enqueue_many([spec(f"l{n % 7}") for n in range(11_000)])
    while await hand.claim(1000):
        pass
    assert (await examine_restless(server, queue)).unchecked == []
    server.raw().hset(queue.link.keys.key("gactive"), "l0", 5)
    report = await examine_restless(server, queue)
    assert kinds(report) == {"count"}, "the total agrees with what the lanes say"
    assert len(report.unchecked) == 1
    assert "permits" in report.unchecked[0]
    repaired = await queue.doctor(repair=True)
    assert (kinds(repaired), repaired.left, repaired.unchecked) == ({"permits", "count"}, [], [])
    assert_sound(server, queue)
    await hand.leave()


async def test_who_joins_meanwhile_is_counted(server: Server, queue: rota.Queue) -> None:
    await make_busy(queue)
    late: list[Hand] = []
    operation = examine(queue.link.keys, repair=True)
    request, report = next(operation), None
    while report is None:
        if getattr(request, "args", [None])[0] == "held" and not late:
            late.append(await Hand(queue, lease=600).join())
            assert await late[0].claim(3)
        try:
            request = operation.send(await answer(queue, request))
        except StopIteration as stop:
            report = stop.value
    assert late
    assert report.findings == []
    assert_sound(server, queue)


async def test_no_script_takes_long(private_server: PrivateServer, queue_name: str) -> None:
    server = private_server()
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many(spec(f"l{n}") for n in range(20_000))
        await queue.enqueue_many(spec("s", ordering_key=f"k{n % 1900}") for n in range(4_000))
        await queue.enqueue_many(spec("long") for n in range(5_000))
        hand = await Hand(queue, lease=600).join()
        for _ in range(5):
            await hand.claim(1000)
        calls, before = spent(server)
        assert (await queue.doctor()).findings == []
        now, after = spent(server)
        assert (after - before) / (now - calls) < 10_000
        await hand.leave()


# ── while work goes on ──────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def hammered(
    queue: rota.Queue, dice: random.Random
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Everybody does everything to the queue, as fast as they can."""
    lanes = [*(f"l{n}" for n in range(12)), "!o1", "!o2"]
    stop = asyncio.Event()

    def some_spec() -> rota.JobSpec:
        lane = dice.choice(lanes)
        key = dice.choice((None, "k1", "k2")) if lane[0] != "!" else None
        return spec(
            lane,
            ordering_key=key,
            priority=dice.choice((0, 0, 3)),
            delay_ms=dice.choice((0, 0, 0, 40)),
            on_dead=dice.choice(("skip", "hold")),
            cost=dice.choice((1.0, 1.0, 2.5)),
        )

    async def produce() -> None:
        while not stop.is_set():
            info = await queue.info()
            if info.waiting + info.delayed < 400:
                await queue.enqueue_many([some_spec() for _ in range(dice.randint(1, 30))])
            await asyncio.sleep(0)

    async def consume() -> None:
        while not stop.is_set():
            async with queue.consumer(prefetch=4, lease=LEASE) as consumer:
                for _ in range(20):
                    with contextlib.suppress(rota.LeaseLost):  # evicted
                        taken = await consumer.claim(dice.randint(1, 30), wait=0.02)
                        ends = [None, None, rota.Retry(0.03), rota.Release(), rota.Bury("no")]
                        await consumer.settle([(job, dice.choice(ends)) for job in taken])
                    if stop.is_set():
                        return

    async def change() -> None:
        while not stop.is_set():
            lane, other = (queue.lane(dice.choice(lanes[:12])) for _ in "ab")
            await lane.set(ceiling=dice.choice((None, 0, 1, 3)), weight=dice.choice((None, 5)))
            await other.set(rate=dice.choice((None, rota.Rate(200))))
            await queue.set_template("pro", ceiling=dice.choice((1, 9)), weight=dice.choice((2, 4)))
            await other.set(template=dice.choice((None, "pro")))
            await lane.pause(reason="x", until=None)
            await lane.block(0.01)
            await lane.resume()
            await queue.set(default_ceiling=dice.choice((None, 2)), ceiling=dice.choice((None, 9)))
            for job in [job async for job in queue.dead.iterate()][:40]:
                await (queue.dead.replay if dice.random() < 0.5 else queue.dead.discard)(job.id)
            await asyncio.sleep(0.002)

    async def rearrange() -> None:
        while not stop.is_set():
            lane, other = (queue.lane(dice.choice(lanes[:12])) for _ in "ab")
            await lane.reprioritize(dice.choice((-2, 0, 7)))
            if lane.name != other.name:
                await lane.move(other.name)
            if dice.random() < 0.1:
                await (lane.cancel if dice.random() < 0.5 else lane.purge)()
            if dice.random() < 0.1:
                for consumer in await queue.consumers(1):
                    await queue.evict(consumer.id)
            await asyncio.sleep(0.01)

    some = (produce, consume, consume, consume)
    work = [asyncio.create_task(one()) for one in (*some, change, rearrange)]
    try:
        yield work
    finally:
        stop.set()
        await asyncio.gather(*work)


def ended(work: list[asyncio.Task[None]]) -> list[asyncio.Task[None]]:
    return [task for task in work if task.done()]


async def test_no_false_alarm_while_work_goes_on(server: Server, queue: rota.Queue) -> None:
    async with hammered(queue, random.Random(7)) as work:
        for _ in range(int(os.environ.get("ROTA_DOCTOR_ROUNDS", "20"))):
            report = await queue.doctor()
            assert report.findings == []
            assert not ended(work)
    found = assert_sound(server, queue).counts("stats")
    assert min(found[name] for name in ("completed", "retried", "released", "replayed")) > 20


async def test_damage_is_mended_while_work_goes_on(server: Server, queue: rota.Queue) -> None:
    dice = random.Random(11)
    raw, keys = server.raw(), queue.link.keys
    async with hammered(queue, dice) as work:
        for _ in range(20):
            lane = f"l{dice.randrange(12)}"
            raw.zrem(keys.key("ring"), lane, f"l{dice.randrange(12)}")
            raw.hset(keys.key("gactive"), lane, dice.randint(1, 4))
            raw.hset(keys.key("gwaiting"), lane, dice.randint(1, 40))
            raw.zpopmin(keys.key("pending", lane))
            raw.zrem(keys.key("pending", f"l{dice.randrange(12)}"), "!k1")
            await queue.doctor(repair=True)
            assert not ended(work)
    await queue.doctor(repair=True)
    assert_sound(server, queue)


# ── repairs that end half-way ───────────────────────────────────────────────────────────────────


async def test_a_repair_that_ends_half_way_is_carried_on(server: Server, queue: rota.Queue) -> None:
    await make_busy(queue)
    raw, keys = server.raw(), queue.link.keys
    raw.delete(keys.key("held"), keys.key("gwaiting"), keys.key("pending", "a"), keys.key("ring"))
    raw.delete(keys.key("blocked"))
    report, tries = None, 0
    while report is None:
        tries += 1
        operation = examine(queue.link.keys, repair=True)
        request = next(operation)
        try:
            for _ in range(12 * tries):
                request = operation.send(await answer(queue, request))
        except StopIteration as stop:
            report = stop.value
        operation.close()
    assert report.left == []
    assert tries > 2
    assert_sound(server, queue)
    assert (await queue.doctor()).findings == []
