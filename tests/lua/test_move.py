"""move: jobs change their lane and keep their places; sequences go whole, or head first."""

from __future__ import annotations

import json
import random
from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from rota.errors import ConfigError
from rota.script import stubs
from rota.store.bulk import MOVE_START
from rota.values.jobspec import JobSpec, encode_header
from rota.values.model import Moved, parse_record
from tests.lua.conftest import Desk

HOSTILE = [
    'say "hi"',
    "back\\slash\\",
    'a\\"b',
    '"',
    "\\",
    "a/b/../c",
    "çé漢字🦊",
    "a\u2028b",
    '","lane":"x',
    '{"lane":"a","key":"b","priority":7}',
    "%d %s %%",
    "-",
    " ",
]
MOVING = '{"reason":"moving to b"}'


def move(desk: Desk, source: str = "a", target: str = "b") -> Moved:
    return desk.run(desk.store.move(source, target))


def pages(desk: Desk, limit: int, source: str = "a", target: str = "b") -> Generator[int]:
    """A move one call at a time: how many went with each."""
    cursor = MOVE_START
    while cursor:
        call = stubs.move(desk.keys, source=source, target=target, cursor=cursor, limit=limit)
        cursor, moved, _ = desk.run(iter(call))
        yield moved


def records(desk: Desk) -> dict[str, bytes]:
    """Every record, to the byte."""
    found = {}
    for id, _ in desk.dump().each("job:"):
        found[id] = record_of(desk, id)
    return found


def record_of(desk: Desk, id: str) -> bytes:
    text: Any = desk._bytes.get(desk.key("job", id))
    return bytes(text)


def write_header(desk: Desk, id: str, header: bytes) -> None:
    """As no part of rota writes it."""
    record = record_of(desk, id)[:46] + header + b"\n{}"
    desk._bytes.set(desk.key("job", id), record)


def in_lane(record: bytes, lane: str) -> bytes:
    """The record as it would be had it been enqueued to that lane at its place."""
    header = msgspec.structs.replace(parse_record(record).header, lane=lane)
    return record[:46] + encode_header(header) + record[record.index(b"\n", 46) :]


def order(desk: Desk, sequence: str) -> list[str]:
    ids: Any = desk.raw.zrange(desk.key("sequence", sequence), 0, -1)
    return list(ids)


# ── what goes, and how it arrives ───────────────────────────────────────────────────────────


def test_waiting_and_delayed_jobs_go_and_those_in_flight_stay(desk: Desk) -> None:
    desk.add("a1", "a2")
    desk.add("a4", priority=2)
    assert desk.claim(1) == [["a4"]]
    assert desk.settle(("a4", "retry", 300)) == ["ok"]
    assert desk.claim(1) == [["a1"]]
    desk.add("b1", lane="b")
    desk.add("a3")
    desk.add("late", delay_ms=500)
    desk.add("b2", lane="b")
    before = desk.zset("pending", "a") | desk.zset("pending", "b")
    due = desk.zset("scheduled")
    assert move(desk) == Moved(moved=4, left=0)
    assert desk.zset("pending", "b") == {id: before[id] for id in ("b1", "a2", "a3", "b2")}
    assert list(desk.zset("pending", "b")) == ["a2", "b1", "a3", "b2"]
    assert desk.zset("scheduled") == desk.zset("delayed", "b") == due
    dump = desk.clean()
    assert dump.counts("gwaiting") == {"b": 4}
    assert dump.counts("stats")["moved"] == 4
    assert list(desk.zset("ring")) == ["b"]
    desk.clock.advance(600)
    assert desk.claim(9) == [["a4"], ["a2"], ["b1"], ["a3"], ["b2"], ["late"]]
    assert desk.settle(("a1", "retry", 0)) == ["ok"]
    assert desk.claim(1) == [["a1"]], "what was in flight came back to its own lane"
    assert desk.clean().deliveries("c")["a1"].lane == "a"


