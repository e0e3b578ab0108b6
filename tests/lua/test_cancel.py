"""cancel.lua, cancel_running.lua, asked_page.lua, and what becomes of a job asked to stop."""

from __future__ import annotations

import json

import pytest

from rota.script import stubs
from rota.script.loader import Packed
from rota.values.jobspec import JobSpec
from rota.values.model import Action, Cancelled
from tests.lua.conftest import Desk
from tests.model import audit

HOMES = [("a", None), ("a", "k"), ("!o", None)]
"""Lane and ordering key: unordered, of a sequence, of an ordered lane."""


def cancel(desk: Desk, id: str, by: str | None = None) -> str:
    return desk.run(desk.store.cancel(id, by=by))


def cancel_lane(desk: Desk, lane: str = "a", by: str | None = None) -> Cancelled:
    return desk.run(desk.store.cancel_lane(lane, by=by))


def asked(desk: Desk, *consumers: str) -> dict[str, list[tuple[str, str]]]:
    found = desk.run(desk.store.asked(consumers or ["c"]))
    return {consumer: sorted(jobs) for consumer, jobs in found.items()}


def totals(desk: Desk) -> dict[str, int]:
    return {name: int(count) for name, count in desk.hash("stats").items() if int(count)}


def clean(desk: Desk) -> audit.Dump:
    """No invariant is broken, and only jobs in flight are flagged."""
    dump = desk.clean()
    held = {id for consumer, _ in dump.each("c:") for id in dump.deliveries(consumer)}
    assert dump.get("cancels").keys() <= held
    return dump


# ── waiting, delayed, dead, none ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("lane", "key"), HOMES)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_waiting_job_is_deleted_and_the_others_keep_their_order(
    desk: Desk, lane: str, key: str | None, which: int
) -> None:
    ids = ["j0", "j1", "j2"]
    desk.add(*ids, lane=lane, key=key)
    assert cancel(desk, ids[which]) == "cancelled"
    dump = clean(desk)
    assert f"job:{ids[which]}" not in dump.types
    assert totals(desk) == {"enqueued": 3, "waiting": 2, "cancelled": 1}
    rest = [id for id in ids if id != ids[which]]
    assert [id for entry in desk.claim(9, 9) for id in entry] == rest
    assert cancel(desk, ids[which]) == "none"


@pytest.mark.parametrize(("lane", "key"), HOMES)
def test_with_its_last_job_a_lane_leaves_the_ring(desk: Desk, lane: str, key: str | None) -> None:
    desk.add("j", lane=lane, key=key)
    assert cancel(desk, "j") == "cancelled"
    dump = clean(desk)
    assert not {"ring", "gwaiting"} & dump.types.keys()
    assert not [name for name in dump.types if name.startswith(("g:", "s:", "job:"))]
    assert desk.claim() == []


@pytest.mark.parametrize(("lane", "key"), HOMES)
@pytest.mark.parametrize("retried", [False, True])
def test_a_delayed_job_leaves_both_places_it_is_in(
    desk: Desk, lane: str, key: str | None, retried: bool
) -> None:
    if retried and lane == "a" and key is None:
        desk.add("j", lane=lane)
        desk.claim()
        desk.settle(("j", "retry", 60), error='{"error":"x"}')
    else:
        desk.add("j", lane=lane, key=key, delay_ms=60, priority=5)
    assert cancel(desk, "j") == "cancelled"
    dump = clean(desk)
    assert "scheduled" not in dump.types
    assert f"g:{lane}:delayed" not in dump.types
    assert not {"attempts", "errors"} & dump.types.keys()
    desk.clock.advance(100)
    assert desk.claim() == []
    assert totals(desk)["cancelled"] == 1


@pytest.mark.parametrize("lane", ["a", "!o"])
def test_a_head_that_blocks_its_sequence_takes_the_block_with_it(desk: Desk, lane: str) -> None:
    desk.add("s1", "s2", lane=lane, key="k" if lane == "a" else None)
    desk.claim()
    desk.settle(("s1", "retry", 60_000))
    assert desk.claim() == []
    desk.silence()
    assert cancel(desk, "s2") == "cancelled"
    clean(desk)
    assert desk.zset("blocked"), "the block is the head's"
    desk.add("s3", lane=lane, key="k" if lane == "a" else None)
    assert cancel(desk, "s1") == "cancelled"
    dump = clean(desk)
    assert not {"blocked", "why"} & dump.types.keys()
    assert desk.bell() > 0, "something is claimable now"
    assert desk.claim(1, 9) == [["s3"]]


