"""Purging a queue: what was there at the beginning goes, whatever happens between two calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from rota.script.loader import Operation, Request
from rota.values.jobspec import JobSpec
from tests.lua.conftest import Desk

T = TypeVar("T")
HOUR = 3_600_000
STEPS_MAX = 5000


def interleaved(desk: Desk, operation: Operation[T], between: Callable[[], object]) -> T:
    """Runs an operation; `between` any two of its calls something else happens."""

    def send(request: Request) -> Operation[Any]:
        return (yield request)

    try:
        request = next(operation)
        for _ in range(STEPS_MAX):
            reply = desk.run(send(request))
            between()
            request = operation.send(reply)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"it goes on after {STEPS_MAX} calls")


def fill(desk: Desk, lanes: int, **fields: Any) -> list[str]:
    """A job for each lane, and its id."""
    ids = [f"j{n}" for n in range(lanes)]
    for start in range(0, lanes, 500):
        desk.add_specs(
            [JobSpec(task="t", id=id, lane=f"l-{id}", **fields) for id in ids[start : start + 500]]
        )
    return ids


def has_records(desk: Desk, ids: list[str]) -> int:
    return sum(
        desk.raw.exists(*(desk.key("job", id) for id in ids[start : start + 1000]))
        for start in range(0, len(ids), 1000)
    )


@pytest.mark.parametrize("lanes", [1, 199, 1000, 10_500])
def test_lanes_with_delayed_jobs_only_are_emptied(desk: Desk, lanes: int) -> None:
    fill(desk, lanes, delay_ms=HOUR)
    assert desk.run(desk.store.purge_queue()) == lanes
    assert not desk.clean().get("scheduled")


@pytest.mark.parametrize("delay", [0, HOUR])
def test_a_mixed_queue_is_emptied_but_for_what_runs_and_is_dead(desk: Desk, delay: int) -> None:
    desk.add("r1", "x1", lane="busy")
    desk.claim(2)
    desk.settle(("x1", "bury", 0))
    desk.add("w1", "w2", lane="busy", key="k")
    desk.add("d1", lane="busy", delay_ms=HOUR)
    desk.run(desk.store.lane_set("idle", ceiling=3))
    fill(desk, 300, delay_ms=delay)
    assert desk.run(desk.store.purge_queue()) == 303
    desk.clean()
    assert desk.raw.zcard(desk.key("scheduled")) == 0
    assert desk.hash("gwaiting") == {}
    assert has_records(desk, ["r1", "x1", "w1", "w2", "d1"]) == 2


def test_jobs_that_fall_due_meanwhile_go_too(desk: Desk) -> None:
    """Each is in one place or the other, and never in the one that has just been looked at."""
    ids = []
    for n in range(300):
        desk.add(f"j{n}", lane=f"l{n}", delay_ms=1000 + 10 * n)
        ids.append(f"j{n}")

    def time_goes_by() -> None:
        desk.clock.set(desk.clock.now + 20)
        desk.beat()

    assert interleaved(desk, desk.store.purge_queue(), time_goes_by) == 300
    assert has_records(desk, ids) == 0
    desk.clean()


@pytest.mark.parametrize("delay", [0, 10, HOUR])
def test_it_ends_while_producers_go_on(desk: Desk, delay: int) -> None:
    old = fill(desk, 400, delay_ms=HOUR)
    old += [f"w{n}" for n in range(100)]
    desk.add_specs([JobSpec(task="t", id=f"w{n}", lane=f"w{n % 30}") for n in range(100)])
    made = 0

    def produce() -> None:
        nonlocal made
        batch = [
            JobSpec(task="t", id=f"n{made + n}", lane=f"w{n % 30}", delay_ms=delay)
            for n in range(100)
        ]
        desk.add_specs(batch)
        made += 100

    interleaved(desk, desk.store.purge_queue(), produce)
    assert has_records(desk, old) == 0
    desk.clean()


def test_a_broken_lane_does_not_keep_the_others(desk: Desk) -> None:
    fill(desk, 50, delay_ms=HOUR)
    desk.add("b1", "b2", lane="bad")
    desk.add("b3", lane="bad", delay_ms=HOUR)
    desk.raw.delete(desk.key("pending", "bad"))
    desk.raw.set(desk.key("pending", "bad"), "odd")
    assert desk.run(desk.store.purge_queue()) == 51
    assert has_records(desk, ["b1", "b2", "b3"]) == 2
    desk.raw.delete(desk.key("pending", "bad"))
