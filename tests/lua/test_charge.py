"""What turns cost: declared costs, and the time jobs take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rota.errors import ConfigError
from rota.values.jobspec import JobSpec
from rota.values.model import Action, Settlement
from tests.lua.conftest import Desk


def end(desk: Desk, id: str, action: Action, *, ran: float, delay: int = 0) -> None:
    held: Any = desk.raw.hget(desk.key("consumer", "c"), id)
    settlement = Settlement(id, held.partition(",")[0], action, delay, ran=ran)
    assert desk.run(desk.store.settle("c", [settlement])) == ["ok"]


def tag(desk: Desk, lane: str) -> float:
    return {**desk.zset("owed"), **desk.zset("ring")}[lane]


def durations(desk: Desk) -> dict[str, str]:
    return desk.hash("durations")


# ── declared ────────────────────────────────────────────────────────────────────────────────────


def test_shares_follow_the_sum_of_costs(desk: Desk) -> None:
    desk.add(*[f"a{i}" for i in range(300)], lane="a", cost=3)
    desk.add(*[f"b{i}" for i in range(300)], lane="b")
    desk.add(*[f"c{i}" for i in range(300)], lane="c", cost=0.5)
    turns: Counter[str] = Counter()
    for _ in range(30):
        turns.update(id[0] for entry in desk.claim(10) for id in entry)
    assert turns["a"] * 3 == pytest.approx(turns["b"], abs=4)
    assert turns["c"] * 0.5 == pytest.approx(turns["b"], abs=2)
    desk.clean()


def test_a_cost_goes_with_its_job(desk: Desk) -> None:
    desk.add("j1", "j2", "j3", cost=2.5)
    desk.add("plain")
    assert desk.hash("costs") == {"j1": "2.5", "j2": "2.5", "j3": "2.5"}
    desk.claim(4)
    desk.settle(("j1", "complete", 0), ("j2", "bury", 0), ("j3", "retry", 5))
    assert desk.hash("costs") == {"j2": "2.5", "j3": "2.5"}
    desk.run(desk.store.discard(["j2"]))
    desk.run(desk.store.purge("a"))
    assert not desk.hash("costs")
    desk.clean()


@pytest.mark.parametrize("cost", [0, -1, 0.0001, 1000.1, True, "1", float("nan"), None])
def test_a_cost_outside_the_rules_is_refused(cost: Any) -> None:
    with pytest.raises(ConfigError, match=r"cost: expected a number from 0.001 to 1000"):
        JobSpec(task="t", cost=cost)


def test_a_charge_outside_the_rules_is_refused() -> None:
    with pytest.raises(ConfigError, match="charge: expected 'cost' or 'time', given 'money'"):
        JobSpec(task="t", charge="money")  # type: ignore[arg-type]


# ── by time ─────────────────────────────────────────────────────────────────────────────────────


def timed(desk: Desk, *ids: str, lane: str = "a", **how: Any) -> None:
    desk.add(*ids, lane=lane, charge="time", **how)


def test_a_lane_pays_for_the_time_its_job_took(desk: Desk) -> None:
    timed(desk, "j1", "j2", "j3")
    desk.claim()
    before = tag(desk, "a")
    end(desk, "j1", "complete", ran=4.0)
    assert tag(desk, "a") == pytest.approx(before + 3.0), "charged 1 s, as nothing was known"
    assert durations(desk) == {"t": "4"}
    desk.claim()
    assert tag(desk, "a") == pytest.approx(before + 7.0), "charged what the last one took"
    end(desk, "j2", "complete", ran=12.0)
    assert durations(desk) == {"t": "5"}, "an eighth of the difference"
    desk.clean()


def test_weights_divide_the_time(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", weight=2))
    timed(desk, "j1", "j2")
    desk.claim()
    before = tag(desk, "a")
    end(desk, "j1", "complete", ran=5.0)
    assert tag(desk, "a") == pytest.approx(before + 2.0)


def test_what_was_charged_too_much_comes_back_but_never_before_the_rotation(desk: Desk) -> None:
    timed(desk, "j1", "j2", "j3")
    desk.add(*[f"b{i}" for i in range(9)], lane="b")
    while ["j1"] not in desk.claim():
        pass
    end(desk, "j1", "complete", ran=0.1)
    vt = float(str(desk.raw.get(desk.key("vt"))))
    assert vt <= tag(desk, "a") < vt + 1
    desk.clean()


@pytest.mark.parametrize("action", ["retry", "release", "bury", "block_lane", "block_sequence"])
def test_time_counts_however_a_job_ends(desk: Desk, action: Action) -> None:
    timed(desk, "j1", "j2")
    desk.claim()
    before = tag(desk, "a")
    end(desk, "j1", action, ran=3.0, delay=10)
    assert tag(desk, "a") == pytest.approx(before + 2.0)
    desk.clean()


def test_a_lane_without_a_tag_owes_the_time(desk: Desk) -> None:
    timed(desk, "j1")
    desk.add("b1", "b2", lane="b")
    desk.claim(2)
    desk.raw.zrem(desk.key("owed"), "a")
    vt = float(str(desk.raw.get(desk.key("vt"))))
    end(desk, "j1", "complete", ran=6.0)
    assert tag(desk, "a") == pytest.approx(vt + 5.0)


def test_shares_follow_time_where_one_tenants_jobs_take_longer(desk: Desk) -> None:
    """Jobs of one task: 2 s each in lane a, 0.1 s in lane b; one at a time."""
    timed(desk, *[f"a{i}" for i in range(200)])
    timed(desk, *[f"b{i}" for i in range(900)], lane="b")
    spent: Counter[str] = Counter()
    for _ in range(400):
        ((id,),) = desk.claim()
        seconds = 2.0 if id[0] == "a" else 0.1
        end(desk, id, "complete", ran=seconds)
        spent[id[0]] += round(seconds * 10)
    assert spent["a"] / spent["b"] == pytest.approx(1, abs=0.15)
    desk.clean()
