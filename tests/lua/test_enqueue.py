"""enqueue.lua: outcomes, places, receipts, limits."""

from __future__ import annotations

from typing import Any

import pytest

from rota.errors import LaneFull
from rota.script.loader import Call
from rota.values.jobspec import JobSpec
from tests.lua.conftest import Desk

STEP = 2**42


def test_the_record_is_place_and_times_then_header_then_payload(desk: Desk) -> None:
    desk.add("j", payload=b'[1,"\xc3\xa9"]', priority=-3)
    now = desk.clock.now
    assert desk.raw.get(desk.key("job", "j")) == (
        f'+{1 + 3 * STEP:016d},{now},{now}\n{{"task":"t","lane":"a","priority":-3}}\n\n[1,"é"]'
    )


def test_a_delayed_job_has_no_place_yet(desk: Desk) -> None:
    desk.add("j", delay_ms=5, priority=7)
    assert str(desk.raw.get(desk.key("job", "j"))).startswith(
        f"+{1:016d},{0:013d},{desk.clock.now}\n"
    )
    assert desk.zset("scheduled") == {f"+{1:016d}j": desk.clock.now + 5}
    desk.clock.advance(5)
    assert desk.claim() == [["j"]]
    place = 2 - 7 * STEP
    assert str(desk.raw.get(desk.key("job", "j"))).startswith(f"{place:+017d},{desk.clock.now},")
    desk.clean()


@pytest.mark.parametrize(
    ("options", "delayed"),
    [
        ({"delay_ms": 1}, True),
        ({"delay_ms": 0}, False),
        ({"at_ms": 1_700_000_000_001}, True),
        ({"at_ms": 1_700_000_000_000}, False),
        ({"at_ms": 0}, False),
    ],
)
def test_what_is_due_now_waits_for_nothing(
    desk: Desk, options: dict[str, int], delayed: bool
) -> None:
    desk.add("j", **options)
    assert bool(desk.zset("scheduled")) is delayed
    assert bool(desk.zset("pending", "a")) is not delayed
    desk.clean()


def test_every_priority_keeps_its_exact_order(desk: Desk) -> None:
    """At a counter where `..` would cut digits, and neighbours differ by one."""
    desk.raw.set(desk.key("seq"), STEP - 5000)
    order = (1000, 999, 1, 0, -1, -999, -1000)
    for priority in reversed(order):
        desk.add(f"{priority}/1", f"{priority}/2", f"{priority}/3", priority=priority)
    taken = [id for (id,) in desk.claim(30)]
    assert taken == [f"{priority}/{n}" for priority in order for n in (1, 2, 3)]
    desk.clean()


def test_a_higher_priority_moves_the_token_forward(desk: Desk) -> None:
    desk.add("low", key="k")
    desk.add("other")
    desk.add("high", key="k", priority=1)
    assert desk.zset("pending", "a") == {"!k": 3 - STEP, "other": 2}
    assert desk.claim(1, 2) == [["high", "low"]]


@pytest.mark.parametrize(
    ("lane", "key", "other_lane", "other_key"),
    [
        ("a", "b:c", "a:b", "c"),
        ("1:a", "k", "a", "1:k"),
        ("a", "!k", "!a", None),
        ("g:a", "pending", "a", "g:a:pending"),
        ("é", "k", "e\u0301", "k"),
    ],
)
def test_odd_names_do_not_meet(
    desk: Desk, lane: str, key: str, other_lane: str, other_key: str | None
) -> None:
    desk.add("j1", "j2", lane=lane, key=key)
    desk.add("j3", "j4", lane=other_lane, key=other_key)
    assert sorted(desk.claim(10, 10)) == [["j1", "j2"], ["j3", "j4"]]
    assert len(desk.clean().holdings()) == 2


def test_an_id_is_taken_while_its_job_exists(desk: Desk) -> None:
    assert desk.add("j", "j") == ["created", "duplicate"]
    assert desk.add("j", lane="b", delay_ms=5) == ["duplicate"]
    desk.claim()
    assert desk.add("j") == ["duplicate"]
    desk.settle(("j", "bury", 0))
    assert desk.add("j") == ["duplicate"]
    assert desk.run(desk.store.discard(["j"])) == ["ok"]
    assert desk.add("j", lane="b") == ["created"]
    assert desk.claim() == [["j"]]
    desk.exchange(0, done=[("j", 2)])
    assert desk.add("j") == ["created"]
    assert desk.clean().counts("stats")["enqueued"] == 3


def _spec(id: str, *, key: str | None = None, **options: Any) -> JobSpec:
    return JobSpec(**{"task": "t", "id": id, "lane": "a", "ordering_key": key, **options})


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("asking", [{}, {"lane": "b", "key": "other", "delay_ms": 9}])
def test_a_duplicate_is_told_what_its_holder_does(
    desk: Desk, key: str | None, asking: dict[str, Any]
) -> None:
    """Whatever the second job asked for; a block of its sequence is a wait."""

    def holder(*ids: str) -> list[str | None]:
        specs = [_spec(id, **{"key": key, **asking}) for id in ids]
        done = desk.run(desk.store.enqueue(specs))
        assert {one.outcome for one in done} == {"duplicate"}
        return [one.holder for one in done]

    desk.run(desk.store.enqueue([_spec("late", key=key, delay_ms=60_000), _spec("j", key=key)]))
    assert holder("j", "late") == ["waiting", "delayed"]
    desk.claim()
    assert holder("late", "j", "j") == ["delayed", "running", "running"]
    desk.settle(("j", "retry", 1000))
    assert holder("j") == ["waiting" if key else "delayed"]
    desk.clock.advance(1000)
    desk.beat()
    desk.claim()
    desk.settle(("j", "bury", 0))
    assert holder("j") == ["dead"]
    desk.raw.set(desk.key("job", "late"), "garbage")
    assert holder("late") == [None]


