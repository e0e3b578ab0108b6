"""Enqueueing into a lane one of whose keys is damaged: its callers are told, no other is harmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import rota
from rota.errors import LaneBroken, LaneFull
from rota.script.loader import Operation
from rota.values.ids import new_nonce
from rota.values.model import Enqueued
from tests.failures.tools import Hand, jobs
from tests.support.queues import assert_sound, spec
from tests.support.servers import Server

WORDS = "rota doctor QUEUE --repair"


class Broken:
    """A queue whose lane `bad` has a sequence `k` in someone's hands and is damaged at will."""

    def __init__(self, server: Server, queue: rota.Queue) -> None:
        self.raw = server.raw()
        self.queue = queue
        self.keys = queue.link.keys
        self.name = ""

    async def hold(self) -> Broken:
        await self.queue.enqueue(spec("bad", ordering_key="k", id="held"))
        hand = await Hand(self.queue, lease=3600).join()
        assert await hand.claim() == ["held"]
        return self

    def damage(self, kind: str) -> None:
        self.name = self.keys.key(kind, "3:bad:k" if kind == "sequence" else "bad")
        self.raw.delete(self.name)
        self.raw.set(self.name, "odd")

    def move_away(self) -> None:
        assert self.raw.get(self.name) == "odd"
        self.raw.delete(self.name)

    def records(self) -> set[str]:
        names = [str(name) for name in self.raw.scan_iter(f"{self.keys.root}job:*")]
        return {name.rpartition(":")[2] for name in names} - {"held"}

    def stat(self, name: str) -> int:
        return int(str(self.raw.hget(self.keys.key("stats"), name) or 0))