def test_another_block_of_the_sequence_stays(desk: Desk) -> None:
    desk.add("s1", "s2", "s3", key="k")
    desk.claim()
    desk.settle(("s1", "block_sequence", 10_000))
    assert cancel(desk, "s1") == "cancelled"
    assert [*desk.zset("blocked")] == ["s:1:a:k"]
    clean(desk)
    desk.clock.advance(10_000)
    assert desk.claim(1, 9) == [["s2", "s3"]]


def test_a_dead_job_is_left_alone_and_goes_on_holding(desk: Desk) -> None:
    desk.add("s1", "s2", key="k")
    desk.claim()
    desk.settle(("s1", "bury", 0), error="{}", hold=True)
    assert cancel(desk, "s1") == "dead"
    assert cancel(desk, "s2") == "cancelled"
    dump = clean(desk)
    assert [*dump.get("dead")] == ["s1"]
    assert dump.get("blocked") == {"h:1:a:k": float("inf")}
    assert cancel(desk, "s1") == "dead"
    assert cancel(desk, "nobody") == "none"
    assert "cancels" not in clean(desk).types


@pytest.mark.parametrize("out", ["paused", "stopped", "blocked"])
def test_a_lane_that_is_out_stays_out(desk: Desk, out: str) -> None:
    desk.add("j0", "j1")
    desk.add("s0", "s1", key="k")
    if out == "paused":
        desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    elif out == "stopped":
        desk.raw.hset(desk.key("glimit"), "a", "0")
        desk.run(desk.store.resume("a"))
        desk.raw.zrem(desk.key("ring"), "a")
    else:
        desk.run(desk.store.block("a", 60, reason=None, by=None))
    for id in ("j0", "s0"):
        assert cancel(desk, id) == "cancelled"
        clean(desk)
    assert "ring" not in desk.dump().types
    for id in ("j1", "s1"):
        assert cancel(desk, id) == "cancelled"
    assert "gwaiting" not in clean(desk).types


def test_a_job_whose_record_cannot_be_read_is_flagged_until_it_is_claimed(desk: Desk) -> None:
    """Nobody can tell where it waits; whoever claims it buries it."""
    desk.add("j")
    desk.raw.setrange(desk.key("job", "j"), 47, "damaged")
    assert cancel(desk, "j") == "asked"
    assert desk.claim() == [["j"]]
    assert desk.settle(("j", "bury", 0), error="{}") == ["ok"]
    dump = clean(desk)
    assert [*dump.get("dead")] == ["j"]
    assert "cancels" not in dump.types


# ── in flight ───────────────────────────────────────────────────────────────────────────────────


def test_a_job_in_flight_is_flagged_with_the_first_who_asked(desk: Desk) -> None:
    desk.add("j", "other")
    desk.claim(2)
    assert cancel(desk, "j", "ops") == "asked"
    asked_at = desk.clock.now
    desk.clock.advance(5)
    assert cancel(desk, "j", "someone else") == "asked"
    assert cancel(desk, "other") == "asked"
    flags = {id: json.loads(flag) for id, flag in desk.hash("cancels").items()}
    assert flags == {"j": {"by": "ops", "at": asked_at}, "other": {"at": desk.clock.now}}
    assert asked(desk) == {"c": [("j", "1"), ("other", "1")]}
    assert totals(desk)["running"] == 2
    clean(desk)


@pytest.mark.parametrize(("lane", "key"), HOMES)
@pytest.mark.parametrize(
    ("action", "delay"),
    [
        ("cancel", 0),
        ("retry", 0),
        ("retry", 60),
        ("release", 0),
        ("release", 60),
        ("block_lane", 60),
        ("block_sequence", 60),
        ("block_sequence", 0),
    ],
)
def test_whatever_would_go_back_ends_as_cancelled(
    desk: Desk, lane: str, key: str | None, action: Action, delay: int
) -> None:
    desk.raw.hset(desk.key("glimit"), lane, "1")
    desk.add("j0", "j1", "j2", lane=lane, key=key)
    desk.raw.hset(desk.key("costs"), "j0", "2")
    desk.claim(1, 2)
    cancel(desk, "j0")
    assert desk.settle(("j0", action, delay), error='{"error":"x"}') == ["ok"]
    dump = clean(desk)
    assert "job:j0" not in dump.types
    assert not {"attempts", "errors", "costs", "cancels", "scheduled"} & dump.types.keys()
    sequence = key is not None or lane == "!o"
    stays = sequence and action == "cancel"
    assert [*dump.deliveries("c")] == (["j1"] if stays else [])
    counts = totals(desk)
    assert counts["cancelled"] == 1
    assert counts.get("retried", 0) == 0
    assert counts.get("released", 0) == (1 if sequence and not stays else 0)
    if stays:
        assert desk.settle(("j1", "complete", 0)) == ["ok"]
    desk.clock.advance(100)
    assert desk.claim()[0] == (["j2"] if stays else ["j1"])
    clean(desk)


