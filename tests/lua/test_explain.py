"""explain_job, explain_lane, held_page, holder_page: why something waits, from real states."""

from __future__ import annotations

import random

import pytest

from rota.explain import Explanation, Reason, ReasonKind, explain_job, explain_lane
from rota.explain.explainer import MOST_HOLDERS
from rota.explain.facts import RingFacts
from rota.explain.turns import expected_turn
from rota.values.jobspec import JobSpec
from rota.values.limits import Rate
from tests.lua.conftest import LEASE, Desk

pytestmark = pytest.mark.legs("valkey", "redis7")  # the cluster is the integration test's

NOW = "2023-11-14 22:13:20 UTC (0.0s ago)"
IN_5_S = "2023-11-14 22:13:25 UTC (in 5.0s)"
"""Five seconds after the desk's clock."""


class Why:
    """Explanations of a desk's queue, and single reasons of them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def job(self, id: str) -> Explanation:
        found = self._desk.run(explain_job(self._desk.keys, id))
        assert found is not None
        return found

    def lane(self, lane: str = "a") -> Explanation:
        return self._desk.run(explain_lane(self._desk.keys, lane))

    def none(self, id: str) -> bool:
        return self._desk.run(explain_job(self._desk.keys, id)) is None

    def one(self, subject: str, kind: ReasonKind) -> Reason:
        """The only reason of its kind, of a job; of lane `a` where the subject is ''."""
        answer = self.job(subject) if subject else self.lane()
        (found,) = [reason for reason in answer.reasons if reason.kind == kind]
        return found


@pytest.fixture
def why(desk: Desk) -> Why:
    return Why(desk)


def kinds(answer: Explanation) -> list[str]:
    return [reason.kind for reason in answer.reasons]


def soon(desk: Desk, seconds: float = 5) -> float:
    return desk.clock.now / 1000 + seconds


# ── what someone has to end ─────────────────────────────────────────────────────────────────────


def test_a_paused_lane_says_who_why_and_until_when(desk: Desk, why: Why) -> None:
    desk.add("j")
    desk.run(desk.store.pause("a", reason="abuse\n\x1b[31m", by="ops", until=None))
    for subject in ("j", ""):
        reason = why.one(subject, "paused")
        assert reason.text == f"Lane a is paused by ops since {NOW} (abuse \\x1b[31m)."
        assert reason.frees == "await queue.lane('a').resume()"
        assert reason.until is None
        assert (reason.detail["by"], reason.detail["reason"]) == ("ops", "abuse\n\x1b[31m")
    assert kinds(why.lane()) == kinds(why.job("j")) == ["paused"]
    assert (why.lane().state, why.job("j").state) == ("paused", "waiting")

    desk.run(desk.store.pause("a", reason=None, by=None, until=soon(desk)))
    reason = why.one("j", "paused")
    assert reason.until == soon(desk)
    assert IN_5_S in reason.text
    assert "resume()" in reason.frees
    assert "by itself" in reason.frees
    desk.clock.advance(6_000)
    assert "the next claim" in why.one("j", "paused").frees


def test_a_paused_queue_comes_first(desk: Desk, why: Why) -> None:
    desk.add("j", "k")
    desk.run(desk.store.lane_set("a", ceiling=1))
    desk.claim()
    desk.run(desk.store.shut_gate(reason="deploy", by="ops", until=None))
    assert kinds(why.job("k")) == kinds(why.lane()) == ["queue_paused", "at_ceiling"]
    reason = why.one("k", "queue_paused")
    assert "The whole queue is paused by ops" in reason.text
    assert "(deploy)" in reason.text
    assert reason.frees == "await queue.resume()"
    desk.run(desk.store.shut_gate(reason=None, by=None, until=soon(desk)))
    assert why.one("", "queue_paused").until == soon(desk)


def test_a_sealed_queue_says_where_it_goes(desk: Desk, why: Why) -> None:
    desk.add("j")
    desk.raw.hset(desk.keys.config, "sealed", "orders-2\x1b")
    assert kinds(why.job("j")) == kinds(why.lane()) == ["queue_sealed", "turn"]
    assert "as it moves to orders-2\\x1b: what runs ends" in why.one("j", "queue_sealed").text


@pytest.mark.parametrize(
    ("source", "text", "frees"),
    [
        ("lane", "its ceiling is 0 (its own)", "await queue.lane('a').set(ceiling=…)"),
        ("template", "0 (from template free)", "await queue.set_template('free', ceiling=…)"),
        ("queue", "0 (the queue's default)", "await queue.set(default_ceiling=…)"),
    ],
)
def test_a_stopped_lane_says_where_its_ceiling_comes_from(
    desk: Desk, why: Why, source: str, text: str, frees: str
) -> None:
    desk.add("j")
    limit(desk, source, 0)
    reason = why.one("j", "stopped")
    assert text in reason.text
    assert frees in reason.frees
    assert reason.detail["ceiling_from"] == source
    assert why.lane().state == "stopped"


def limit(desk: Desk, source: str, ceiling: int) -> None:
    if source == "lane":
        desk.run(desk.store.lane_set("a", ceiling=ceiling))
    elif source == "template":
        desk.run(desk.store.set_template("free", ceiling=ceiling))
        desk.run(desk.store.lane_set("a", template="free"))
    else:
        desk.run(desk.store.queue_set(default_ceiling=ceiling))


def test_no_worker_is_alive(desk: Desk, why: Why) -> None:
    desk.add("j")
    assert kinds(why.job("j")) == ["turn"]
    desk.clock.advance(LEASE)
    assert kinds(why.job("j")) == kinds(why.lane()) == ["no_worker", "turn"]
    assert "rota worker" in why.one("j", "no_worker").frees
    desk.join("d")
    assert kinds(why.job("j")) == ["turn"]


def test_a_dead_job(desk: Desk, why: Why) -> None:
    desk.add("j")
    desk.claim()
    traceback = 'Traceback:\\n  File \\"x.py\\", line 1, in f\\nValueError: no\\nthe details'
    desk.settle(("j", "bury", 0), error=f'{{"error":"{traceback}","worker":"h:1"}}')
    answer = why.job("j")
    (reason,) = answer.reasons
    assert (answer.state, reason.kind) == ("dead", "dead")
    assert "after 1 failed attempt: ValueError: no." in reason.text
    name = desk.keys.queue
    assert reason.frees == f"rota dead replay {name} j, or rota dead discard {name} j"
    assert reason.detail["holds_sequence"] is False
    assert reason.detail["worker"] == "h:1"
    desk.store.discard(["j"])


def test_an_unknown_and_a_done_job_are_none(desk: Desk, why: Why) -> None:
    desk.add("done")
    desk.claim()
    desk.exchange(0, done=[("done", 1)])
    assert why.none("done")
    assert why.none("unknown")


# ── what ends by itself ─────────────────────────────────────────────────────────────────────────


def test_a_blocked_lane(desk: Desk, why: Why) -> None:
    desk.add("j")
    desk.run(desk.store.block("a", 5, reason="429", by="api"))
    for subject in ("j", ""):
        reason = why.one(subject, "blocked")
        assert reason.text == f"Lane a is blocked by api since {NOW} (429), until {IN_5_S}."
        assert reason.until == soon(desk)
        assert "await queue.lane('a').unblock()" in reason.frees
    assert why.lane().state == "blocked"


@pytest.mark.parametrize("source", ["lane", "template"])
def test_a_lane_out_of_rate(desk: Desk, why: Why, source: str) -> None:
    rate = Rate(2, per=10, burst=1)
    desk.add("j1", "j2")
    if source == "lane":
        desk.run(desk.store.lane_set("a", rate=rate))
    else:
        desk.run(desk.store.set_template("free", rate=rate))
        desk.run(desk.store.lane_set("a", template="free"))
    assert desk.claim(2) == [["j1"]]
    reason = why.one("j2", "out_of_rate")
    assert "its rate of 0.2 a second" in reason.text
    assert IN_5_S in reason.text
    assert reason.until == soon(desk)
    assert reason.detail == {"per_second": 0.2, "burst": 1, "rate_from": source}
    assert ("set_template('free', rate=…)" in reason.frees) == (source == "template")
    assert kinds(why.job("j2")) == ["out_of_rate"]
    assert why.lane().state == "out of rate"


def test_a_delayed_job_and_one_that_waits_for_its_retry(desk: Desk, why: Why) -> None:
    desk.add("later", delay_ms=5_000)
    reason = why.one("later", "delayed")
    assert reason.text == f"It is delayed, until {IN_5_S}."
    assert reason.until == soon(desk)
    assert why.job("later").state == "delayed"
    assert kinds(why.job("later")) == ["delayed"]

    desk.add("failed")
    desk.claim()
    desk.settle(("failed", "retry", 5_000), error='{"error":"boom"}')
    reason = why.one("failed", "delayed")
    assert "failed 1 time and waits for its next attempt (boom), until" in reason.text
    desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    assert kinds(why.job("failed")) == ["paused", "delayed"]


def test_what_lasts_longest_comes_first_among_what_ends_by_itself(desk: Desk, why: Why) -> None:
    desk.add("j", delay_ms=5_000)
    for seconds, expected in ((3, ["delayed", "blocked"]), (9, ["blocked", "delayed"])):
        desk.run(desk.store.block("a", seconds, reason=None, by=None))
        assert kinds(why.job("j")) == expected


# ── ceilings, and who holds the permits ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("source", ["lane", "template", "queue"])
def test_a_lane_at_its_ceiling_names_the_holders(desk: Desk, why: Why, source: str) -> None:
    desk.join("d")
    desk.add("s1", "s2", "s3", key="k")
    desk.add("j1", "j2")
    desk.add("other", lane="aa")
    limit(desk, source, 2)
    assert desk.claim(1, 2) == [["s1", "s2"]]
    assert desk.claim(1, consumer="d") == [["other"]]
    assert desk.claim(1, consumer="d") == [["j1"]]
    for answer in (why.job("j2"), why.lane()):
        assert kinds(answer) == ["at_ceiling"]
        detail = answer.reasons[0].detail
        assert (detail["permits"], detail["ceiling"], detail["ceiling_from"]) == (2, 2, source)
        holders = {
            (one["job"], one["task"], one["consumer"], one["name"], one["behind"], one["since"])
            for one in detail["holders"]
        }
        assert holders == {
            ("s1", "t", "c", "host:c", 1, None),
            ("j1", "t", "d", "host:d", 0, None),
        }
        text = answer.reasons[0].text
        assert "2 permits of 2" in text
        assert "s1 on host:c" in text
        assert "j1 on host:d" in text
    assert why.lane().state == "at ceiling"
    assert why.lane().running == 2


def test_many_holders_are_counted_and_a_few_are_named(desk: Desk, why: Why) -> None:
    desk.join("d", "e")
    desk.add(*[f"j{i:03}" for i in range(100)])
    desk.run(desk.store.lane_set("a", ceiling=70))
    for consumer in "cde":
        desk.claim(30, consumer=consumer)
    reason = why.one("j099", "at_ceiling")
    assert reason.detail["permits"] == 70
    assert len(reason.detail["holders"]) == MOST_HOLDERS
    assert "and 67 more" in reason.text
    assert len({one["job"] for one in reason.detail["holders"]}) == MOST_HOLDERS


def test_a_queue_at_its_ceiling(desk: Desk, why: Why) -> None:
    desk.add("j1", "j2")
    desk.run(desk.store.queue_set(ceiling=1))
    assert desk.claim(5) == [["j1"]]
    assert kinds(why.job("j2")) == kinds(why.lane()) == ["queue_at_ceiling", "turn"]
    reason = why.one("j2", "queue_at_ceiling")
    assert reason.detail == {"permits": 1, "ceiling": 1}
    assert "await queue.set(ceiling=…)" in reason.frees
    desk.run(desk.store.queue_set(ceiling=0))
    assert kinds(why.job("j2")) == ["stopped", "turn"]


# ── sequences ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("lane", "key"), [("a", "k"), ("!a", None)])
def test_behind_a_head_that_runs(desk: Desk, why: Why, lane: str, key: str | None) -> None:
    desk.add("s1", "s2", "s3", lane=lane, key=key)
    desk.claim(1, 2)
    answer = why.job("s3")
    assert kinds(answer) == ["sequence"]
    (reason,) = answer.reasons
    assert "Job s1 of" in reason.text
    assert "runs on host:c, which took 1 more job with it" in reason.text
    assert (reason.detail["job"], reason.detail["state"]) == ("s1", "running")
    assert reason.detail["lease_left"] == LEASE / 1000
    assert "await queue.job('s1').cancel()" in reason.frees
    second = why.one("s2", "running")
    assert "after 1 job of its sequence, of which s1 is the first" in second.text
    held = why.lane(lane)
    assert (held.state, kinds(held)) == ("held", ["sequence"])


def test_behind_a_head_that_waits_for_its_retry(desk: Desk, why: Why) -> None:
    desk.add("s1", "s2", key="k")
    desk.claim()
    desk.settle(("s1", "retry", 5_000))
    assert kinds(why.job("s2")) == ["sequence"]
    reason = why.one("s2", "sequence")
    assert "Job s1, the head of sequence k, failed" in reason.text
    assert reason.until == soon(desk)
    assert reason.detail["state"] == "waiting for its retry"
    assert kinds(why.job("s1")) == ["delayed"]
    assert why.one("s1", "delayed").until == soon(desk)
    assert why.lane().state == "held"


def test_behind_a_dead_head_that_holds(desk: Desk, why: Why) -> None:
    desk.add("s1", "s2", key="k", on_dead="hold")
    desk.claim()
    desk.settle(("s1", "bury", 0), hold=True)
    desk.clock.advance(9_000)
    desk.run(desk.store.block("a", 50, reason=None, by=None))
    answer = why.job("s2")
    assert kinds(answer) == ["sequence", "blocked"], "it needs someone"
    reason = answer.reasons[0]
    assert "Job s1 died at 2023-11-14 22:13:20 UTC (9.0s ago) and holds sequence k" in reason.text
    assert reason.detail["since"] == soon(desk, -9)
    assert f"rota dead replay {desk.keys.queue} s1" in reason.frees
    assert why.one("s1", "dead").detail["holds_sequence"] is True


def test_behind_a_head_that_waits_for_its_turn(desk: Desk, why: Why) -> None:
    desk.add("j1", "j2")
    desk.add("s1", "s2", "s3", key="k")
    answer = why.job("s3")
    assert kinds(answer) == ["sequence", "turn"]
    assert "2 jobs of its sequence come first" in answer.reasons[0].text
    assert answer.expected_turn == 5
    assert kinds(why.job("s1")) == ["turn"]


def test_a_blocked_sequence(desk: Desk, why: Why) -> None:
    desk.add("s1", "s2", key="k")
    desk.claim()
    desk.settle(("s1", "block_sequence", 5_000), error='{"error":"slow down"}')
    for job in ("s1", "s2"):
        reason = why.one(job, "sequence_blocked")
        assert reason.text == f"Sequence k is blocked (slow down), until {IN_5_S}."
        assert reason.until == soon(desk)
    assert kinds(why.lane()) == ["sequence_blocked"]


# ── running ─────────────────────────────────────────────────────────────────────────────────────


def test_a_running_job_and_its_cancellation(desk: Desk, why: Why) -> None:
    desk.join("d")
    desk.add("j")
    desk.claim(consumer="d")
    desk.clock.advance(10_000)
    answer = why.job("j")
    (reason,) = answer.reasons
    assert (answer.state, reason.kind) == ("running", "running")
    assert "It is running on host:d, whose lease ends in 20.0s" in reason.text
    assert reason.detail["consumer"] == "d"
    assert reason.detail["lease_left"] == 20
    assert reason.detail["cancel_asked"] is None
    assert "await queue.job('j').cancel()" in reason.frees
    assert desk.run(desk.store.cancel("j", by="ops")) == "asked"
    reason = why.one("j", "running")
    assert "Its cancellation was asked for by ops" in reason.text
    assert reason.detail["cancel_asked"]["by"] == "ops"
    desk.clock.advance(21_000)
    assert "whose lease has ended" in why.one("j", "running").text


def test_a_running_job_is_found_among_many_consumers(desk: Desk, why: Why) -> None:
    many = [f"n{i:04}" for i in range(1500)]
    desk.raw.zadd(desk.key("consumers"), dict.fromkeys(many, desk.clock.now + LEASE))
    desk.join("zz")
    desk.add("j")
    desk.claim(consumer="zz")
    assert why.one("j", "running").detail["name"] == "host:zz"


@pytest.mark.parametrize(
    "text", ["", "damaged", "+0000000000000001,1700000000000,1700000000000\n{"]
)
def test_a_damaged_record_is_explained_as_far_as_it_goes(desk: Desk, why: Why, text: str) -> None:
    desk.add("j")
    desk.claim()
    desk.raw.set(desk.key("job", "j"), text)
    answer = why.job("j")
    assert (answer.state, answer.lane) == ("running", None)
    assert answer.reasons[0].detail["consumer"] == "c"


# ── lanes without work, odd lanes ───────────────────────────────────────────────────────────────


def test_a_lane_with_nothing_to_do(desk: Desk, why: Why) -> None:
    desk.clock.advance(LEASE)
    assert (why.lane().state, kinds(why.lane())) == ("idle", ["idle"]), "no worker is missed"
    desk.add("later", delay_ms=5_000)
    assert kinds(why.lane()) == ["delayed"]
    assert why.lane().reasons[0].until == soon(desk)
    desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    assert kinds(why.lane()) == ["paused", "delayed"]


def test_a_lane_whose_jobs_all_run(desk: Desk, why: Why) -> None:
    desk.add("j")
    desk.run(desk.store.lane_set("a", ceiling=1))
    desk.claim()
    answer = why.lane()
    assert (answer.state, kinds(answer), answer.running) == ("running", ["idle"], 1)
    assert "1 entry is running" in answer.reasons[0].text


def test_a_lanes_figures(desk: Desk, why: Why) -> None:
    desk.add("j1", "j2", "j3")
    desk.add("later", delay_ms=5_000)
    desk.claim()
    desk.clock.advance(1_500)
    for answer in (why.lane(), why.job("j3")):
        figures = (answer.waiting, answer.delayed, answer.running, answer.oldest_wait)
        assert figures == (2, 1, 1, 1.5)
        assert answer.at == desk.clock.now / 1000


def test_a_lane_missing_from_the_rotation(desk: Desk, why: Why) -> None:
    desk.add("j")
    desk.raw.zrem(desk.key("ring"), "a")
    assert kinds(why.job("j")) == ["damaged"]
    assert "rota doctor" in why.one("j", "damaged").frees
    desk.raw.hset(desk.keys.config, "sweep", "0")
    assert "has not reached it yet" in why.one("", "damaged").text


# ── turns ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(12))
def test_the_expected_turn_is_exact(desk: Desk, why: Why, seed: int) -> None:
    """Random rings of unordered jobs, some of them under way; then claims one by one."""
    rand = random.Random(seed)
    names = ["a", "B", "é", "zz", "0", "~", "lane", "Lane", "ż", "_"]
    lanes = rand.sample(names, rand.randint(2, 8))
    specs = []
    for lane in lanes:
        weight = rand.choice([1, 1, 1, 2, 0.5, 3, 0.3, 7, 0.01, 100])
        desk.run(desk.store.lane_set(lane, weight=weight))
        jobs = rand.randint(1, 12)
        specs += [
            JobSpec(task="t", id=f"{lane}-{i}", lane=lane, priority=rand.randint(-1, 1))
            for i in range(jobs)
        ]
    rand.shuffle(specs)
    desk.add_specs(specs)
    under_way = rand.randint(0, len(specs) // 2)
    done = [id for _ in range(under_way) for entry in desk.claim() for id in entry]
    left = [spec.id for spec in specs if spec.id not in done]
    foreseen = {}
    for id in left:
        answer = why.job(id)
        assert answer.exact
        assert kinds(answer) == ["turn"]
        foreseen[answer.expected_turn] = id
    nexts = {lane: why.lane(lane).expected_turn for lane in lanes}
    claimed = [id for _ in left for entry in desk.claim() for id in entry]
    assert [foreseen[turn] for turn in range(1, len(left) + 1)] == claimed
    owners = [id.rpartition("-")[0] for id in claimed]
    assert nexts == {lane: owners.index(lane) + 1 if lane in owners else None for lane in lanes}


def test_a_long_ring_is_scaled_and_said_to_be_about(desk: Desk, why: Why) -> None:
    lanes = [f"l{i:04}" for i in range(2500)]
    for start in range(0, len(lanes), 500):
        part = lanes[start : start + 500]
        desk.add_specs([JobSpec(task="t", id=lane, lane=lane) for lane in part])
    first = why.job("l0010")
    assert (first.expected_turn, first.exact) == (11, True)
    last = why.job("l2499")
    assert last.expected_turn == 2500
    assert last.exact is False
    assert "about 2,499 are handed out before it" in last.reasons[0].text


@pytest.mark.parametrize("before", [0, 5, 9_000, 40_000, 3_000_000])
def test_a_far_turn_is_counted_at_once(before: int) -> None:
    """Beyond 100,000 turns they are not added up one by one: about the same, and said so."""
    ring = RingFacts(
        tag=7.0,
        weight=1.0,
        before=before,
        costs=False,
        ahead=2,
        lanes=4,
        names=["a", "b", "me", "z"],
        tags=[5.0, 6.5, 7.0, 8.25],
        weights=[2.0, 0.5, 1.0, 1.0],
        waiting=[10_000_000, 10_000_000, before + 1, 3],
    )
    turn, exact = expected_turn("me", ring)
    own = before + 1
    others = (2 + before) * 2 + (0.5 + before) * 0.5 + min(before, 3)
    assert abs(turn - own - others) <= 4
    assert exact == (before < 30_000)


def test_a_stopped_lane_says_what_still_runs(desk: Desk, why: Why) -> None:
    desk.add("j1", "j2")
    desk.claim()
    desk.run(desk.store.lane_set("a", ceiling=0))
    reason = why.one("j2", "stopped")
    assert reason.text.endswith("; 1 entry is still in flight.")
    assert [one["job"] for one in reason.detail["holders"]] == ["j1"]


def test_a_declared_cost_makes_a_turn_inexact(desk: Desk, why: Why) -> None:
    desk.add("j1", "j2")
    assert why.job("j2").exact is True
    desk.add("j3", cost=5.0)
    assert why.job("j2").exact is False
