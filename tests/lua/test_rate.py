"""Rates of lanes: how many jobs start in any window, when the next may, what gives tokens back."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import count, cycle
from math import ceil

import pytest

from rota.script import stubs
from rota.values.jobspec import JobSpec
from rota.values.limits import Rate
from rota.values.model import Action
from tests.lua.conftest import LEASE, Desk

SLOW = [
    Rate(1, per=60),
    Rate(1, per=60, burst=5),
    Rate(3, per=10, burst=2),
    Rate(7, per=100, burst=5),
]
FAST = [
    Rate(7),
    Rate(7, burst=5),
    Rate(30, burst=2),
    Rate(700, burst=1),
    Rate(700),
    Rate(1000, burst=1),
    Rate(1000),
    Rate(2500, burst=1),
    Rate(2500),
    Rate(30_000, burst=5),
]
STOCK = 600


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """With a lease that outlives every wait for a token."""
    desk.join("c", lease=86_400_000)
    return desk


class Lanes:
    """Lanes by their rates, each with more work than its rate lets out, and what each started."""

    def __init__(self, desk: Desk, rates: list[Rate]) -> None:
        self.desk = desk
        self.starts: dict[Rate, list[int]] = {rate: [] for rate in rates}
        self._by_name = {str(rate): rate for rate in rates}
        self._stored = dict.fromkeys(rates, 0)
        self._numbers = count(1)
        for rate in rates:
            desk.run(desk.store.lane_set(str(rate), rate=rate))
            self._stock(rate)

    def _stock(self, rate: Rate) -> None:
        numbers = range(self._stored[rate], self._stored[rate] + STOCK)
        self._stored[rate] += STOCK
        lane = str(rate)
        self.desk.add_specs([JobSpec(task="t", id=f"{lane}/{n}", lane=lane) for n in numbers])

    def ask(self) -> None:
        """Starts what may start now, and ends it."""
        number = next(self._numbers)
        ids = [id for entry in self.desk.claim(1000, number=number) for id in entry]
        self.desk.exchange(0, number=number, done=[(id, number) for id in ids])
        for id in ids:
            self.starts[self._by_name[id.partition("/")[0]]].append(self.desk.clock.now)
        for rate, starts in self.starts.items():
            if self._stored[rate] - len(starts) < STOCK // 2:
                self._stock(rate)


def excess(starts: list[int], rate: Rate) -> float:
    """By how many jobs the fullest of all windows exceeds the worth of its length."""
    moments = sorted(set(starts))
    return max(
        bisect_right(starts, end) - bisect_left(starts, begin) - (end - begin) / rate.interval_ms
        for i, begin in enumerate(moments)
        for end in moments[i:]
    )


def burst_of(rate: Rate) -> float:
    """What the rate may start at once; as much as fits into a millisecond, the clock's grain."""
    return max(rate.burst or 0, 1 / rate.interval_ms)


def check_windows(lanes: Lanes) -> None:
    for rate, starts in lanes.starts.items():
        assert excess(starts, rate) <= burst_of(rate) + 1, rate


@pytest.mark.parametrize(("rates", "step", "steps"), [(FAST, 1, 400), (SLOW, 1000, 400)])
def test_who_is_always_asked_starts_at_its_rate(
    desk: Desk, rates: list[Rate], step: int, steps: int
) -> None:
    lanes = Lanes(desk, rates)
    lanes.ask()
    for _ in range(steps):
        desk.clock.advance(step)
        lanes.ask()
    check_windows(lanes)
    for rate, starts in lanes.starts.items():
        worth = steps * step / rate.interval_ms
        assert len(starts) >= worth * 0.99 - 1, rate
    assert desk.hash("attempts") == {}
    desk.clean()


def test_who_is_asked_now_and_then_starts_no_more_than_its_rate(desk: Desk) -> None:
    """After a rest, too."""
    lanes = Lanes(desk, FAST)
    pauses = cycle((3, 7, 4, 6, 0, 5, 1, 1, 0, 137))
    for ms, _ in zip(pauses, range(120), strict=False):
        lanes.ask()
        desk.clock.advance(ms)
    check_windows(lanes)
    desk.clean()


def test_after_a_rest_exactly_the_burst_starts_at_once(desk: Desk) -> None:
    """Whatever fractions of a millisecond the interval has."""
    speeds = (3, 6, 7, 30, 33, 70, 700, 2500)
    rates = [Rate(n, burst=burst) for n in speeds for burst in range(1, 7)]
    lanes = Lanes(desk, rates)
    for _ in range(3):
        lanes.ask()
        desk.clock.advance(3_600_000)
    for rate, starts in lanes.starts.items():
        assert len(starts) == 3 * int(burst_of(rate)), rate
    desk.clean()