def test_the_bell_is_rung_only_for_what_may_be_claimed(desk: Desk) -> None:
    desk.run(desk.store.pause("b", reason=None, by=None, until=None))
    desk.add("j1")
    desk.silence()
    assert move(desk) == Moved(1, 0)
    assert desk.bell() == 0
    assert not desk.zset("ring")
    desk.clean()
    assert move(desk, "b", "c") == Moved(1, 0)
    assert desk.bell() == 1
    assert list(desk.zset("ring")) == ["c"]
    desk.clean()


def test_nothing_to_move_is_moved(desk: Desk) -> None:
    assert move(desk) == Moved(0, 0)
    desk.add("b1", lane="b")
    assert move(desk) == Moved(0, 0)
    assert "moved" not in desk.clean().counts("stats")


@pytest.mark.parametrize("odd", HOSTILE)
def test_records_change_in_their_lane_alone(desk: Desk, odd: str) -> None:
    numbers: list[dict[str, Any]] = [
        {"timeout": 0.1 + 0.2, "expires_at_ms": 4_102_444_799_999},
        {"timeout": 1e-7, "cost": 0.30000000000000004, "max_attempts": 9999},
        {"timeout": 12345678.123456789, "priority": -1000, "on_dead": "hold"},
        {"priority": 7, "expires_in_ms": 9007199254, "payload": b'{"lane":"' + b"\x00\xff\n" * 9},
        {"delay_ms": 5000, "priority": 3},
    ]
    specs = []
    for i, options in enumerate(numbers):
        for key in (None, odd):
            id = f"{i}{odd}{key is None}"
            specs.append(JobSpec(task=odd, lane=odd, ordering_key=key, id=id, **options))
    desk.add_specs(specs)
    before = records(desk)
    there = f'{odd}/there\\"'
    assert move(desk, odd, there) == Moved(10, 0)
    assert records(desk) == {id: in_lane(record, there) for id, record in before.items()}
    desk.clean()
    assert move(desk, there, odd) == Moved(10, 0)
    assert records(desk) == before
    desk.clean()
    assert len([id for entry in desk.claim(99, 99) for id in entry]) == 8


SHAPES: list[bytes] = [
    b'{"lane":"a","task":"t"}',
    b'{"task":"t","lane":"a","max_attempts":3,"priority":4}',
    b'{"task":"t","lane":"a","priority":1.5}',
    b'{"task":"t","lane":"a","lane":"a"}',
    b'{"task":"t","lane":"elsewhere"}',
    b'{"task":"t", "lane":"a"}',
    b'{"task":"t","lane":"a"',
    b'{"task":"t","lane":"a\\"}',
    b'{"task":"t","lane":7}',
    b"[]",
    b"",
]


@pytest.mark.parametrize("header", SHAPES)
@pytest.mark.parametrize("where", ["pending", "sequence", "delayed"])
def test_what_is_not_understood_stays(desk: Desk, header: bytes, where: str) -> None:
    kinds: dict[str, dict[str, Any]] = {"sequence": {"key": "k"}, "delayed": {"delay_ms": 5}}
    desk.add("j1", "odd", "j2", **kinds.get(where, {}))
    before = record_of(desk, "odd")
    write_header(desk, "odd", header)
    assert move(desk) == Moved(moved=2, left=1)
    assert record_of(desk, "odd") == before[:46] + header + b"\n{}"
    desk.clean()
    desk._bytes.set(desk.key("job", "odd"), before)
    assert move(desk) == Moved(moved=1, left=0)
    desk.clean()


def test_a_record_that_is_cut_or_gone_stays(desk: Desk) -> None:
    desk.add("j1", "cut", "j2", "gone")
    desk.raw.set(desk.key("job", "cut"), "+0000")
    desk.raw.delete(desk.key("job", "gone"))
    assert move(desk) == Moved(moved=2, left=2)
    assert list(desk.zset("pending", "b")) == ["j1", "j2"]
    assert list(desk.zset("pending", "a")) == ["cut", "gone"]


# ── pages ───────────────────────────────────────────────────────────────────────────────────


