"""waiting_page, running_page, timed_page, sequences_page, sequence_info: lists, by pages."""

from __future__ import annotations

from typing import Any

import pytest

from rota.errors import ConfigError
from rota.script import stubs
from rota.script.loader import packed_names
from rota.store.inspector import Inspector
from rota.store.jobs import LOOKS
from rota.values.listing import SequenceInfo
from tests.lua.conftest import Desk

pytestmark = pytest.mark.legs("valkey", "redis7")  # the cluster is the integration test's

ODD = ("[red]", "ünï ☃", "a'b\"c", "two words", "-x", "a:b", "%s\\n", "3:x:y")


def jobs(desk: Desk, look: Inspector, state: str, limit: int = 3, **where: Any) -> list[str]:
    """All pages of a list, each within its limit."""
    found: list[str] = []
    cursor = None
    where = {"lane": None, "task": None} | where
    while True:
        page = desk.run(look.jobs(state, cursor=cursor, limit=limit, **where))
        assert len(page.jobs) <= limit
        assert all(job.state == state for job in page.jobs)
        found += [job.id for job in page.jobs]
        if page.cursor is None:
            return found
        assert page.cursor.isascii()
        assert page.cursor != cursor
        cursor = page.cursor


def sequences(
    desk: Desk, look: Inspector, limit: int = 2, lane: str | None = None
) -> list[SequenceInfo]:
    found: list[SequenceInfo] = []
    cursor = None
    while True:
        page = desk.run(look.sequences(lane=lane, cursor=cursor, limit=limit))
        assert len(page.sequences) <= limit
        found += page.sequences
        if page.cursor is None:
            return found
        cursor = page.cursor


def states(found: list[SequenceInfo]) -> dict[tuple[str, str], str]:
    assert len({(one.lane, one.ordering_key) for one in found}) == len(found)
    return {(one.lane, one.ordering_key): one.state for one in found}


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_waiting_jobs_in_the_order_of_their_entries(
    desk: Desk, look: Inspector, limit: int
) -> None:
    desk.add("j1")
    desk.add("k1", "k2", "k3", key="k")
    desk.add("j2", "j3")
    desk.add("m1", "m2", key="m")
    desk.add("k4", key="k")
    desk.add("first", priority=7)
    desk.add("other", lane="b")
    expected = ["first", "j1", "k1", "k2", "k3", "k4", "j2", "j3", "m1", "m2"]
    assert jobs(desk, look, "waiting", limit, lane="a") == expected
    desk.claim(4)  # first, other, j1, k1: sequence k is out
    expected = ["j2", "j3", "m1", "m2", "k2", "k3", "k4"]
    assert jobs(desk, look, "waiting", limit, lane="a") == expected
    assert jobs(desk, look, "waiting", limit, lane="none") == []


def test_an_ordered_lane_is_one_sequence(desk: Desk, look: Inspector) -> None:
    desk.add("o1", "o2", "o3", lane="!o")
    assert jobs(desk, look, "waiting", 1, lane="!o") == ["o1", "o2", "o3"]
    desk.claim()
    assert jobs(desk, look, "waiting", 1, lane="!o") == ["o2", "o3"]


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_running_jobs_by_who_has_them(desk: Desk, look: Inspector, limit: int) -> None:
    desk.join("d", "e")
    desk.add(*(f"a{i}" for i in range(7)))
    desk.add(*(f"b{i}" for i in range(5)), lane="b")
    desk.add("s1", "s2", key="s")
    desk.claim(6)
    desk.claim(9, prefetch=5, consumer="d")
    held = {id for consumer in "cd" for id in desk.dump().deliveries(consumer)}
    assert len(held) == 14
    found = jobs(desk, look, "running", limit)
    assert sorted(found) == sorted(held)
    page = desk.run(look.jobs("running", lane=None, task=None, cursor=None, limit=200))
    for job in page.jobs:
        assert job.worker is not None
        assert job.id in desk.dump().deliveries(job.worker.removeprefix("host:"))
    assert sorted(jobs(desk, look, "running", limit, lane="b")) == [f"b{i}" for i in range(5)]
    assert jobs(desk, look, "running", limit, task="no") == []