@pytest.fixture
async def broken(server: Server, queue: rota.Queue) -> Broken:
    return await Broken(server, queue).hold()


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "unordered": ("pending", {}),
    "with a cost": ("pending", {"cost": 2}),
    "free sequence": ("pending", {"ordering_key": "m"}),
    "sequence": ("sequence", {"ordering_key": "k"}),
    "held sequence": ("out", {"ordering_key": "k"}),
    "delayed": ("delayed", {"delay_ms": 3_600_000}),
    "delayed, of a sequence": ("delayed", {"delay_ms": 3_600_000, "ordering_key": "k"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backlog", [None, 100])
async def test_its_jobs_are_refused_and_the_others_stored(
    server: Server, broken: Broken, case: str, backlog: int | None
) -> None:
    kind, fields = CASES[case]
    queue = broken.queue
    if backlog is not None:
        await queue.lane("bad").set(backlog=backlog)
    broken.damage(kind)
    batch = [
        spec("good", id="g1"),
        spec("bad", id="b1", **fields),
        spec("good", id="g2", ordering_key="k"),
        spec("bad", id="b2", **fields),
        spec("good", id="g3", delay_ms=3_600_000),
    ]
    enqueued, counted = broken.stat("enqueued"), broken.stat("broken")
    with pytest.raises(LaneBroken, match="lane 'bad' is broken") as caught:
        await queue.enqueue_many(batch)
    assert caught.value.lane == "bad"
    assert WORDS in str(caught.value)
    assert [(done.id, done.outcome) for done in caught.value.outcomes] == [
        ("g1", "created"),
        ("b1", "lane_broken"),
        ("g2", "created"),
        ("b2", "lane_broken"),
        ("g3", "created"),
    ]
    assert broken.records() == {"g1", "g2", "g3"}
    assert broken.stat("enqueued") == enqueued + 3
    assert broken.stat("broken") > counted
    assert not broken.raw.exists(broken.keys.key("costs"))
    broken.move_away()
    assert_sound(server, queue)
    again = await queue.enqueue_many(batch)
    assert [done.outcome for done in again] == [
        "duplicate", "created", "duplicate", "created", "duplicate",
    ]  # fmt: skip
    assert_sound(server, queue)


@pytest.mark.legs("valkey", "cluster", "redis7")  # how its errors look is the server's affair
@pytest.mark.parametrize("case", CASES)
async def test_single_ones_that_travel_together(server: Server, broken: Broken, case: str) -> None:
    kind, fields = CASES[case]
    broken.damage(kind)
    specs = [
        spec(lane, id=f"{lane}{n}", **(fields if lane == "bad" else {}))
        for n in range(3)
        for lane in ("a", "bad", "c")
    ]
    done = await asyncio.gather(*(broken.queue.enqueue(s) for s in specs), return_exceptions=True)
    for one, sent in zip(done, specs, strict=True):
        if sent.lane == "bad":
            assert isinstance(one, LaneBroken)
            assert one.lane == "bad"
        else:
            assert one == Enqueued(sent.id, "created")
    broken.move_away()
    assert {done.outcome for done in await broken.queue.enqueue_many(specs)} == {
        "created",
        "duplicate",
    }
    assert_sound(server, broken.queue)


@pytest.mark.parametrize("case", CASES)
async def test_an_atomic_call_stores_nothing(server: Server, broken: Broken, case: str) -> None:
    kind, fields = CASES[case]
    broken.damage(kind)
    batch = [spec("good", id="g1"), spec("bad", id="b1", **fields), spec("good", id="g2")]
    with pytest.raises(LaneBroken) as caught:
        await broken.queue.enqueue_many(batch, atomic=True)
    assert (caught.value.lane, caught.value.outcomes) == ("bad", [])
    assert broken.records() == set()
    broken.move_away()
    assert_sound(server, broken.queue)
    done = await broken.queue.enqueue_many(batch, atomic=True)
    assert [one.outcome for one in done] == ["created"] * 3


async def test_what_of_the_lane_is_sound_is_stored(server: Server, broken: Broken) -> None:
    """A damaged sequence is not its lane, a damaged list of delayed jobs keeps back no other."""
    broken.damage("sequence")
    await broken.queue.enqueue(spec("bad", id="u"))
    await broken.queue.enqueue(spec("bad", id="m", ordering_key="m"))
    with pytest.raises(LaneBroken):
        await broken.queue.enqueue(spec("bad", id="k", ordering_key="k"))
    broken.move_away()
    broken.damage("delayed")
    await broken.queue.enqueue(spec("bad", id="u2"))
    with pytest.raises(LaneBroken):
        await broken.queue.enqueue(spec("bad", id="d", delay_ms=3_600_000))
    assert broken.records() == {"u", "m", "u2"}
    broken.move_away()
    assert_sound(server, broken.queue)


async def test_the_receipt_says_what_was_stored(broken: Broken) -> None:
    """Sent again after a lost reply, it tells the same, and stores nothing."""
    broken.damage("pending")
    store = broken.queue.link.store
    batch = jobs(["g1"], "good") + jobs(["b1"], "bad")

    def with_nonce(nonce: str) -> Operation[Any]:
        operation = store.enqueue(batch)
        call = next(operation)
        call.args = [nonce, *call.args[1:]]  # type: ignore[union-attr]
        reply = yield call
        return [bytes(part) for part in reply]

    nonce = new_nonce()
    assert await broken.queue.link.run(with_nonce(nonce)) == [b"ok", b"cb"]
    broken.move_away()
    assert await broken.queue.link.run(with_nonce(nonce)) == [b"ok", b"cb"]
    assert broken.records() == {"g1"}
    assert await broken.queue.link.run(with_nonce(new_nonce())) == [b"ok", b"wc"]


async def test_the_same_id_twice_is_no_duplicate_of_a_refused_job(broken: Broken) -> None:
    broken.damage("pending")
    twice = jobs(["b1", "b1"], "bad") + jobs(["g1", "g1"], "good")
    with pytest.raises(LaneBroken) as caught:
        await broken.queue.enqueue_many(twice)
    assert [done.outcome for done in caught.value.outcomes] == [
        "lane_broken", "lane_broken", "created", "duplicate",
    ]  # fmt: skip


async def test_the_rest_of_a_long_batch_is_sent_before_it_is_told(
    server: Server, broken: Broken
) -> None:
    broken.damage("pending")
    batch = jobs(["b1"], "bad") + jobs([f"g{n}" for n in range(2500)], "good")
    with pytest.raises(LaneBroken) as caught:
        await broken.queue.enqueue_many(batch)
    assert [done.outcome for done in caught.value.outcomes] == ["lane_broken"] + ["created"] * 2500
    streamed = [done async for done in broken.queue.enqueue_stream(batch)]
    assert [done.outcome for done in streamed] == ["lane_broken"] + ["duplicate"] * 2500
    broken.move_away()
    assert_sound(server, broken.queue)


async def test_full_lanes_are_waited_for_beside_a_broken_one(broken: Broken) -> None:
    broken.damage("pending")
    await broken.queue.lane("small").set(backlog=1)
    batch = jobs(["b1"], "bad") + jobs(["s1", "s2"], "small")
    with pytest.raises(LaneBroken) as caught:
        await broken.queue.enqueue_many(batch, on_full="wait", wait=0.3)
    words = ["lane_broken", "created", "lane_full"]
    assert [done.outcome for done in caught.value.outcomes] == words
    with pytest.raises(LaneFull) as full:
        await broken.queue.enqueue_many(batch, on_full="raise")
    assert full.value.outcomes[0].outcome == "lane_broken"


@pytest.mark.parametrize("kind", ["gwaiting", "gactive", "glimit", "gweight", "grate", "gmax"])
async def test_a_field_that_cannot_be_read_stops_no_enqueue(broken: Broken, kind: str) -> None:
    broken.raw.hset(broken.keys.key(kind), "bad", "odd")
    batch = jobs(["b1"], "bad") + jobs(["g1"], "good")
    assert [done.outcome for done in await broken.queue.enqueue_many(batch)] == ["created"] * 2
    assert (await broken.queue.doctor(repair=True)).left == []
    hand = await Hand(broken.queue, lease=3600).join()
    assert sorted(await hand.claim(5)) == ["b1", "g1"]


@pytest.mark.parametrize("enqueue", ["one", "many"])
async def test_the_blocking_twin_tells_it_too(broken: Broken, enqueue: str) -> None:
    broken.damage("pending")
    sync = broken.queue.sync
    calls: dict[str, Callable[[], object]] = {
        "one": lambda: sync.enqueue(spec("bad")),
        "many": lambda: sync.enqueue_many([spec("bad")]),
    }
    with pytest.raises(LaneBroken, match="bad"):
        await asyncio.to_thread(calls[enqueue])
    await asyncio.to_thread(sync.close)