def test_pages_of_an_unordered_lane_lose_nothing_while_it_is_worked_on(desk: Desk) -> None:
    ids = [f"j{i:03}" for i in range(100)]
    desk.add(*ids)
    desk.add(*[f"d{i}" for i in range(25)], delay_ms=50)
    claimed, moved = [], []
    for page in pages(desk, 10):
        moved.append(page)
        desk.clean()
        claimed += [entry[0] for entry in desk.claim(3)]
        desk.clock.advance(1)
    assert max(moved) < 20, "about ten: the last of one kind and the first of the next"
    while entries := desk.claim(50):
        claimed += [entry[0] for entry in entries]
    desk.clock.advance(100)
    claimed += [entry[0] for entry in desk.claim(50)]
    assert sorted(claimed) == sorted(ids + [f"d{i}" for i in range(25)])
    desk.clean()


def test_large_payloads_go_a_few_at_a_time(desk: Desk) -> None:
    big = b'"' + b"x" * 700_000 + b'"'
    desk.add(*[f"j{i}" for i in range(5)], payload=big)
    desk.add(*[f"k{i}" for i in range(5)], payload=big, key="k")
    desk.add(*[f"d{i}" for i in range(3)], payload=big, delay_ms=1)
    sizes = list(pages(desk, 200))
    assert sum(sizes) == 13
    assert max(sizes) <= 3
    assert not desk.zset("blocked")
    assert order(desk, "1:b:k") == [f"k{i}" for i in range(5)]
    desk.clean()


# ── sequences ───────────────────────────────────────────────────────────────────────────────


def test_free_sequences_go_whole_and_those_that_are_not_free_stay_whole(desk: Desk) -> None:
    for key in ("free", "held", "delayed", "limited", "dead"):
        desk.add(*[f"{key}{i}" for i in range(4)], key=key)
        desk.add(f"{key}-late", key=key, delay_ms=60_000)
    taken = [entry[0] for entry in desk.claim(5)]
    assert taken == ["free0", "held0", "delayed0", "limited0", "dead0"]
    desk.settle(
        ("free0", "release", 0), ("delayed0", "retry", 9000), ("limited0", "block_sequence", 9000)
    )
    desk.settle(("dead0", "bury", 0), hold=True)
    blocked = desk.zset("blocked")
    assert move(desk) == Moved(moved=5, left=18)
    assert order(desk, "4:free") == []
    assert order(desk, "1:b:free") == ["free0", "free1", "free2", "free3"]
    assert desk.zset("pending", "b").keys() == {"!free"}
    assert desk.zset("out", "a").keys() == {"held", "delayed", "limited", "dead"}
    assert [member[17:] for member in desk.zset("delayed", "b")] == ["free-late"]
    assert desk.zset("blocked") == blocked
    desk.clean()
    desk.exchange(0, done=[("held0", 1)])
    desk.clock.advance(10_000)
    desk.run(desk.store.replay(["dead0"]))
    assert desk.beat() is not None
    assert move(desk) == Moved(moved=19, left=0)
    assert not desk.zset("blocked")
    desk.clean()


def test_delayed_jobs_stay_with_a_sequence_that_is_out_though_nothing_waits(desk: Desk) -> None:
    desk.add("k1", key="k")
    desk.add("k-late", key="k", delay_ms=60_000)
    desk.claim(1)
    assert move(desk) == Moved(0, 1)
    desk.settle(("k1", "bury", 0), hold=True)
    assert move(desk) == Moved(0, 1), "its dead head stands between"
    desk.clean()
    desk.run(desk.store.discard(["k1"]))
    assert move(desk) == Moved(1, 0)
    desk.clean()


def test_a_sequence_that_is_held_in_the_other_lane_is_joined(desk: Desk) -> None:
    desk.add("a1", key="k")
    desk.add("b1", "b2", key="k", lane="b")
    desk.add("a2", key="k")
    desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    assert desk.claim(9) == [["b1"]]
    assert move(desk) == Moved(2, 0)
    assert desk.claim(9) == []
    assert order(desk, "1:b:k") == ["a1", "b2", "a2"]
    assert list(desk.zset("out", "b")) == ["k"]
    desk.clean()
    desk.exchange(0, done=[("b1", 1)])
    assert desk.claim(9, 9) == [["a1", "b2", "a2"]]
    desk.clean()


