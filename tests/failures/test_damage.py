"""One tenant's damaged keys harm no other: not in a call that works for both, not afterwards.

Lane `bad` has something of everything, as lane `good` has. One key or field of `bad` is damaged,
then one call works for both. All of `good` goes its way; once a person has moved the key away, the
doctor puts the jobs of `bad` back, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
import redis

from rota.errors import Unavailable
from rota.script.keys import Keys
from rota.values.model import Settlement
from tests.failures.stage import Kept
from tests.failures.tools import Hand, Timed, beat, jobs
from tests.support.queues import assert_sound
from tests.support.servers import Server

LANES = ("bad", "good")
SECOND, MINUTE = 1000, 60_000

Damage = Callable[[redis.Redis, Keys], object]


def wrong_type(kind: str, name: str) -> Damage:
    def blow(raw: redis.Redis, keys: Keys) -> None:
        raw.delete(keys.key(kind, name))
        raw.hset(keys.key(kind, name), "a", "1")

    return blow


def odd_field(kind: str, field: str, text: str = "odd") -> Damage:
    return lambda raw, keys: raw.hset(keys.key(kind), field, text)


def odd_record(id: str, change: Callable[[str], str]) -> Damage:
    def blow(raw: redis.Redis, keys: Keys) -> None:
        key = keys.key("job", id)
        raw.set(key, change(str(raw.get(key))))

    return blow


def template_in_words(raw: redis.Redis, keys: Keys) -> None:
    raw.hset(keys.key("gtemplate"), "bad", "odd")
    raw.hset(keys.key("templates"), "odd", "{ceiling")


def odd_delivery(raw: Any, keys: Keys) -> None:
    for consumer in raw.zrange(keys.key("consumers"), 0, -1):
        for id in ("bad-u1", "bad-k2"):
            if raw.hexists(keys.key("consumer", consumer), id):
                raw.hset(keys.key("consumer", consumer), id, "odd")


DAMAGES: dict[str, Damage] = {
    "pending": wrong_type("pending", "bad"),
    "out": wrong_type("out", "bad"),
    "delayed": wrong_type("delayed", "bad"),
    "held sequence": wrong_type("sequence", "3:bad:k"),
    "free sequence": wrong_type("sequence", "3:bad:m"),
    "record of a waiting job": wrong_type("job", "bad-u2"),
    "record of a held job": wrong_type("job", "bad-u1"),
    "record of a delayed job": wrong_type("job", "bad-d"),
    "record of a dead job": wrong_type("job", "bad-x"),
    "prefix of a delayed job": odd_record("bad-d", lambda text: "x" + text[1:]),
    "lane of a delayed job": odd_record("bad-d", lambda text: text.replace('"bad"', "7")),
    "lane of a dead job": odd_record("bad-x", lambda text: text.replace('"bad"', "[]")),
    "gactive": odd_field("gactive", "bad"),
    "gwaiting": odd_field("gwaiting", "bad"),
    "ceiling": odd_field("glimit", "bad"),
    "weight": odd_field("gweight", "bad"),
    "rate": odd_field("grate", "bad"),
    "half a rate": odd_field("grate", "bad", "10,"),
    "template": template_in_words,
    "cost": odd_field("costs", "bad-u2"),
    "cost of a held job": odd_field("costs", "bad-u1", "todd,work"),
    "mean time": odd_field("durations", "work"),
    "delivery": odd_delivery,
    "block": lambda raw, keys: raw.zadd(keys.key("blocked"), {"s:odd": 1, "h:": 2}),
}


class Stage:
    """Both lanes: `u` unordered, `k` a held sequence, `m` a free one, `d` delayed, `x` dead."""

    def __init__(self, server: Server, timed: Timed) -> None:
        self.raw = server.raw()
        self.timed = timed
        self.queue = timed.queue
        self.keys = timed.queue.link.keys
        self.all: set[str] = set()
        self.gone: set[str] = set()
        """Completed, purged or refused."""
        self.held: list[str] = []
        self.server = server

    async def set_up(self) -> Stage:
        self.hand = await Hand(self.queue, lease=30).join()
        for lane in LANES:
            await self.add(lane, "x")
            assert await self.hand.claim() == [f"{lane}-x"]
            assert await self.hand.settle(f"{lane}-x", "bury") == "ok"
        for lane in LANES:
            await self.add(lane, "k1", "k2", "k3", ordering_key="k")
            await self.add(lane, "u1", charge="time")
        self.held = await self.hand.claim(4, prefetch=2)
        assert len(self.held) == 6
        for lane in LANES:
            await self.add(lane, "u2", "u3", "u4", cost=2)
            await self.add(lane, "m1", "m2", ordering_key="m")
            await self.add(lane, "d", delay_ms=SECOND)
            await self.add(lane, "dk", ordering_key="k", delay_ms=SECOND)
        self._kept = Kept(self.server, self.keys, self.queue.name)
        self._began = self.timed.clock.now, self.hand.number
        return self

    def put_back(self) -> None:
        """As it was set up, at that time."""
        self._kept.put_back()
        now, self.hand.number = self._began
        self.timed.clock.set(now)
        self.gone.clear()

    async def add(self, lane: str, *names: str, **fields: Any) -> None:
        ids = [f"{lane}-{name}" for name in names]
        await self.queue.enqueue_many(jobs(ids, lane, **fields))
        self.all |= set(ids)

    async def settle(self, action: str, **how: Any) -> None:
        """All that is held, in one call, the broken lane's first."""
        rows = [
            Settlement(id, str(self.hand.number), action, **how)  # type: ignore[arg-type]
            for id in sorted(self.held)
        ]
        answers = await self.queue.link.run(self.queue.link.store.settle(self.hand.id, rows))
        assert set(answers) <= {"ok", "settled"}

    async def drain(self) -> set[str]:
        """What can be claimed now and a little later, completed."""
        seen: set[str] = set()
        hand = await Hand(self.queue, lease=3600).join()
        for _ in range(4):
            while ids := await hand.claim(20, prefetch=5):
                await hand.exchange(0, done=[(id, str(hand.number)) for id in ids])
                seen |= set(ids)
            self.timed.clock.set(self.timed.clock.now + MINUTE)
            await beat(self.queue)
        await hand.leave()
        self.gone |= seen
        return seen

    def dead(self) -> set[str]:
        return set(self.raw.zrange(self.keys.key("dead"), 0, -1))

    async def mend(self) -> None:
        """A person deletes the key of a wrong type, the doctor does the rest."""
        for key in self.raw.scan_iter(f"{self.keys.root}*"):
            if self.raw.type(key) == "hash" and any(
                kind in key for kind in (":g:", ":s:", ":job:")
            ):
                self.raw.delete(key)
        report = await self.queue.doctor(repair=True)
        assert report.left == []
        await self.hand.leave()
        await self.drain()

    def of(self, lane: str, ids: Iterable[str]) -> set[str]:
        return {id for id in ids if id.startswith(lane + "-")}


