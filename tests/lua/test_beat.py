"""beat.lua without its reaping, and pass_on.lua: keeping the time."""

from __future__ import annotations

from typing import Any

import pytest

from rota.script import stubs
from rota.values.jobspec import JobSpec
from tests.lua.conftest import Desk

UNCHANGED: dict[str, Any] = {
    "default_weight": "", "ceiling": "", "dead_max": "", "dead_age": "", "declared": False,
}  # fmt: skip


def test_a_beat_brings_back_what_is_due_by_pages(desk: Desk) -> None:
    desk.add(*[f"j{i}" for i in range(5)], delay_ms=10)
    for lane in ("b", "d", "e"):
        desk.run(desk.store.pause(lane, reason=None, by=None, until=(desk.clock.now + 10) / 1000))
        desk.run(desk.store.block(lane, 0.01, reason=None, by=None))
    desk.clock.advance(9)
    more, due, *_ = desk.run(iter(stubs.beat(desk.keys, limit=2, watched_ms=0)))
    assert (more, due) == (False, 0.001)
    desk.clock.advance(1)
    left = []
    more = True
    while more:
        more, *_ = desk.run(iter(stubs.beat(desk.keys, limit=2, watched_ms=0)))
        left.append((len(desk.zset("scheduled")), len(desk.zset("blocked"))))
        desk.clean()
    assert left == [(3, 4), (1, 2), (0, 0), (0, 0)]
    assert desk.claim(9) == [[f"j{i}"] for i in range(5)]


def test_kept_tags_behind_the_rotation_are_pruned_by_pages(desk: Desk) -> None:
    desk.raw.set(desk.key("vt"), "10")
    desk.raw.zadd(desk.key("owed"), {f"l{i}": 5 + i for i in range(8)})
    more, *_ = desk.run(iter(stubs.beat(desk.keys, limit=3, watched_ms=0)))
    assert (more, min(desk.zset("owed").values())) == (True, 8)
    desk.beat()
    assert desk.zset("owed") == {"l5": 10, "l6": 11, "l7": 12}


def test_a_beat_when_nothing_is_due_changes_nothing(desk: Desk) -> None:
    desk.add("j", delay_ms=5_000)
    desk.silence()
    before = desk.dump()
    assert desk.beat() == 5
    after = desk.clean()
    assert after.types == before.types
    assert after.get("config") == before.get("config") | {"beat": str(desk.clock.now)}


@pytest.mark.legs("valkey", "redis7")
def test_a_default_ceiling_reaches_all_lanes_by_pages(desk: Desk) -> None:
    """Enough lanes that their hash is walked in pages; claims in between obey at once."""
    lanes = [f"l{i:04}" for i in range(1200)]
    for start in range(0, 1200, 300):
        part = lanes[start : start + 300]
        for n in range(2):
            desk.add_specs([JobSpec(task="t", id=f"{lane}-{n}", lane=lane) for lane in part])
    for lane in lanes[:3]:
        desk.run(desk.store.lane_set(lane, ceiling=5))
    desk.claim(1000)
    desk.run(iter(stubs.queue_set(desk.keys, default_ceiling="1", **UNCHANGED)))
    sizes = []
    more = True
    while more:
        more, *_ = desk.run(iter(stubs.beat(desk.keys, limit=300, watched_ms=0)))
        sizes.append(len(desk.zset("ring")))
        desk.clean()
    assert len(sizes) > 3
    assert sizes[-1] == 203
    assert sorted(sizes, reverse=True) == sizes
    desk.run(iter(stubs.queue_set(desk.keys, default_ceiling="-", **UNCHANGED)))
    desk.beat()
    assert len(desk.clean().get("ring")) == 1200


@pytest.mark.parametrize(
    ("ready", "shut", "due", "rung"),
    [
        (True, False, None, 1),
        (True, True, None, 0),
        (False, False, None, 0),
        (False, False, 5_000, 1),
        (False, False, 5_001, 0),
        (True, True, 5_000, 1),
    ],
)
def test_a_debt_is_passed_on_when_somebody_must_look(
    desk: Desk, ready: bool, shut: bool, due: int | None, rung: int
) -> None:
    if ready:
        desk.add("j")
    if due:
        desk.add("late", delay_ms=due)
    if shut:
        desk.run(desk.store.shut_gate(reason=None, by=None))
    desk.silence()
    assert desk.run(desk.store.pass_on(beat_ms=5_000)) == rung
    assert desk.bell() == rung


@pytest.mark.parametrize(
    ("first", "second", "rings"), [(5, 9, False), (9, 5, True), (5, 5, False), (0, 9, True)]
)
def test_an_earlier_due_time_wakes_the_sleepers(
    desk: Desk, first: int, second: int, rings: bool
) -> None:
    def delay(seconds: int) -> None:
        desk.add(f"j{seconds}", delay_ms=seconds * 1000)

    def retry(seconds: int) -> None:
        desk.settle(("r", "retry", seconds * 1000))

    def block(seconds: int) -> None:
        desk.run(desk.store.block(f"b{seconds}", seconds, reason=None, by=None))

    def pause(seconds: int) -> None:
        until = desk.clock.now / 1000 + seconds
        desk.run(desk.store.pause(f"p{seconds}", reason=None, by=None, until=until))

    desk.add("r")
    desk.claim()
    for before, after in ((delay, retry), (block, pause), (pause, block)):
        if first:
            before(first)
        desk.silence()
        after(second)
        assert desk.bell() == rings
        desk.raw.delete(*(desk.key(kind) for kind in ("scheduled", "blocked", "why", "paused")))