def test_a_sequence_of_up_to_500_jobs_goes_in_one_call(desk: Desk) -> None:
    desk.add(*[f"j{i}" for i in range(500)], key="k")
    desk.add("u1", "u2")
    assert list(pages(desk, 10)) == [500, 2]
    desk.clean()


def long_sequence(desk: Desk, n: int = 701, lane: str = "a", **options: Any) -> list[str]:
    """Jobs with some priorities, in their order."""
    dice = random.Random(7)
    specs = [
        JobSpec(task="t", id=f"j{i}", lane=lane, priority=dice.choice([0, 0, 5, -3]), **options)
        for i in range(n)
    ]
    desk.add_specs(specs)
    return [spec.id for spec in sorted(specs, key=lambda spec: -spec.priority)]


@pytest.mark.parametrize(("lanes", "key"), [(("a", "b"), "k"), (("!a", "!b"), "")])
def test_a_long_sequence_goes_head_first_and_runs_in_order_meanwhile(
    desk: Desk, lanes: tuple[str, str], key: str
) -> None:
    expected = long_sequence(desk, lane=lanes[0], ordering_key=key or None)
    name = f"{len(lanes[0])}:{lanes[0]}:{key}"
    claimed: list[str] = []
    moved = []
    for page in pages(desk, 50, *lanes):
        moved.append(page)
        dump = desk.clean()
        if sum(moved) < len(expected):
            assert desk.zset("blocked") == {f"s:{name}": float("inf")}
            why = dump.get("why")[f"s:{name}"]
            assert json.loads(why) == {"reason": f"moving to {lanes[1]}"}
        for entry in desk.claim(2, 7):
            assert desk.dump().deliveries("c")[entry[0]].lane == lanes[1]
            claimed += entry
            answers = desk.settle(*[(id, "complete", 0) for id in entry])
            assert answers == ["ok"] * len(entry)
    assert moved == [50] * 14 + [1]
    assert not desk.zset("blocked")
    assert not desk.hash("why")
    while entries := desk.claim(1, 100):
        claimed += entries[0]
        desk.exchange(0, done=[(id, desk._claims["c"]) for id in entries[0]])
    assert claimed == expected
    desk.clean()


def test_a_move_that_broke_off_is_finished_by_the_next(desk: Desk) -> None:
    expected = long_sequence(desk, ordering_key="k")
    desk.add("u1", "u2")
    steps = pages(desk, 100)
    assert next(steps) == 100
    assert sorted(desk.claim(9, 9)) == [expected[:9], ["u1"], ["u2"]]
    desk.exchange(0, done=[(id, desk._claims["c"]) for id in (*expected[:9], "u1", "u2")])
    desk.add("urgent", key="k", priority=900)
    desk.clean()
    assert move(desk, "a", "c") == Moved(moved=0, left=602), "it is on its way to another lane"
    assert desk.zset("blocked") == {"s:1:a:k": float("inf")}
    desk.clean()
    assert move(desk) == Moved(moved=602, left=0)
    assert order(desk, "1:b:k") == ["urgent", *expected[9:]]
    assert not desk.zset("blocked")
    assert not desk.hash("why")
    desk.clean()


def test_a_sequence_on_its_way_is_followed_whatever_overtakes_its_head(desk: Desk) -> None:
    """The head's place is no cursor: a job of higher priority comes in below it."""
    long_sequence(desk, ordering_key="k")
    for i, _ in enumerate(pages(desk, 100)):
        desk.clean()
        if i < 5:
            desk.add(f"urgent{i}", key="k", priority=900 + i)
    assert not desk.zset("blocked")
    assert not desk.zset("out", "a")
    assert len(order(desk, "1:b:k")) == 706


def test_damage_does_not_hold_up_a_long_sequence(desk: Desk) -> None:
    expected = long_sequence(desk, ordering_key="k")
    for id in expected[3::200]:
        write_header(desk, id, b"{")
    assert move(desk) == Moved(moved=697, left=4)
    assert not desk.zset("blocked")
    assert order(desk, "1:a:k") == expected[3::200]
    desk.clean()
    for id in expected[:697]:
        write_header(desk, id, b"{")
    assert move(desk, "b", "a") == Moved(moved=0, left=697), "a page of its head cannot be read"
    assert not desk.zset("blocked")
    desk.clean()