def test_a_duplicate_within_a_call_is_told_of_the_first(desk: Desk) -> None:
    specs = [_spec("j"), _spec("j", delay_ms=5), _spec("late", delay_ms=5), _spec("late")]
    done = desk.run(desk.store.enqueue(specs))
    assert [(one.outcome, one.holder) for one in done] == [
        ("created", None), ("duplicate", "waiting"), ("created", None), ("duplicate", "delayed"),
    ]  # fmt: skip
    desk.clean()


@pytest.mark.parametrize("kind", ["pending", "dead", "scheduled"])
def test_a_damaged_key_only_hides_the_holder(desk: Desk, kind: str) -> None:
    desk.add("j")
    key = desk.key(kind, "a") if kind == "pending" else desk.key(kind)
    desk.raw.delete(key)
    desk.raw.set(key, "garbage")
    (done,) = desk.run(desk.store.enqueue([_spec("j", lane="b")]))
    assert (done.outcome, done.holder) == ("duplicate", None)


def test_a_backlog_counts_what_waits_and_what_is_delayed(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", backlog=3))
    assert desk.add("j1", "j1", delay_ms=9) == ["created", "duplicate"]
    assert desk.add("j2", "j3", "j4", "j2") == ["created", "created", "lane_full", "duplicate"]
    assert desk.add("j5", lane="b") == ["created"]
    desk.claim(1)  # in flight counts no more
    assert desk.add("j4", "j6") == ["created", "lane_full"]


def test_an_atomic_batch_is_stored_whole_or_leaves_nothing(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", backlog=2))
    desk.add("old")
    before = desk.dump()
    batch = [JobSpec(task="t", id=f"j{i}", lane="a" if i > 1 else "b") for i in range(4)]
    with pytest.raises(LaneFull, match="a"):
        desk.add_specs(batch, atomic=True)
    after = desk.dump()
    assert (after.types, after.get("seq"), after.get("stats")) == (
        before.types,
        before.get("seq"),
        before.get("stats"),
    )
    assert desk.add_specs(batch[:3], atomic=True) == ["created"] * 3
    assert desk.add_specs(batch[:3], atomic=True) == ["duplicate"] * 3


def test_a_receipt_answers_for_its_jobs_when_they_are_long_gone(desk: Desk) -> None:
    request = next(desk.store.enqueue([JobSpec(task="t", id="j", lane="a")]))
    assert isinstance(request, Call)
    assert desk.run(iter(request)) == ("ok", "c")
    desk.claim()
    desk.exchange(0, done=[("j", 1)])
    before = desk.dump().types
    assert desk.run(iter(request)) == ("ok", "c")
    assert desk.clean().types == before
    (receipt,) = (key for key in before if key.startswith("sent:"))
    desk.raw.delete(desk.keys.root + receipt)
    assert desk.run(iter(request)) == ("ok", "c")
    assert desk.claim() == [["j"]], "without its receipt it is a new call"


@pytest.mark.parametrize("size", [1, 999, 1000])
@pytest.mark.parametrize("lanes", [1, 1000])
def test_batches_of_any_size(desk: Desk, size: int, lanes: int) -> None:
    batch = [
        JobSpec(
            task="t",
            id=f"j{i}",
            lane=f"lane{i % lanes}",
            ordering_key="k" if i % 3 == 0 else None,
            delay_ms=9 if i % 5 == 0 else 0,
        )
        for i in range(size)
    ]
    assert desk.add_specs(batch) == ["created"] * size
    assert desk.bell() == 1, "one bell per batch"
    assert desk.add_specs(batch) == ["duplicate"] * size
    assert desk.bell() == 1
    desk.clean()


def test_only_work_that_may_be_served_joins_the_ring(desk: Desk) -> None:
    desk.run(desk.store.pause("paused", reason=None, by=None, until=None))
    desk.run(desk.store.block("blocked", 9, reason=None, by=None))
    desk.run(desk.store.lane_set("stopped", ceiling=0))
    desk.silence()
    for lane in ("paused", "blocked", "stopped"):
        desk.add(f"{lane}1", lane=lane)
    desk.add("later", delay_ms=10_000)
    assert desk.zset("ring") == {}
    assert desk.bell() == 1, "the delayed job is the first thing due after the block"
    desk.silence()
    desk.add("much later", delay_ms=20_000)
    assert desk.bell() == 0
    desk.add("now", lane="b")
    assert desk.zset("ring") == {"b": 1}
    assert desk.bell() == 1
    desk.clean()