def ring(desk: Desk) -> bool:
    return "a" in desk.zset("ring")


@pytest.mark.parametrize("rate", [*SLOW, *FAST], ids=str)
def test_a_lane_comes_back_with_its_next_token_and_not_before(desk: Desk, rate: Rate) -> None:
    """What a claim that will wait is told of the time; until then nothing has to be asked."""
    desk.add(*[f"j{i}" for i in range(400)])
    desk.run(desk.store.lane_set("a", rate=rate))
    for _ in range(7):
        answer = desk.exchange(1000, park=True)
        assert len(answer.entries) >= 1, "it comes back on time"
        assert answer.due is not None
        assert not answer.left
        wait = round(answer.due * 1000)
        assert 1 <= wait <= ceil(rate.interval_ms)
        if wait > 1:
            before = desk.dump()
            desk.clock.advance(wait - 1)
            early = desk.exchange(10, park=True)
            assert early.entries == []
            assert early.due == 0.001
            after = desk.dump()
            assert after.get("gtat") == before.get("gtat")
            assert after.get("blocked") == before.get("blocked")
        desk.clock.advance(1)
    assert desk.hash("attempts") == {}
    desk.clean()


def test_a_rate_keeps_no_other_lane_from_work(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=60)))
    desk.add("a1", "a2", "a3")
    desk.add("b1", "b2", "b3", lane="b")
    assert sorted(desk.claim(9)) == [["a1"], ["b1"], ["b2"], ["b3"]]
    desk.add("b4", lane="b")
    assert desk.claim(9) == [["b4"]]
    desk.clean()


def test_a_sequence_takes_no_more_jobs_than_the_rate_lets_start(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=10, burst=3)))
    desk.add(*[f"s{i}" for i in range(9)], key="k")
    assert desk.claim(5, 5) == [["s0", "s1", "s2"]]
    desk.exchange(0, done=[(f"s{i}", 1) for i in range(3)])
    assert desk.claim(5, 5) == []
    desk.clock.advance(20_000)
    assert desk.claim(5, 5) == [["s3", "s4"]]
    desk.clean()


# ── what gives tokens back ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("unstarted", [True, False])
def test_what_is_released_unstarted_gives_its_token_back(desk: Desk, unstarted: bool) -> None:
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=10)))
    desk.add("j1", "j2")
    assert desk.claim(2) == [["j1"]]
    desk.silence()
    desk.settle(("j1", "release", 0), unstarted=unstarted)
    assert ring(desk) is unstarted
    assert bool(desk.bell()) is unstarted
    assert desk.claim(2) == ([["j1"]] if unstarted else [])
    assert desk.hash("attempts") == {}
    desk.clean()


@pytest.mark.parametrize("action", ["retry", "release", "block_sequence"])
def test_what_goes_back_behind_the_head_of_its_sequence_gives_tokens_back(
    desk: Desk, action: Action
) -> None:
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=10, burst=4)))
    desk.add("s1", "s2", "s3", key="k")
    desk.add("u1", "u2", "u3", "u4")
    assert desk.claim(1, 3) == [["s1", "s2", "s3"]]
    desk.settle(("s1", action, 5_000))
    assert sorted(desk.claim(9, 3)) == [["u1"], ["u2"], ["u3"]], "one of four was spent"
    desk.clean()


@pytest.mark.parametrize("ending", ["leave", "reap"])
def test_what_a_consumer_took_and_cannot_have_started_gives_tokens_back(
    desk: Desk, ending: str
) -> None:
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=600, burst=6)))
    desk.add("s1", "s2", "s3", key="k")
    desk.add("u1", "u2")
    desk.join("d")
    assert desk.claim(2, 3, consumer="d") == [["s1", "s2", "s3"], ["u1"]]
    if ending == "leave":
        desk.run(desk.store.leave("d"))
    else:
        desk.clock.advance(LEASE)
        desk.join("e")
        desk.beat()
    who = "c" if ending == "leave" else "e"
    assert desk.claim(9, 3, consumer=who) == [["s1", "s2", "s3"], ["u1"]], "two were spent"
    desk.clean()


def test_what_was_taken_behind_a_head_that_is_buried_gives_tokens_back(desk: Desk) -> None:
    """Three workers die of the head; what they took behind it never started."""
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=86_400, burst=10)))
    desk.add("s1", "s2", "s3", key="k")
    for death in range(3):
        worker = f"worker{death}"
        desk.join(worker)
        assert desk.claim(1, 3, consumer=worker, number=9) == [["s1", "s2", "s3"]]
        desk.run(desk.store.start(worker, "s1", "9"))
        desk.clock.advance(LEASE)
        desk.beat()
    assert desk.clean().get("dead").keys() == {"s1"}
    desk.add(*[f"u{i}" for i in range(9)])
    taken = [id for entry in desk.claim(20, 3) for id in entry]
    assert len(taken) == 7, f"three were spent, {taken} taken"
    desk.clean()


