"""lane_set, pause, resume, block, unblock, queue_set: limits and what they do to the ring."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rota.values.limits import UNSET
from tests.lua.conftest import Desk


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"ceiling": 0}, {"glimit": {"a": "0"}}),
        ({"weight": 0.01, "backlog": 0}, {"gweight": {"a": "0.01"}, "gmax": {"a": "0"}}),
        ({"weight": 100}, {"gweight": {"a": "100"}}),
        ({}, {}),
        ({"ceiling": None, "weight": None, "backlog": None}, {}),
    ],
)
def test_limits_are_set_left_and_removed(
    desk: Desk, limits: dict[str, Any], expected: dict[str, dict[str, str]]
) -> None:
    desk.run(desk.store.lane_set("a", **limits))
    names = ("glimit", "gweight", "gmax")
    assert {name: found for name in names if (found := desk.hash(name))} == expected
    desk.run(desk.store.lane_set("a", ceiling=UNSET))
    assert {name: found for name in names if (found := desk.hash(name))} == expected
    desk.run(desk.store.lane_set("a", ceiling=None, weight=None, backlog=None))
    assert not any(desk.hash(name) for name in names)


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 0.5), (0.3, 7)])
@pytest.mark.parametrize("inside", [True, False])
def test_a_changed_weight_rescales_what_the_lane_owes(
    desk: Desk, old: float, new: float, inside: bool
) -> None:
    desk.run(desk.store.lane_set("a", weight=old))
    desk.add("a1", "a2")
    desk.add(*[f"b{i}" for i in range(9)], lane="b")
    desk.claim(3)
    if not inside:
        desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    where = "ring" if inside else "owed"
    tag, vt = desk.zset(where).get("a"), float(str(desk.raw.get(desk.key("vt"))))
    desk.run(desk.store.lane_set("a", weight=new))
    if tag is None:  # both jobs are out already
        assert "a" not in desk.zset(where)
    else:
        assert desk.zset(where)["a"] == pytest.approx(vt + (tag - vt) * old / new, rel=1e-15)
    desk.clean()


def test_ceilings_up_down_none_and_nought(desk: Desk) -> None:
    desk.add(*[f"j{i}" for i in range(9)])
    running: list[list[str]] = []
    for ceiling, expected in ((2, 2), (0, 2), (1, 2), (4, 4), (None, 9)):
        desk.silence()
        desk.run(desk.store.lane_set("a", ceiling=ceiling))
        assert desk.bell() == (expected > len(running)), "a raised ceiling wakes somebody"
        running += desk.claim(9)
        assert len(running) == expected
        desk.clean()


def test_a_lane_over_its_new_ceiling_starts_again_below_it(desk: Desk) -> None:
    desk.add(*[f"j{i}" for i in range(5)])
    desk.claim(3)
    desk.run(desk.store.lane_set("a", ceiling=2))
    for done, ready in (("j0", False), ("j1", True), ("j2", True)):
        desk.exchange(0, done=[(done, 1)])
        assert bool(desk.zset("ring")) is ready
        desk.clean()


def test_an_own_ceiling_beats_the_default_and_gives_way_to_it(desk: Desk) -> None:
    desk.run(desk.store.queue_set(default_ceiling=1))
    desk.run(desk.store.lane_set("a", ceiling=3))
    desk.add(*[f"a{i}" for i in range(5)])
    desk.add(*[f"b{i}" for i in range(5)], lane="b")
    assert len(desk.claim(9)) == 4
    desk.run(desk.store.lane_set("a", ceiling=None))
    desk.exchange(0, done=[("a0", 1), ("a1", 1)])
    assert desk.claim(9) == []
    desk.run(desk.store.queue_set(default_ceiling=2))
    assert desk.claim(9) == [["a3"], ["b1"]]
    desk.run(desk.store.queue_set(default_ceiling=0))
    assert desk.claim(9) == []
    desk.run(desk.store.queue_set(default_ceiling=None))
    assert len(desk.claim(9)) == 4
    assert "sweep" not in desk.clean().get("config")


def test_pausing_again_replaces_end_and_reason(desk: Desk) -> None:
    desk.add("j")
    soon = desk.clock.now / 1000 + 5
    desk.run(desk.store.pause("a", reason="first", by="x", until=soon))
    assert desk.zset("blocked") == {"p:a": soon * 1000}
    desk.run(desk.store.pause("a", reason="second", by=None, until=None))
    assert desk.zset("blocked") == {}
    assert json.loads(desk.hash("why")["p:a"]) == {
        "reason": "second",
        "by": None,
        "at": desk.clock.now,
    }
    desk.clock.advance(9_000)
    assert desk.claim() == []
    desk.run(desk.store.pause("a", reason=None, by=None, until=1))
    assert desk.claim() == [["j"]], "its end has passed"
    dump = desk.clean()
    assert not {"paused", "blocked", "why"} & dump.types.keys()


@pytest.mark.parametrize("end", ["resume", "time"])
def test_a_pause_ends_once_and_wakes_somebody(desk: Desk, end: str) -> None:
    desk.add("j")
    desk.run(desk.store.pause("a", reason=None, by=None, until=desk.clock.now / 1000 + 5))
    assert desk.zset("ring") == {}
    desk.silence()
    if end == "resume":
        assert desk.run(desk.store.resume("a")) is True
    desk.clock.advance(5_000)
    desk.beat()
    assert desk.bell() == 1
    assert desk.run(desk.store.resume("a")) is False
    assert desk.zset("ring") == {"a": 1}
    assert "why" not in desk.clean().types


def test_a_block_only_ever_extends(desk: Desk) -> None:
    desk.add("j")
    start = desk.clock.now
    for seconds, until in ((5, 5_000), (3, 5_000), (8, 8_000), (0, 8_000)):
        desk.run(desk.store.block("a", seconds, reason=None, by=None))
        assert desk.zset("blocked") == {"l:a": start + until}
    desk.clock.advance(7_999)
    assert desk.claim() == []
    desk.clock.advance(1)
    assert desk.claim() == [["j"]]
    assert desk.run(desk.store.unblock("a")) is False
    desk.clean()


def test_each_reason_alone_keeps_a_lane_out(desk: Desk) -> None:
    desk.add("j")
    desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    desk.run(desk.store.block("a", 5, reason=None, by=None))
    desk.run(desk.store.lane_set("a", ceiling=0))
    assert desk.run(desk.store.unblock("a")) is True
    assert desk.run(desk.store.resume("a")) is True
    assert desk.claim() == []
    desk.run(desk.store.lane_set("a", ceiling=1))
    assert desk.claim() == [["j"]]
    desk.clean()


def test_what_is_in_flight_goes_on_in_a_lane_that_is_out(desk: Desk) -> None:
    desk.add("s1", "s2", "s3", key="k")
    desk.claim(1, 2)
    desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    assert desk.exchange(1, done=[("s1", 1), ("s2", 1)]).answers == ["ok", "ok"]
    dump = desk.clean()
    assert dump.get("g:a:pending") == {"!k": 3}
    assert dump.get("ring") == {}