def test_a_rate_limit_told_by_a_cancelled_job_holds(desk: Desk) -> None:
    desk.add("j0", "j1")
    desk.claim()
    cancel(desk, "j0")
    desk.settle(("j0", "block_lane", 60))
    assert [*desk.zset("blocked")] == ["l:a"]
    assert desk.claim() == []
    clean(desk)


@pytest.mark.parametrize("hold", [True, False])
def test_completing_and_burying_win(desk: Desk, hold: bool) -> None:
    desk.add("s0", "s1", "s2", key="k")
    desk.claim(1, 2)
    for id in ("s0", "s1"):
        assert cancel(desk, id) == "asked"
    assert desk.settle(("s0", "complete", 0), ("s1", "bury", 0), error="{}", hold=hold) == [
        "ok",
        "ok",
    ]
    dump = clean(desk)
    assert "cancels" not in dump.types
    assert [*dump.get("dead")] == ["s1"]
    assert "cancelled" not in totals(desk)
    desk.run(desk.store.replay(["s1"]))
    assert desk.claim(1, 9) == [["s1", "s2"]]
    assert asked(desk) == {}, "an old flag does not outlive the dead job"


def test_completing_in_an_exchange_wins_too(desk: Desk) -> None:
    desk.add("j0", "j1")
    desk.claim()
    cancel(desk, "j0")
    answer = desk.exchange(done=[("j0", 1)])
    assert answer.answers == ["ok"]
    assert totals(desk)["completed"] == 1
    assert "cancels" not in clean(desk).types


@pytest.mark.parametrize("action", ["retry", "release", "bury"])
def test_what_goes_back_with_the_head_is_deleted_if_it_was_asked(
    desk: Desk, action: Action
) -> None:
    desk.add("s0", "s1", "s2", "s3", key="k")
    desk.claim(1, 3)
    assert cancel(desk, "s1") == "asked"
    assert desk.settle(("s0", action, 0), error="{}", hold=True) == ["ok"]
    dump = clean(desk)
    assert "cancels" not in dump.types
    assert "job:s1" not in dump.types
    assert not dump.deliveries("c")
    assert totals(desk)["cancelled"] == 1
    assert totals(desk).get("released", 0) == (2 if action == "release" else 1)
    waiting = ["s2", "s3"] if action == "bury" else ["s0", "s2", "s3"]
    assert [*dump.get("s:1:a:k")] == waiting


def test_a_sequence_goes_on_behind_its_cancelled_jobs(desk: Desk) -> None:
    desk.raw.hset(desk.key("glimit"), "a", "1")
    desk.add("s0", "s1", "s2", key="k")
    desk.claim(1, 2)
    cancel(desk, "s1")
    assert desk.settle(("s1", "cancel", 0)) == ["ok"]
    assert desk.claim() == [], "the sequence is held still"
    assert desk.settle(("s0", "complete", 0)) == ["ok"]
    assert desk.bell() > 0
    assert desk.claim() == [["s2"]]
    clean(desk)


@pytest.mark.parametrize(("lane", "key"), HOMES)
@pytest.mark.parametrize("end", ["reap", "third death", "leave"])
def test_a_worker_that_goes_gives_nothing_back_that_was_asked(
    desk: Desk, lane: str, key: str | None, end: str
) -> None:
    desk.add("j0", "j1", "j2", lane=lane, key=key)
    desk.claim(3, 3)
    for id in ("j0", "j2"):
        assert cancel(desk, id) == "asked"
    if end == "leave":
        assert desk.run(desk.store.leave("c")) == 1
    else:
        if end == "third death":
            desk.raw.hset(desk.key("deaths"), "j0", "2")
        desk.beat()
        desk.lapse()
    dump = clean(desk)
    assert not {"cancels", "consumers", "gactive", "dead"} & dump.types.keys()
    counts = totals(desk)
    assert (counts["cancelled"], counts.get("buried", 0), counts["waiting"]) == (2, 0, 1)
    if end == "leave":
        assert counts["released"] == 1
    desk.join("d")
    assert desk.claim(9, 9, consumer="d") == [["j1"]]