# ── what is done to both lanes ──────────────────────────────────────────────────────────────────


async def nothing(stage: Stage) -> None:
    pass


async def complete(stage: Stage) -> None:
    done = [(id, str(stage.hand.number)) for id in sorted(stage.held)]
    reply = await stage.queue.link.run(
        stage.queue.link.store.exchange(
            stage.hand.id,
            number=stage.hand.number + 1,
            want=0,
            prefetch=1,
            park=False,
            done=done,
            ran=[1.5] * len(done),
        )
    )
    ended = {id for (id, _), answer in zip(done, reply.answers, strict=True) if answer == "ok"}
    assert stage.of("good", ended) == stage.of("good", stage.held)
    stage.gone |= ended


async def retry(stage: Stage) -> None:
    await stage.settle("retry", error='{"error":"no"}')


async def retry_later(stage: Stage) -> None:
    await stage.settle("retry", delay=SECOND, error='{"error":"no"}')


async def release(stage: Stage) -> None:
    await stage.settle("release", unstarted=True)


async def bury(stage: Stage) -> None:
    await stage.settle("bury", hold=True, error='{"error":"no"}')


async def leave(stage: Stage) -> None:
    await stage.hand.leave()


async def reap(stage: Stage) -> None:
    stage.timed.clock.set(stage.timed.clock.now + MINUTE)
    await beat(stage.queue)
    assert stage.raw.zcard(stage.keys.key("consumers")) == 0


async def fall_due(stage: Stage) -> None:
    stage.timed.clock.set(stage.timed.clock.now + 2 * SECOND)
    await beat(stage.queue)


async def replay(stage: Stage) -> None:
    assert (await stage.queue.dead.replay("bad-x", "good-x"))[1] == "ok"


async def discard(stage: Stage) -> None:
    await stage.queue.dead.discard("bad-x", "good-x")
    assert stage.dead() == set()
    stage.gone |= {"bad-x", "good-x"}


async def purge(stage: Stage) -> None:
    await stage.queue.purge()
    assert (await stage.queue.lane("good").info()).waiting == 0
    stage.gone |= {id for id in stage.all if not stage.raw.exists(stage.keys.key("job", id))}
    kept = stage.of("good", stage.all - stage.gone)
    assert kept == stage.of("good", stage.held) | {"good-x"}


