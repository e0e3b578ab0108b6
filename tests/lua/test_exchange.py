"""exchange.lua: who may claim, what a claim hands out, and its bell."""

from __future__ import annotations

import pytest

from rota.values.jobspec import JobSpec
from tests.lua.conftest import LEASE, Desk
from tests.model import audit

MIB = 1024 * 1024


# ── who may claim ───────────────────────────────────────────────────────────────────────────────


def test_a_stranger_claims_and_settles_nothing(desk: Desk) -> None:
    desk.add("j")
    answer = desk.exchange(1, consumer="nobody", done=[("j", 1), ("k", 1)])
    assert (answer.status, answer.answers, answer.entries) == ("lost", ["lost", "lost"], [])
    assert desk.hash("consumer", "nobody") == {}
    desk.clean()


def test_a_lease_that_has_run_out_still_settles_until_it_is_marked(desk: Desk) -> None:
    desk.add("j1", "j2", "j3")
    desk.claim(2)
    desk.clock.advance(LEASE - 1)
    assert desk.claim(0) == []
    desk.clock.advance(1)
    answer = desk.exchange(1, done=[("j1", 1)])
    assert (answer.status, answer.answers) == ("lost", ["ok"])
    desk.beat()
    answer = desk.exchange(1, done=[("j2", 1)])
    assert (answer.status, answer.answers) == ("lost", ["lost"])
    assert desk.zset("pending", "a").keys() == {"j2", "j3"}
    desk.clean()


@pytest.mark.parametrize("number", [0, 1, 5])
def test_a_number_that_is_not_higher_refuses_the_claim_only(desk: Desk, number: int) -> None:
    desk.add("j1", "j2")
    desk.claim(1, number=5)
    answer = desk.exchange(1, number=number, done=[("j1", 5)])
    assert (answer.status, answer.answers, answer.entries) == ("stale", ["ok"], [])
    assert desk.hash("consumer", "c")["!claim"] == "5"
    assert desk.claim(1, number=6) == [["j2"]]


def test_settling_alone_needs_no_number(desk: Desk) -> None:
    desk.add("j")
    desk.claim(1, number=5)
    answer = desk.exchange(0, number=0, done=[("j", 5), ("j", 5), ("j", 4), ("k", 5)])
    assert answer.status == "ok"
    assert answer.answers == ["ok", "settled", "settled", "settled"]


def test_a_claim_numbered_by_reconciling_bounces(desk: Desk) -> None:
    desk.add("j1", "j2")
    desk.claim(1, number=1)
    assert desk.run(desk.store.deliveries_of("c", number=3)) == {"j1": "1"}
    assert desk.exchange(1, number=2).status == "stale"
    assert desk.run(desk.store.deliveries_of("c", number=2)) == {"j1": "1"}
    assert desk.exchange(1, number=3).status == "stale", "the number does not fall"
    assert desk.run(desk.store.deliveries_of("nobody", number=1)) is None


# ── what it hands out ───────────────────────────────────────────────────────────────────────────


def test_a_shut_gate_hands_out_nothing_and_moves_nothing(desk: Desk) -> None:
    desk.add("j1")
    desk.add("late", delay_ms=5, lane="b")
    desk.run(desk.store.shut_gate(reason=None, by=None))
    desk.clock.advance(5)
    desk.silence()
    answer = desk.exchange(5)
    assert (answer.entries, answer.left) == ([], False)
    assert desk.zset("ring") == {"a": 1, "b": 1}
    assert desk.bell() == 0
    desk.run(desk.store.open_gate())
    assert desk.bell() == 1
    assert desk.claim(5) == [["j1"], ["late"]]