# ── a lane ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lane", ["a", "!o"])
def test_a_lane_is_emptied_and_what_runs_is_asked(desk: Desk, lane: str) -> None:
    key = "k" if lane == "a" else None
    desk.add(*[f"w{i}" for i in range(450)], lane=lane)
    desk.add("s0", "s1", "s2", lane=lane, key=key, priority=5)
    desk.add("later", lane=lane, delay_ms=60)
    desk.add("b0", "b1", lane="b")
    desk.join("d")
    assert desk.claim(1, 2) == [["s0", "s1"]]
    desk.claim(2, 2, consumer="d")
    held = {id for c in "cd" for id in desk.dump().deliveries(c) if id[0] != "b"}
    assert cancel_lane(desk, lane, by="ops") == Cancelled(removed=454 - len(held), asked=len(held))
    dump = clean(desk)
    assert dump.get("cancels").keys() == held
    assert all(json.loads(why)["by"] == "ops" for why in dump.get("cancels").values())
    assert lane not in dump.get("ring") | dump.counts("gwaiting")
    assert totals(desk)["cancelled"] == 454 - len(held)
    assert "purged" not in totals(desk)
    told = {id for jobs in asked(desk, "c", "d").values() for id, _ in jobs}
    assert told == held
    assert cancel_lane(desk, lane) == Cancelled(removed=0, asked=len(held))
    assert cancel_lane(desk, "nobody's") == Cancelled(removed=0, asked=0)


def test_a_lane_with_many_jobs_in_many_hands(desk: Desk) -> None:
    """More than a page holds, of consumers and of jobs in one consumer's hands."""
    consumers = [f"c{i}" for i in range(250)]
    desk.join(*consumers)
    desk.add_specs([JobSpec(task="t", id=f"j{i}", lane="ab"[i % 2]) for i in range(1000)])
    desk.add_specs([JobSpec(task="t", id=f"k{i}", lane="ab"[i % 2]) for i in range(700)])
    desk.claim(1000)
    for consumer in consumers:
        desk.claim(2, consumer=consumer)
    running = desk.dump().counts("gactive")["a"]
    assert running > 700
    found = cancel_lane(desk)
    assert (found.removed, found.asked) == (850 - running, running)
    dump = clean(desk)
    assert len(dump.get("cancels")) == running
    told = asked(desk, "c", *consumers)
    assert {id for jobs in told.values() for id, _ in jobs} == dump.get("cancels").keys()


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_flags_are_told_by_pages_of_what_the_asker_holds(desk: Desk, limit: int) -> None:
    desk.join("d", "idle", "e")
    desk.add(*[f"j{i}" for i in range(1500)][:600])
    desk.add("x", lane="b")
    desk.claim(600)
    desk.claim(1, consumer="d")
    desk.claim(1, consumer="e")
    flagged = {"j0", "j7", "x", "nowhere"}
    desk.raw.hset(desk.key("cancels"), mapping=dict.fromkeys(flagged, "{}"))
    found, after, cursor, calls = set(), 0, "0", 0
    consumers = ["c", "d", "gone", "idle", "e"]
    while after < len(consumers):
        after, cursor, rows = desk.run(
            iter(
                stubs.asked_page(
                    desk.keys, consumers=Packed(consumers), after=after, cursor=cursor, limit=limit
                )
            )
        )
        found |= {(consumer, id) for consumer, id, _ in rows}
        calls += 1
    assert {id for _, id in found} == flagged - {"nowhere"}
    assert calls == 1 if limit == 1000 else calls > 1


def test_a_beat_says_whether_any_flag_stands(desk: Desk) -> None:
    desk.add("j")
    desk.claim()
    assert desk.run(desk.store.keep_time(watched_ms=0))[1] is False
    cancel(desk, "j")
    assert desk.run(desk.store.keep_time(watched_ms=0))[1] is True
    desk.settle(("j", "cancel", 0))
    assert desk.run(desk.store.keep_time(watched_ms=0))[1] is False


def test_a_purge_rings_for_what_a_page_has_freed(desk: Desk) -> None:
    """The block goes with its head on the first page; who comes next may be claimed then."""
    desk.add("s1", "s2", key="k")
    desk.claim()
    desk.settle(("s1", "retry", 60_000))
    desk.silence()
    assert desk.run(iter(stubs.purge(desk.keys, lane="a", limit=1, total="purged"))) == [1, 1]
    assert desk.bell() > 0
    assert desk.claim() == [["s2"]]
    clean(desk)