async def move_into_it(stage: Stage) -> None:
    """Refused as a whole, or what the lane cannot take stays."""
    with contextlib.suppress(Unavailable):
        await stage.queue.lane("good").move("bad")


async def look(stage: Stage) -> None:
    """Whoever looks for what is wrong sees it all."""
    good = next(lane for lane in await stage.queue.lanes() if lane.name == "good")
    assert (good.waiting, good.delayed) == (6, 2)
    assert {lane.name for lane in await stage.queue.lanes(by="oldest_wait")} >= set(LANES)
    await stage.queue.census()
    await stage.queue.shares()
    assert len((await stage.queue.jobs("delayed")).jobs) >= 3
    assert len((await stage.queue.jobs("running")).jobs) >= 4
    assert len(await stage.queue.dead.list()) == 2
    assert [job.id for job in await stage.queue.dead.list(lane="good")] == ["good-x"]


ACTS = (
    nothing, complete, retry, retry_later, release, bury, leave, reap, fall_due, replay, discard,
    purge, move_into_it, look,
)  # fmt: skip
HOLDING = (nothing, fall_due, replay, discard, purge, move_into_it, look)
"""After these the consumer holds what it held."""


def behind(act: Callable[[Stage], Awaitable[None]], lane: str) -> set[str]:
    """What cannot be claimed after it: what is held, and what waits behind that or a dead head."""
    names = ("k2", "k3", "dk", "k1", "u1") if act in HOLDING else ("k2", "k3", "dk")
    return {f"{lane}-{name}" for name in names} if act in (*HOLDING, bury) else set()


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_lane_harms_no_other(server: Server, timed: Timed, damage: str) -> None:
    stage = await Stage(server, timed).set_up()
    for act in ACTS:
        stage.put_back()
        DAMAGES[damage](stage.raw, stage.keys)
        what = act.__name__
        await act(stage)
        await stage.drain()
        left = stage.all - stage.gone - stage.dead()
        assert stage.of("good", left) <= behind(act, "good"), what
        await stage.mend()
        left = stage.all - stage.gone - stage.dead()
        rest = behind(bury, "bad") | behind(bury, "good") if act is bury else set()
        assert left <= rest, what
        assert_sound(server, stage.queue)


@pytest.mark.parametrize("end", ["reap", "evict"])
async def test_a_consumer_whose_hash_is_damaged_goes_and_others_are_reaped(
    server: Server, timed: Timed, end: str
) -> None:
    """Else no beat of anyone would come to an end again."""
    raw, keys = server.raw(), timed.queue.link.keys
    await timed.queue.enqueue_many(jobs(["j1", "j2"]))
    hands = [await Hand(timed.queue, lease=30).join() for _ in range(2)]
    assert [await hand.claim() for hand in hands] == [["j1"], ["j2"]]
    raw.delete(keys.key("consumer", hands[0].id))
    raw.set(keys.key("consumer", hands[0].id), "odd")
    if end == "evict":
        assert await timed.queue.evict(hands[0].id) == 0
    timed.clock.set(timed.clock.now + MINUTE)
    await beat(timed.queue)
    assert raw.zcard(keys.key("consumers")) == 0
    assert int(str(raw.hget(keys.key("stats"), "broken"))) > 0
    raw.delete(keys.key("consumer", hands[0].id))
    assert (await timed.queue.doctor(repair=True)).left == []
    hand = await Hand(timed.queue, lease=30).join()
    assert sorted(await hand.claim(5)) == ["j1", "j2"]
    assert_sound(server, timed.queue)


async def test_what_a_broken_lane_cannot_take_stays_delayed(server: Server, timed: Timed) -> None:
    """It is tried again every minute, holds back nothing that falls due after it, and needs no
    doctor."""
    raw, keys = server.raw(), timed.queue.link.keys
    await timed.queue.enqueue_many(jobs([f"b{n}" for n in range(120)], "bad", delay_ms=SECOND))
    await timed.queue.enqueue_many(jobs(["g"], "good", delay_ms=2 * SECOND))
    wrong_type("pending", "bad")(raw, keys)
    timed.clock.set(timed.clock.now + 3 * SECOND)
    hand = await Hand(timed.queue, lease=3600).join()
    await beat(timed.queue)
    assert await hand.claim(5) == ["g"]
    assert raw.zcard(keys.key("scheduled")) == 120
    assert int(str(raw.hget(keys.key("stats"), "broken"))) == 2
    raw.delete(keys.key("pending", "bad"))
    assert await hand.claim(5) == []
    timed.clock.set(timed.clock.now + MINUTE)
    assert await hand.claim(200) == [f"b{n}" for n in range(100)]
    await beat(timed.queue)
    assert await hand.claim(200) == [f"b{n}" for n in range(100, 120)]
    assert_sound(server, timed.queue)
