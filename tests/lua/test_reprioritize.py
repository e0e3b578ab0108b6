"""reprioritize: waiting and delayed jobs get a priority, and keep their order among equals."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from rota.errors import ConfigError
from rota.script import stubs
from rota.store.bulk import PRIORITY_START
from rota.values.jobspec import JobSpec, encode_header
from rota.values.model import parse_record
from tests.lua.conftest import Desk
from tests.lua.test_move import HOSTILE, records, write_header

STEP = 2**42
PRIORITIES = [-1000, -7, -1, 0, 0, 0, 3, 4, 5, 1000]


def reprioritize(desk: Desk, priority: int, lane: str = "a") -> int:
    return desk.run(desk.store.reprioritize(lane, priority))


def pages(desk: Desk, priority: int, limit: int, lane: str = "a") -> Iterator[int]:
    """One sweep, a call at a time: how many each changed."""
    cursor = PRIORITY_START
    while cursor:
        call = stubs.reprioritize(
            desk.keys, lane=lane, priority=priority, cursor=cursor, limit=limit
        )
        cursor, changed = desk.run(iter(call))
        yield changed


def fill(desk: Desk, n: int, seed: int = 1, **options: Any) -> dict[str, int]:
    """Jobs of any priority: their names and priorities, in the order they came."""
    dice = random.Random(seed)
    prefix = options.pop("prefix", "j")
    options.setdefault("lane", "a")
    given = {f"{prefix}{i:04}": dice.choice(PRIORITIES) for i in range(n)}
    desk.add_specs([JobSpec(task="t", id=id, priority=p, **options) for id, p in given.items()])
    return given


def with_priority(record: bytes, priority: int, *, placed: bool = True) -> bytes:
    """The record as it would be had its job been enqueued with that priority."""
    header = parse_record(record).header
    place = int(record[:17])
    if placed:
        place += (header.priority - priority) * STEP
    line = encode_header(msgspec.structs.replace(header, priority=priority))
    return b"%+017d" % place + record[17:46] + line + record[record.index(b"\n", 46) :]


def unordered(desk: Desk, lane: str = "a") -> list[str]:
    return [entry for entry in desk.zset("pending", lane) if not entry.startswith("!")]


# ── what changes ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("priority", [0, 4, -1000, 1000])
@pytest.mark.parametrize("key", [None, "k"])
def test_jobs_stand_as_if_they_had_been_enqueued_with_it(
    desk: Desk, priority: int, key: str | None
) -> None:
    given = fill(desk, 60, ordering_key=key)
    other = fill(desk, 5, lane="b", prefix="b")
    before = records(desk)
    expected = sum(1 for p in given.values() if p != priority)
    assert reprioritize(desk, priority) == expected
    after = records(desk)
    assert after == {
        id: record if id in other else with_priority(record, priority)
        for id, record in before.items()
    }
    desk.clean()
    order = list(desk.zset("sequence", "1:a:k")) if key else unordered(desk)
    assert order == list(given), "equals stand as they came"
    assert reprioritize(desk, priority) == 0
    assert records(desk) == after
    desk.clean()


@pytest.mark.parametrize("odd", HOSTILE)
def test_records_change_in_their_priority_alone(desk: Desk, odd: str) -> None:
    options: list[dict[str, Any]] = [
        {"timeout": 0.1 + 0.2, "expires_at_ms": 4_102_444_799_999, "priority": 9},
        {"timeout": 1e-7, "cost": 0.30000000000000004, "max_attempts": 9999},
        {"timeout": 12345678.123456789, "priority": -1000, "ordering_key": odd},
        {"payload": b'{"priority":7}' + b"\x00\xff\n" * 9, "ordering_key": odd},
        {"delay_ms": 5000, "priority": 3},
    ]
    desk.add_specs(
        [JobSpec(task=odd, lane=odd, id=f"{i}{odd}", **more) for i, more in enumerate(options)]
    )
    before = records(desk)
    assert reprioritize(desk, 3, odd) == 4
    assert records(desk) == {
        id: with_priority(record, 3, placed=id[0] != "4") for id, record in before.items()
    }
    desk.clean()
    assert reprioritize(desk, 0, odd) == 5
    assert {id: record for id, record in records(desk).items() if id[0] in "13"} == {
        id: record for id, record in before.items() if id[0] in "13"
    }
    desk.clean()


def test_delayed_jobs_get_it_with_their_place_if_they_have_one(desk: Desk) -> None:
    desk.add("never", priority=5, delay_ms=500)
    desk.add("tried", priority=2)
    desk.claim(1)
    desk.settle(("tried", "retry", 300))
    desk.add("plain", delay_ms=500)
    places = {member[17:]: float(member[:17]) for member in desk.zset("scheduled")}
    due = {member[17:]: at for member, at in desk.zset("scheduled").items()}
    assert reprioritize(desk, 7) == 3
    places["tried"] -= 5 * STEP
    assert {m[17:]: float(m[:17]) for m in desk.zset("scheduled")} == places
    assert {m[17:]: at for m, at in desk.zset("delayed", "a").items()} == due
    desk.clean()
    desk.add("urgent", priority=8)
    desk.add("mild", priority=6)
    desk.clock.advance(600)
    assert desk.claim(9) == [["urgent"], ["tried"], ["never"], ["plain"], ["mild"]]
    desk.clean()


def test_many_delayed_jobs_of_one_instant_all_change(desk: Desk) -> None:
    ids = [f"j{i:03}" for i in range(300)]
    for start in range(0, 300, 100):
        desk.add(*ids[start : start + 100], priority=start // 100)
    assert len(desk.claim(300)) == 300
    desk.settle(*[(id, "retry", 5000) for id in ids])
    fill(desk, 50, prefix="new", delay_ms=5000)
    expected = 200 + sum(1 for p in fill(desk, 50, prefix="x").values() if p != 2)
    new = [parse_record(record).header for id, record in records(desk).items() if id[0] == "n"]
    expected += sum(1 for header in new if header.priority != 2)
    assert reprioritize(desk, 2) == expected
    assert {parse_record(record).header.priority for record in records(desk).values()} == {2}
    desk.clean()
    assert reprioritize(desk, 2) == 0


def test_of_a_held_sequence_the_waiting_part_changes(desk: Desk) -> None:
    given = list(fill(desk, 9, ordering_key="k"))
    desk.add("u1", priority=1)
    before = records(desk)
    (head, *_), _ = sorted(desk.claim(2, 3), key=len, reverse=True)
    held = set(desk.dump().deliveries("c"))
    assert reprioritize(desk, -2) == len(given) + 1 - len(held)
    after = records(desk)
    assert {id: after[id] for id in held} == {id: before[id] for id in held}
    assert list(desk.zset("sequence", "1:a:k")) == [id for id in given if id not in held]
    desk.clean()
    desk.settle(*[(id, "release", 0) for id in held])
    desk.clean()
    assert desk.zset("pending", "a")["!k"] == int(after[head][:17])


def test_blocked_sequences_change_and_stay_blocked(desk: Desk) -> None:
    for key in ("delayed", "limited", "dead"):
        desk.add(f"{key}0", f"{key}1", key=key, priority=1)
    desk.claim(3)
    desk.settle(("delayed0", "retry", 9000), ("limited0", "block_sequence", 9000))
    desk.settle(("dead0", "bury", 0), hold=True)
    blocked, why = desk.zset("blocked"), desk.hash("why")
    assert reprioritize(desk, 6) == 5
    assert (desk.zset("blocked"), desk.hash("why")) == (blocked, why)
    assert desk.zset("out", "a").keys() == {"delayed", "limited", "dead"}
    desk.clean()
    desk.clock.advance(10_000)
    assert sorted(desk.claim(9, 9)) == [["delayed0", "delayed1"], ["limited0", "limited1"]]
    desk.clean()


def test_damage_is_passed_over(desk: Desk) -> None:
    given = [*fill(desk, 40), *fill(desk, 40, prefix="k", ordering_key="k")]
    broken = given[::3]
    for id in broken:
        write_header(desk, id, b'{"lane":"a","task":"t"}')
    places = {id: int(record[:17]) for id, record in records(desk).items() if id in broken}
    for limit in (5, 100):
        for _ in pages(desk, 7, limit):
            desk.clean()
    assert reprioritize(desk, 7) == 0
    after = records(desk)
    assert {id: int(after[id][:17]) for id in broken} == places
    assert {parse_record(after[id]).header.priority for id in given if id not in broken} == {7}
    desk.raw.delete(desk.key("job", given[0]))
    reprioritize(desk, 8)
    assert {
        parse_record(r).header.priority for id, r in records(desk).items() if id not in broken
    } == {8}


@pytest.mark.parametrize("priority", [1001, -1001, True, 1.0, None, "1"])
def test_other_priorities_are_refused(desk: Desk, priority: Any) -> None:
    desk.add("j1")
    before = records(desk)
    with pytest.raises(ConfigError):
        reprioritize(desk, priority)
    assert records(desk) == before


def test_an_empty_lane_has_none_to_change(desk: Desk) -> None:
    assert reprioritize(desk, 5) == 0
    desk.clean()


# ── pages ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("priority", [0, 4, -1000, 1000])
def test_equals_keep_their_order_between_the_calls(desk: Desk, priority: int) -> None:
    given = fill(desk, 80)
    lines = {key: fill(desk, 40, prefix=key, ordering_key=key) for key in ("k", "l")}
    for _ in pages(desk, priority, 7):
        desk.clean()
        for jobs, order in [
            (given, unordered(desk)),
            *((jobs, list(desk.zset("sequence", f"1:a:{key}"))) for key, jobs in lines.items()),
        ]:
            for level in set(PRIORITIES):
                equals = [id for id, p in jobs.items() if p == level]
                assert [id for id in order if jobs[id] == level] == equals
    assert unordered(desk) == list(given)
    assert [list(desk.zset("sequence", f"1:a:{key}")) for key in lines] == [
        *map(list, lines.values())
    ]


@pytest.mark.parametrize("lane", ["a", "!a"])
def test_a_consumer_between_the_calls_sees_equals_in_order(desk: Desk, lane: str) -> None:
    given = fill(desk, 300, lane=lane)
    claimed: list[str] = []
    for _ in pages(desk, 0, 9, lane):
        for entry in desk.claim(2, 3):
            claimed += entry
            assert desk.settle(*[(id, "complete", 0) for id in entry]) == ["ok"] * len(entry)
        desk.clean()
    reprioritize(desk, 0, lane)
    left = list(desk.zset("sequence", "2:!a:")) if lane == "!a" else unordered(desk)
    assert left == sorted(left)
    while entries := desk.claim(1, 50):
        claimed += entries[0]
        desk.exchange(0, done=[(id, desk._claims["c"]) for id in entries[0]])
    assert sorted(claimed) == sorted(given)
    for level in set(PRIORITIES):
        equals = [id for id in claimed if given[id] == level]
        assert equals == sorted(equals)
    desk.clean()


def test_calls_are_bounded_and_a_second_sweep_finds_what_moved_meanwhile(desk: Desk) -> None:
    for i in range(30):
        desk.add(f"s{i}-0", f"s{i}-1", f"s{i}-2", key=f"s{i}", priority=i % 3)
    fill(desk, 50)
    fill(desk, 30, prefix="d", delay_ms=5000)
    for changed in pages(desk, 2, 10):
        assert changed < 20
        held = [id for entry in desk.claim(3) for id in entry]
        desk.clean()
        desk.settle(*[(id, "release", 0) for id in held])
    reprioritize(desk, 2)
    assert {parse_record(record).header.priority for record in records(desk).values()} == {2}
    desk.clean()


def test_large_payloads_go_a_few_at_a_time(desk: Desk) -> None:
    big = b'"' + b"x" * 700_000 + b'"'
    desk.add(*[f"j{i}" for i in range(5)], payload=big)
    desk.add(*[f"k{i}" for i in range(5)], payload=big, key="k")
    desk.add(*[f"d{i}" for i in range(3)], payload=big, delay_ms=1)
    sizes = list(pages(desk, 1, 200))
    assert max(sizes) <= 3
    assert sum(sizes) + reprioritize(desk, 1) == 13
    desk.clean()