# ── room, and what is refused ───────────────────────────────────────────────────────────────


def test_the_other_lanes_backlog_limit_holds(desk: Desk) -> None:
    desk.run(desk.store.lane_set("b", backlog=6))
    desk.add("b1", lane="b")
    desk.add("b-late", lane="b", delay_ms=999)
    desk.add("a1", "a2")
    desk.add("k1", "k2", "k3", key="k")
    desk.add("l1", key="l")
    desk.add("a3", "a-last")
    desk.add("late", delay_ms=999)
    assert move(desk) == Moved(moved=4, left=5), "the sequence of three has no room, never a part"
    assert list(desk.zset("pending", "b")) == ["b1", "a1", "a2", "!l", "a3"]
    assert list(desk.zset("pending", "a")) == ["!k", "a-last"]
    desk.clean()
    assert move(desk) == Moved(moved=0, left=5)
    assert sorted(desk.claim(5)) == [["a-last"], ["a1"], ["a2"], ["b1"], ["k1"]]
    desk.settle(("k1", "release", 0), ("a-last", "release", 0))
    assert move(desk) == Moved(moved=3, left=2)
    assert list(desk.zset("pending", "a")) == ["a-last"]
    desk.clean()


def test_a_long_sequence_begins_only_where_it_has_room_and_then_goes_on(desk: Desk) -> None:
    long_sequence(desk, 600, ordering_key="k")
    desk.run(desk.store.lane_set("b", backlog=599))
    assert move(desk) == Moved(0, 600)
    assert not desk.zset("blocked")
    desk.run(desk.store.lane_set("b", backlog=600))
    steps = pages(desk, 200)
    next(steps)
    desk.add(*[f"b{i}" for i in range(300)], lane="b")
    assert sum(steps) == 400
    assert not desk.zset("blocked")
    desk.clean()


@pytest.mark.parametrize(
    ("source", "target"),
    [("a", "a"), ("!a", "!a"), ("a", "!b"), ("!a", "b"), ("a", "!"), ("a", "")],
)
def test_lanes_that_cannot_be_moved_to_are_refused(desk: Desk, source: str, target: str) -> None:
    desk.add("j1", lane=source)
    before = desk.dump()
    with pytest.raises(ConfigError):
        move(desk, source, target)
    assert desk.dump().get("stats") == before.get("stats")
    assert list(desk.zset("ring")) == [source]


def test_an_ordered_lane_moves_to_an_ordered_lane(desk: Desk) -> None:
    desk.add("a1", lane="!a")
    desk.add("b1", lane="!b")
    desk.add("a2", lane="!a")
    desk.add("late", lane="!a", delay_ms=5)
    assert move(desk, "!a", "!b") == Moved(3, 0)
    assert desk.claim(9, 9) == [["a1", "b1", "a2"]]
    desk.add("a3", lane="!a")
    desk.add("a-late", lane="!a", delay_ms=50)
    assert desk.claim(9) == [["a3"]]
    desk.add("a4", lane="!a")
    assert move(desk, "!a", "!b") == Moved(0, 2), "it is held, and stays with what is delayed"
    desk.clean()


@pytest.mark.parametrize("how", ["purge", "cancel", "jobs"])
def test_a_move_cut_short_leaves_no_block_on_a_sequence_that_is_emptied(
    desk: Desk, how: str
) -> None:
    ids = long_sequence(desk, ordering_key="k")
    going = pages(desk, 50)
    next(going)
    going.close()
    assert desk.zset("blocked")
    if how == "purge":
        desk.run(desk.store.purge("a"))
    elif how == "cancel":
        desk.run(desk.store.cancel_lane("a", by=None))
    else:
        there = desk.dump().get("s:1:a:k")
        left = [id for id in ids if id in there]
        assert len(left) > 1
        for id in left:
            assert desk.run(desk.store.cancel(id, by=None)) == "cancelled"
    assert not desk.zset("blocked")
    desk.add("new", key="k")
    assert ["new"] in desk.claim(100, 100)
    desk.clean()