# ── what changes ────────────────────────────────────────────────────────────────────────────────


def test_a_rate_changes_at_once(desk: Desk) -> None:
    desk.add(*[f"j{i}" for i in range(50)])
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=3600)))
    assert len(desk.claim(99)) == 1
    desk.silence()
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=2)))
    assert not ring(desk)
    assert desk.bell() > 0, "the next token comes sooner"
    desk.clock.advance(2_000)
    assert len(desk.claim(99)) == 1
    desk.run(desk.store.lane_set("a", rate=Rate(10, burst=10)))
    assert desk.claim(99) == [], "what was spent of the old rate counts as the whole burst at most"
    desk.clock.advance(100)
    assert len(desk.claim(99)) == 1
    desk.silence()
    desk.run(desk.store.lane_set("a", rate=None))
    assert desk.bell() > 0
    assert len(desk.claim(99)) > 10
    assert not {"gtat", "grate", "blocked"} & desk.clean().types.keys()


@pytest.mark.parametrize("change", ["template", "dropped"])
def test_a_rate_of_a_template_changes_at_once(desk: Desk, change: str) -> None:
    desk.run(desk.store.set_template("free", rate=Rate(1, per=3600)))
    desk.run(desk.store.lane_set("a", template="free"))
    desk.add(*[f"j{i}" for i in range(9)])
    assert len(desk.claim(9)) == 1
    desk.silence()
    if change == "dropped":
        desk.run(desk.store.drop_template("free"))
    else:
        desk.run(desk.store.set_template("free", rate=None))
    assert desk.bell() > 0
    assert len(desk.claim(9)) == 8
    desk.clean()


def test_a_lower_rate_of_a_template_holds_before_it_has_reached_the_lane(desk: Desk) -> None:
    desk.run(desk.store.set_template("free", rate=Rate(1000, burst=5)))
    desk.run(desk.store.lane_set("a", template="free"))
    desk.add(*[f"j{i}" for i in range(9)])
    assert len(desk.claim(4)) == 4
    lower = Rate(1, per=3600).text
    call = stubs.template_set(desk.keys, name="free", ceiling="", weight="", rate=lower, backlog="")
    desk.run(iter(call))  # without the sweep that carries it on
    assert ring(desk)
    assert desk.claim(9) == []
    assert not ring(desk)
    desk.beat()
    desk.clean()


def test_a_clock_set_back_costs_a_lane_one_interval_at_most(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=10)))
    desk.add(*[f"j{i}" for i in range(9)])
    desk.beat()
    assert len(desk.claim(9)) == 1
    desk.clock.advance(-3_600_000)
    assert desk.claim(9) == []
    desk.beat()
    assert desk.claim(9) == []
    desk.clock.advance(10_000)
    assert desk.claim(9) == [["j1"]]
    desk.clean()


def test_time_gone_by_leaves_no_state(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", rate=Rate(5, burst=5)))
    desk.add("j1", "j2")
    desk.claim(2)
    assert desk.zset("gtat") != {}
    desk.clock.advance(400)
    desk.beat()
    assert desk.zset("gtat") == {}
    desk.clean()


@pytest.mark.parametrize(
    "others",
    [Rate(10, burst=1), Rate(100, burst=100), Rate(1, per=60, burst=100), Rate(10, burst=50)],
)
def test_a_rate_changed_to_and_fro_hands_out_no_burst_twice(desk: Desk, others: Rate) -> None:
    """At the faster of the two rates all the time, and one burst."""
    usual = Rate(10, burst=100)
    desk.add(*[f"j{n}" for n in range(900)])
    started = 0
    for n in range(20):
        desk.run(desk.store.lane_set("a", rate=others if n % 2 else usual))
        started += len(desk.claim(900))
        desk.clock.advance(100)
    fastest = max(1000 / usual.interval_ms, 1000 / others.interval_ms)
    assert started <= fastest * 2 + 100 + 1
    desk.clean()


def test_a_lane_slowed_down_gets_no_burst_for_it(desk: Desk) -> None:
    desk.add(*[f"j{n}" for n in range(500)])
    desk.run(desk.store.lane_set("a", rate=Rate(100, burst=100)))
    assert len(desk.claim(500)) == 100
    desk.run(desk.store.lane_set("a", rate=Rate(10, burst=100)))
    assert desk.claim(500) == []
    desk.clock.advance(500)
    assert len(desk.claim(500)) == 5
    desk.run(desk.store.lane_set("a", rate=Rate(10, burst=1)))
    desk.clock.advance(1000)
    assert len(desk.claim(500)) == 1
    desk.clean()