@pytest.mark.parametrize("state", ["delayed", "dead"])
def test_delayed_and_dead_jobs_by_time(desk: Desk, look: Inspector, state: str) -> None:
    ids = [f"j{i}" for i in range(9)]
    if state == "delayed":
        for i, id in enumerate(ids):
            desk.add(id, lane=f"l{i % 2}", delay_ms=1000 + 10 * (i // 3))
    else:
        for i, id in enumerate(ids):
            desk.add(id, lane=f"l{i % 2}")
            desk.claim()
            desk.settle((id, "bury", 0), error='{"error":"e"}')
            desk.clock.advance(i % 3)
    for limit in (1, 4, 9, 50):
        assert sorted(jobs(desk, look, state, limit)) == ids
        assert jobs(desk, look, state, limit, lane="l1") == ids[1::2]
    page = desk.run(look.jobs(state, lane=None, task="t", cursor=None, limit=50))
    times = [job.due for job in page.jobs]
    assert None not in times
    assert times == sorted(times, key=lambda due: due or 0)
    assert page.jobs[0].error == ("e" if state == "dead" else None)


def test_a_page_goes_on_where_jobs_have_gone(desk: Desk, look: Inspector) -> None:
    desk.add(*(f"j{i}" for i in range(6)), delay_ms=5000)
    page = desk.run(look.jobs("delayed", lane=None, task=None, cursor=None, limit=3))
    assert [job.id for job in page.jobs] == ["j0", "j1", "j2"]
    desk.run(desk.store.cancel("j2", by=None))
    desk.run(desk.store.cancel("j3", by=None))
    page = desk.run(look.jobs("delayed", lane=None, task=None, cursor=page.cursor, limit=3))
    assert ([job.id for job in page.jobs], page.cursor is None) == (["j4", "j5"], True)


def test_pages_are_bounded_in_looks_and_bytes(desk: Desk, look: Inspector) -> None:
    """A filter that lets nothing pass ends a page after some looks; large records end it early."""
    cursor: list[bytes] = []
    desk.add(*(f"j{i}" for i in range(250)))
    keys, calls = desk.keys, 0
    while calls == 0 or cursor:
        cursor, rows, _ = desk.run(
            stubs.waiting_page(
                keys, lane="a", task="x", cursor=packed_names(cursor), limit=50, looks=100
            ).__iter__()
        )
        assert rows == []
        calls += 1
    assert calls == 3
    assert LOOKS >= 200
    desk.add(*(f"big{i}" for i in range(6)), lane="b", payload=b"x" * 900_000)
    page = desk.run(look.jobs("waiting", lane="b", task=None, cursor=None, limit=50))
    assert (len(page.jobs), page.cursor is None) == (3, False)
    assert jobs(desk, look, "waiting", 50, lane="b") == [f"big{i}" for i in range(6)]


def test_what_is_asked_is_checked(desk: Desk, look: Inspector) -> None:
    good: dict[str, Any] = {"lane": "a", "task": None, "cursor": None, "limit": 5}
    wrongs: list[tuple[Any, dict[str, Any]]] = [
        ("done", {}),
        ("waiting", {"lane": None}),
        ("waiting", {"limit": 0}),
        ("waiting", {"limit": 201}),
        ("waiting", {"cursor": "nonsense"}),
        ("waiting", {"cursor": "WyJhIl0"}),
        ("delayed", {"cursor": "Ü"}),
        ("dead", {"cursor": 5}),
    ]
    for state, wrong in wrongs:
        with pytest.raises(ConfigError, match="expected"):
            desk.run(look.jobs(state, **good | wrong))
    with pytest.raises(ConfigError, match="expected"):
        desk.run(look.sequences(lane=None, cursor="WyJhIl0", limit=5))


def test_a_cursor_of_another_listing_or_a_changed_one_is_refused(
    desk: Desk, look: Inspector
) -> None:
    desk.add("j1", "j2")
    desk.claim(2)
    desk.settle(("j1", "bury", 0), ("j2", "bury", 0))
    one: dict[str, Any] = {"lane": None, "task": None, "limit": 1}
    cursor = desk.run(look.jobs("dead", cursor=None, **one)).cursor
    assert cursor is not None
    assert desk.run(look.jobs("dead", cursor=cursor, **one)).jobs[0].id == "j2"
    changed = cursor[:8] + ("A" if cursor[8] != "A" else "B") + cursor[9:]
    for state, wrong in (("delayed", cursor), ("dead", changed), ("dead", "")):
        with pytest.raises(ConfigError, match="cursor: expected one that a page gave"):
            desk.run(look.jobs(state, cursor=wrong, **one))
    with pytest.raises(ConfigError, match="cursor: expected one that a page gave"):
        desk.run(look.lanes_page(cursor))


# ── sequences ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_sequences_that_are_out_come_first(desk: Desk, look: Inspector, limit: int) -> None:
    for key in ("held", "retried", "rated", "dead", "gone", "ready"):
        desk.add(f"{key}1", *([f"{key}2"] if key != "gone" else []), key=key)
    desk.add("alone", key="alone")
    desk.add("plain", "x", "y")
    desk.add("other", lane="b", key="ready")
    desk.claim(6)  # five of lane a and one of lane b
    desk.settle(("retried1", "retry", 9_000), error='{"error":"no luck\\nb"}')
    desk.settle(("rated1", "block_sequence", 7_000))
    desk.settle(("dead1", "bury", 0), ("gone1", "bury", 0), error='{"error":"e"}', hold=True)
    for lane in ("a", None):
        found = sequences(desk, look, limit, lane)
        ours = [one for one in found if one.lane == "a"]
        order = [one.state != "ready" for one in found]
        assert order == sorted(order, reverse=True)
        assert (
            states(ours).items()
            >= {
                ("a", "held"): "held",
                ("a", "retried"): "blocked",
                ("a", "rated"): "blocked",
                ("a", "dead"): "blocked",
                ("a", "gone"): "blocked",
            }.items()
        )
        assert len(ours) == 7
        assert len(found) == (7 if lane else 8)
    by_key = {one.ordering_key: one for one in sequences(desk, look, 50, "a")}
    now = desk.clock.now / 1000
    held = by_key["held"]
    assert (held.waiting, held.head, held.held_by, held.jobs_held) == (
        1, "held2", "host:c", ["held1"],
    )  # fmt: skip
    retried = by_key["retried"]
    assert (retried.head, retried.waiting, retried.blocked_until) == ("retried1", 2, now + 9)
    assert (retried.reason, retried.head_dead) == ("no luck", False)
    assert by_key["rated"].blocked_until == now + 7
    dead, gone = by_key["dead"], by_key["gone"]
    assert (dead.head, dead.head_dead, dead.waiting, dead.blocked_until) == ("dead1", True, 1, None)
    assert (gone.head, gone.head_dead, gone.waiting) == ("gone1", True, 0)
    for key, one in by_key.items():
        assert desk.run(look.sequence("a", key)) == one
    assert desk.run(look.sequence("a", "never")) is None
    desk.clean()


def test_names_that_look_like_something_else(desk: Desk, look: Inspector) -> None:
    for lane in ODD:
        for key in ODD:
            desk.add(f"{lane}/{key}/1", f"{lane}/{key}/2", lane=lane, key=key)
    desk.claim(len(ODD) * 2)
    pairs = {(lane, key) for lane in ODD for key in ODD}
    for limit in (7, 200):
        assert states(sequences(desk, look, limit)).keys() == pairs
    for lane in ODD:
        found = states(sequences(desk, look, 3, lane))
        assert found.keys() == {(lane, key) for key in ODD}
        waiting = jobs(desk, look, "waiting", 5, lane=lane)
        running = jobs(desk, look, "running", 5, lane=lane)
        assert sorted(waiting + running) == sorted(f"{lane}/{k}/{n}" for k in ODD for n in (1, 2))


# ── skip, retry ─────────────────────────────────────────────────────────────────────────────────


def test_skip_past_a_dead_job(desk: Desk) -> None:
    desk.add("s1", "s2", key="k")
    assert desk.run(desk.store.skip("a", "k", by=None)) is None, "nothing stops it"
    desk.claim()
    assert desk.run(desk.store.skip("a", "k", by=None)) is None, "in flight"
    desk.settle(("s1", "bury", 0), error='{"error":"e"}', hold=True)
    desk.silence()
    assert desk.run(desk.store.skip("a", "k", by="me")) == "s1"
    assert desk.bell() == 1
    assert desk.zset("dead").keys() == {"s1"}
    assert desk.run(desk.store.skip("a", "k", by=None)) is None
    assert desk.claim() == [["s2"]]
    desk.clean()
    assert desk.run(desk.store.replay(["s1"])) == ["ok"]
    desk.clean()


def test_skip_past_a_head_that_waits_for_its_retry(desk: Desk) -> None:
    for lane, key in (("a", "k"), ("!o", None)):
        ids = [f"of{lane}1", f"of{lane}2"]
        desk.add(*ids, lane=lane, key=key) if key else desk.add(*ids, lane=lane)
        desk.claim()
        desk.settle((ids[0], "retry", 60_000), error='{"error":"broke","worker":"h:1"}')
        assert desk.claim() == []
        assert desk.run(desk.store.skip(lane, key or "", by="ops ☃")) == ids[0]
        desk.clean()
        assert desk.claim() == [[ids[1]]]
        dead = {
            job.id: job for job in desk.run(desk.look.first_dead(lane=lane, task=None, limit=9))
        }
        job = dead[ids[0]]
        assert (job.error, job.worker, job.attempts) == ("broke\nskipped by ops ☃", "h:1", 1)


def test_a_skip_that_is_sent_twice_skips_once(desk: Desk) -> None:
    desk.add("s1", "s2", "s3", key="k")
    for id in ("s1", "s2"):
        desk.claim()
        desk.settle((id, "retry", 60_000))
        skip = stubs.skip(desk.keys, lane="a", key="k", id=id, by="")
        for _ in range(2):
            assert desk.run(iter(skip)) == "ok"
        desk.clean()
    assert desk.zset("dead").keys() == {"s1", "s2"}
    gone = stubs.skip(desk.keys, lane="a", key="k", id="s3", by="")
    assert desk.run(iter(gone)) == "none", "it stops nothing"
    assert desk.claim() == [["s3"]]


def test_retry_by_where_the_job_stands(desk: Desk) -> None:
    desk.add("waiting", "running", "retried", "dead", "damaged")
    desk.add("s1", "s2", key="k")
    desk.add("delayed", delay_ms=60_000)
    desk.add("later", key="m", delay_ms=60_000)
    desk.claim(9)
    desk.settle(("waiting", "release", 0), ("retried", "retry", 60_000), ("s1", "retry", 60_000))
    desk.settle(("dead", "bury", 0), ("damaged", "bury", 0))
    desk.raw.set(desk.key("job", "damaged"), "nonsense")
    ids = "waiting", "running", "retried", "dead", "damaged", "s1", "s2", "delayed", "later", "no"
    answers = {id: desk.run(desk.store.retry(id)) for id in ids}
    assert answers == {
        "waiting": "waiting",
        "running": "running",
        "retried": "ok",
        "dead": "ok",
        "damaged": "unreadable",
        "s1": "ok",
        "s2": "waiting",
        "delayed": "ok",
        "later": "ok",
        "no": "none",
    }
    assert desk.run(desk.store.discard(["damaged"])) == ["ok"]
    desk.clean()
    assert {id for entry in desk.claim(20) for id in entry} == {
        "waiting", "retried", "dead", "s1", "delayed", "later",
    }  # fmt: skip
    desk.clean()


# ── orders ──────────────────────────────────────────────────────────────────────────────────────


def test_what_was_asked_of_consumers_goes_with_them(desk: Desk, look: Inspector) -> None:
    desk.join("d", "e")
    assert desk.run(desk.store.keep_time(watched_ms=0))[1] is False
    assert desk.run(desk.store.order("c", "quiet"))
    assert desk.run(desk.store.order("d", "stop"))
    assert desk.run(desk.store.order("d", "quiet")), "a stop stands"
    assert not desk.run(desk.store.order("none", "quiet"))
    assert desk.run(desk.store.keep_time(watched_ms=0))[1] is True
    assert desk.run(desk.store.orders(["c", "d", "e"])) == {"c": "quiet", "d": "stop"}
    asked = {one.id: one.asked for one in desk.run(look.consumers(9))}
    assert asked == {"c": "quiet", "d": "stop", "e": None}
    desk.run(desk.store.leave("c"))
    desk.clock.advance(60_000)
    desk.beat()
    assert desk.hash("orders") == {}
