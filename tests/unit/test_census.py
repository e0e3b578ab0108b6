"""What a census makes of lanes; on real ones in tests/integration/test_metrics.py."""

from __future__ import annotations

from typing import Any, get_args

import pytest

import rota
from rota.script.keys import Keys
from rota.store.inspector import Inspector
from rota.values import config
from rota.values.figures import Census
from rota.values.model import LaneInfo, LaneState

STATES = get_args(LaneState)


def lane(name: str, **fields: Any) -> LaneInfo:
    usual: dict[str, Any] = {
        "waiting": 0, "delayed": 0, "running": 0, "ceiling": None, "weight": 1.0, "paused": False,
        "blocked_until": None, "in_ring": False, "oldest_wait": None, "window": 100.0,
    }  # fmt: skip
    return LaneInfo(name, **usual | fields)


def ready(name: str, wait: float, **fields: Any) -> LaneInfo:
    return lane(name, waiting=1, in_ring=True, oldest_wait=wait, next_wait=wait, **fields)


def taken(pages: list[list[LaneInfo]], top: int = 2) -> Census:
    operation = Inspector(Keys("q")).census(top)
    try:
        next(operation)
        for number, page in enumerate(pages, start=1):
            cursor = [] if number == len(pages) else [b"1", b"1"]
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("rota.script.replies.lane", lambda _, row: row)
                operation.send((0, cursor, page))
    except StopIteration as stop:
        found: Census = stop.value
        return found
    raise AssertionError("it goes on")


def test_every_state_of_a_lane_is_counted_under_its_name() -> None:
    lanes = [
        lane("1", paused=True),
        lane("2", ceiling=0),
        lane("3", blocked_until=9.0),
        lane("4", rated_until=9.0),
        ready("5", 1),
        lane("6", ceiling=1, running=1, waiting=1, oldest_wait=1.0),
        lane("7", waiting=1, oldest_wait=1.0),
        lane("8", running=1),
        lane("9"),
    ]
    found = taken([lanes])
    assert found.lanes == dict.fromkeys(STATES, 1)
    assert {one.state for one in lanes} == set(STATES)


def test_the_longest_waits_are_named_and_the_others_summed() -> None:
    pages = [
        [
            ready("a", 5, running=1),
            ready("b", 9),
            lane("p", waiting=3, paused=True, oldest_wait=50.0),
        ],
        [ready("c", 7, running=2), ready("b", 10), lane("idle")],
    ]
    found = taken(pages)
    assert [one.name for one in found.top] == ["p", "b"]
    assert (found.oldest_wait, found.ready_wait) == (50, 10)
    assert found.others.oldest_wait == 7
    assert found.others.running == 3
    nothing = taken([[lane("idle")]])
    assert (nothing.top, nothing.oldest_wait, nothing.ready_wait) == ([], None, None)
    everyone = taken(pages, top=0)
    assert everyone.top == []
    assert everyone.others.oldest_wait == 50


def test_fairness_is_that_of_lanes_kept_waiting_all_through() -> None:
    fair = taken([[ready("a", 200, charged=30.0, weight=3.0), ready("b", 200, charged=10.0)]])
    assert (fair.index, fair.least, fair.most) == pytest.approx((1, 1, 1))
    starving = taken([[ready("a", 200, charged=0.0), ready("b", 200, charged=10.0)]])
    assert (starving.index, starving.least, starving.most) == (0.5, 0.0, 2.0)
    late = taken([[ready("a", 3, charged=0.0), ready("b", 200, charged=10.0)]])
    assert (late.index, late.least, late.most) == (None, None, None)


def test_only_a_few_are_named() -> None:
    for wrong in (-1, config.MAX_TOP + 1, True):
        with pytest.raises(rota.ConfigError, match="top: expected a whole number from 0 to 100"):
            taken([[]], top=wrong)