def test_completed_jobs_free_what_the_same_call_claims(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", ceiling=1))
    desk.add("j1", "j2")
    desk.add("s1", "s2", lane="!o")
    assert desk.claim(9) == [["s1"], ["j1"]]
    assert desk.claim(9, done=[("j1", 1), ("s1", 1)]) == [["s2"], ["j2"]]
    desk.clean()


def test_due_jobs_come_back_in_due_order_within_bounds(desk: Desk) -> None:
    """Later ones were enqueued first; each page of a claim takes the earliest."""
    jobs = [JobSpec(task="t", id=f"j{i:03}", lane="a", delay_ms=1000 - i // 2) for i in range(450)]
    desk.add_specs(jobs)
    desk.clock.advance(1000)
    taken = [id for (id,) in desk.claim(1000)]
    assert len(taken) == 100
    desk.clean()
    while page := desk.claim(1000):
        taken += [id for (id,) in page]
    assert taken == [job.id for job in sorted(jobs, key=lambda job: (job.delay_ms, job.id))]
    desk.clean()


@pytest.mark.legs("valkey", "redis7")
@pytest.mark.parametrize(("lanes", "jobs"), [(1, 9000), (9000, 1), (4500, 2)])
def test_claims_and_completions_of_thousands(desk: Desk, lanes: int, jobs: int) -> None:
    specs = [
        JobSpec(task="t", id=f"{lane:04}-{n}", lane=f"l{lane:04}")
        for n in range(jobs)
        for lane in range(lanes)
    ]
    for start in range(0, len(specs), 1000):
        desk.add_specs(specs[start : start + 1000])
    held: list[tuple[str, int]] = []
    number = 0
    for number in range(1, 10):
        held += [(id, number) for (id,) in desk.claim(1000, number=number)]
    assert [id for id, _ in held] == [spec.id for spec in specs]
    answers = desk.exchange(1, number=number + 1, done=held).answers
    assert answers == ["ok"] * 9000
    assert desk.clean().counts("stats")["completed"] == 9000


def test_a_claim_hands_out_no_more_than_a_thousand_jobs(desk: Desk) -> None:
    for key in range(13):
        desk.add(*[f"{key}-{n:02}" for n in range(100)], key=f"k{key}")
    answer = desk.exchange(13, 100)
    assert [len(entry) for entry in answer.entries] == [100] * 10
    assert answer.left
    desk.clean()
    assert len(desk.claim(13, 100)) == 3
    desk.clean()


@pytest.mark.parametrize("key", [None, "k"])
def test_a_claim_is_bounded_in_bytes(desk: Desk, key: str | None) -> None:
    """What does not fit stays where it was, uncharged; a larger one travels alone."""
    for id, size in (("j1", MIB), ("j2", MIB // 2), ("j3", MIB), ("j4", 3 * MIB), ("j5", 9)):
        desk.add(id, key=key, payload=b"x" * size)
    desk.add("other", lane="b")
    pages = []
    number = 0
    while True:
        number += 1
        desk.silence()
        answer = desk.exchange(9, 9, number=number)
        desk.clean()
        if not answer.entries:
            break
        pages.append([job.id for entry in answer.entries for job in entry])
        assert desk.bell() == answer.left
        if key:
            desk.exchange(0, done=[(id, number) for id in pages[-1]])
    assert ["j4"] in pages
    assert [id for page in pages for id in page if id != "other"] == ["j1", "j2", "j3", "j4", "j5"]
    assert "other" in pages[0] + pages[1]


def test_a_job_whose_record_is_gone_is_handed_out_without(desk: Desk) -> None:
    desk.add("j1", "j2")
    desk.raw.delete(desk.key("job", "j1"))
    answer = desk.exchange(2)
    assert [(job.id, job.record is None) for (job,) in answer.entries] == [
        ("j1", True),
        ("j2", False),
    ]
    assert desk.settle(("j1", "bury", 0)) == ["ok"]
    assert '"lane":"a"' in str(desk.raw.get(desk.key("job", "j1")))
    desk.clean()


def test_a_broken_lane_harms_no_other(desk: Desk) -> None:
    desk.add("j1", lane="a")
    desk.add("j2", lane="b")
    desk.raw.delete(desk.key("pending", "a"))
    desk.raw.set(desk.key("pending", "a"), "not a sorted set")
    assert desk.claim(5) == [["j2"]]
    assert desk.hash("stats")["broken"] == "1"
    assert desk.zset("ring") == {}
    desk.raw.delete(desk.key("pending", "a"))


def test_a_sequence_without_jobs_costs_its_lane_nothing(desk: Desk) -> None:
    """A token that lost its sequence to damage is dropped; the lane's next entry is served."""
    desk.add("j1", key="k")
    desk.add("j2", lane="a")
    desk.raw.delete(desk.key("sequence", "1:a:k"))
    assert desk.claim(5) == [["j2"]]
    assert desk.zset("pending", "a") == {}


def test_lanes_that_a_lowered_default_shuts_leave_the_ring_unplayed(desk: Desk) -> None:
    """Turns are as exact as without them, however many stand in front."""
    shut = [f"shut{i:02}" for i in range(30)]
    for lane in shut:
        desk.add(f"{lane}-1", f"{lane}-2", lane=lane)
    desk.claim(30)
    for lane in ("x", "y"):
        desk.run(desk.store.lane_set(lane, ceiling=9, weight=100))
        desk.add(f"{lane}1", f"{lane}2", lane=lane)
        desk.run(desk.store.lane_set(lane, weight=1))
    request = next(desk.store.queue_set(default_ceiling=1))
    desk.run(iter(request))  # type: ignore[arg-type]
    assert desk.claim(1) == [["x1"]]
    assert desk.claim(2) == [["y1"], ["x2"]]
    assert desk.beat() is not None
    assert desk.clean().get("ring").keys() == {"y"}


# ── tags ────────────────────────────────────────────────────────────────────────────────────────


def test_a_lane_keeps_its_tag_unless_it_forgives_nothing(desk: Desk) -> None:
    desk.add("j1", "j2", "j3", key="k")
    desk.add("b1", lane="b")
    assert desk.claim(1, 2) == [["j1", "j2"]]
    assert (desk.zset("ring"), desk.zset("owed")) == ({"b": 1}, {"a": 3})
    assert desk.claim(1) == [["b1"]]
    assert desk.zset("owed") == {"a": 3}, "b had one job: nothing to remember"
    desk.exchange(0, done=[("j1", 1), ("j2", 1)])
    assert (desk.zset("ring"), desk.zset("owed")) == ({"a": 3}, {})
    desk.clean()


def test_a_kept_tag_behind_the_rotation_earns_nothing(desk: Desk) -> None:
    desk.add("a1", "a2")
    desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    desk.add(*[f"b{i}" for i in range(5)], lane="b")
    desk.claim(4)
    assert (desk.zset("owed"), desk.raw.get(desk.key("vt"))) == ({"a": 1}, "4")
    desk.run(desk.store.resume("a"))
    assert desk.zset("ring") == {"a": 5, "b": 5}
    desk.clean()


def test_a_new_busy_period_begins_when_a_claim_finds_nothing_at_all(desk: Desk) -> None:
    desk.add("j1", "j2", key="k")
    desk.claim(1)
    desk.exchange(9)
    assert (desk.raw.get(desk.key("vt")), desk.zset("owed")) == ("1", {"a": 2})
    desk.settle(("j1", "retry", 5))
    desk.exchange(9)
    assert desk.raw.get(desk.key("vt")) == "1", "work waits, though not in the ring"
    desk.clock.advance(5)
    desk.claim(1, 2)
    desk.exchange(0)
    assert desk.raw.get(desk.key("vt")) == "2", "it asked for nothing"
    desk.exchange(1)
    assert (desk.raw.get(desk.key("vt")), desk.zset("owed")) == (None, {})
    desk.clean()


# ── the bell ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("jobs", "want", "park", "before", "after"),
    [
        (3, 1, True, 0, 1),  # work is left: ring on
        (3, 1, True, 2, 2),  # a wake is there already
        (1, 1, True, 2, 2),  # full: not its business
        (1, 2, False, 2, 2),  # it will not wait, so it deletes none
        (1, 2, True, 2, 0),  # it waits and keeps the time
        (0, 2, True, 2, 0),
        (0, 0, True, 2, 2),
    ],
)
def test_a_claim_rings_on_and_deletes_stale_wakes(
    desk: Desk, jobs: int, want: int, park: bool, before: int, after: int
) -> None:
    desk.add("delayed", delay_ms=9)
    if jobs:
        desk.add(*[f"j{i}" for i in range(jobs)])
    desk.silence()
    if before:
        desk.raw.lpush(desk.keys.wake, *["1"] * before)
    desk.claim(want, park=park)
    assert desk.bell() == after


def test_the_bell_holds_64_wakes(desk: Desk) -> None:
    for i in range(70):
        desk.add(f"j{i}")
    assert desk.bell() == 64


def test_due_is_told_when_slots_stay_free(desk: Desk) -> None:
    desk.add("j")
    desk.add("later", delay_ms=7_000)
    assert desk.exchange(1).due is None
    assert desk.exchange(1).due == 7
    desk.run(desk.store.block("b", 3, reason=None, by=None))
    assert desk.exchange(1).due == 3
    desk.run(desk.store.pause("b", reason=None, by=None, until=desk.clock.now / 1000 + 1))
    assert desk.exchange(1).due == 1
    desk.join("short", lease=500)
    assert desk.exchange(1).due == 0.5


def test_the_deliveries_of_a_claim_carry_its_number(desk: Desk) -> None:
    desk.add("j1", "j2", key="k")
    desk.add("j3")
    desk.claim(2, 2, number=7)
    assert desk.dump().deliveries("c") == {
        "j1": audit.Delivery("7", 1, "-", "a", "1:a:k"),
        "j2": audit.Delivery("7", 2, "-", "a", "1:a:k"),
        "j3": audit.Delivery("7", 3, "-", "a", None),
    }
