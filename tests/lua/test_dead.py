"""replay, discard, purge, and how long the dead are kept."""

from __future__ import annotations

import pytest

from rota.script import stubs
from tests.lua.conftest import Desk

SEQUENCE = "1:a:k"


def bury(desk: Desk, *ids: str, hold: bool = False) -> None:
    """Claims and buries jobs one by one."""
    for id in ids:
        assert desk.claim() == [[id]]
        assert desk.settle((id, "bury", 0), hold=hold) == ["ok"]


def test_a_replayed_job_has_its_place_and_a_clean_slate(desk: Desk) -> None:
    desk.add("j1", "j2", "j3")
    bury(desk, "j1", "j2")
    desk.raw.hset(desk.key("deaths"), "j1", 3)
    assert desk.run(desk.store.replay(["j1", "j1", "j3", "none"])) == ["ok", "none", "none", "none"]
    answer = desk.exchange(3)
    assert [(job.id, job.attempts, job.suspect) for (job,) in answer.entries] == [
        ("j1", 0, False),
        ("j3", 0, False),
    ]
    desk.clean()


@pytest.mark.parametrize("act", ["replay", "discard"])
@pytest.mark.parametrize("hold", [True, False])
def test_a_held_sequence_goes_on_when_somebody_acts(desk: Desk, act: str, hold: bool) -> None:
    desk.add("s1", "s2", key="k")
    bury(desk, "s1", hold=hold)
    if hold:
        assert desk.claim() == []
    desk.silence()
    assert desk.run(getattr(desk.store, act)(["s1"])) == ["ok"]
    assert desk.bell() == (hold or act == "replay")
    assert desk.claim(1, 9) == [["s1", "s2"] if act == "replay" else ["s2"]]
    assert not {"blocked", "why", "dead", "errors"} & desk.clean().types.keys()


def test_a_job_replayed_while_its_sequence_is_held_waits(desk: Desk) -> None:
    desk.add("s1", "s2", "s3", lane="!o")
    bury(desk, "s1")
    assert desk.claim() == [["s2"]]
    desk.run(desk.store.replay(["s1"]))
    assert desk.claim() == []
    desk.clean()
    desk.settle(("s2", "retry", 0))
    assert desk.claim(1, 9) == [["s1", "s2", "s3"]]


def test_replay_refuses_what_it_cannot_place(desk: Desk) -> None:
    desk.add("j1", "j2")
    bury(desk, "j1", "j2")
    desk.raw.set(desk.key("job", "j1"), "damaged")
    desk.raw.delete(desk.key("job", "j2"))
    assert desk.run(desk.store.replay(["j1", "j2"])) == ["unreadable", "unreadable"]
    assert desk.run(desk.store.discard(["j1", "j2"])) == ["ok", "ok"]
    assert not {"dead", "errors", "attempts"} & desk.clean().types.keys()


def test_a_replay_frees_no_block_but_its_own(desk: Desk) -> None:
    desk.add("s1", "s2", key="k")
    bury(desk, "s1")
    desk.claim()
    desk.settle(("s2", "retry", 5))
    desk.run(desk.store.replay(["s1"]))
    assert desk.claim() == []
    desk.clock.advance(5)
    assert desk.claim(1, 9) == [["s1", "s2"]]
    desk.clean()


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_purge_takes_what_waits_and_leaves_what_runs(desk: Desk, limit: int) -> None:
    desk.add("s1", "s2", "s3", key="held")
    desk.add("t1", "t2", key="blocked")
    desk.add("u1", "u2", key="free")
    desk.add("j1", "j2", priority=-1)
    desk.add("d1", "d2", delay_ms=9)
    desk.add("other", lane="b")
    desk.claim(1)
    assert desk.claim(1) == [["other"]]
    assert desk.claim(1) == [["t1"]]
    desk.settle(("t1", "retry", 5))
    calls, total, more = 0, 0, 1
    while more:
        more, purged = desk.run(iter(stubs.purge(desk.keys, lane="a", limit=limit, total="purged")))
        calls, total = calls + 1, total + purged
        desk.clean()
    assert total == 10
    assert calls >= 10 / limit
    dump = desk.clean()
    assert {id for id, _ in dump.each("job:")} == {"s1", "other"}
    assert not {"blocked", "why", "scheduled", "gwaiting", "attempts"} & dump.types.keys()
    desk.exchange(0, done=[("s1", 1)])
    assert desk.claim() == []


def test_the_dead_are_kept_up_to_a_number_and_an_age(desk: Desk) -> None:
    desk.run(desk.store.queue_set(default_ceiling=None))
    desk.raw.hset(desk.keys.config, mapping={"dead_max": 4, "dead_age": 1_000})
    desk.add("hold", "after", key="k")
    bury(desk, "hold", hold=True)
    desk.add(*[f"j{i}" for i in range(6)])
    bury(desk, *[f"j{i}" for i in range(6)])
    more, *_ = desk.run(iter(stubs.beat(desk.keys, limit=2, watched_ms=0)))
    assert more
    desk.beat()
    assert desk.zset("dead").keys() == {"hold", "j2", "j3", "j4", "j5"}, "holds are extra"
    desk.clock.advance(1_000)
    desk.beat()
    assert desk.zset("dead").keys() == {"hold"}, "what holds its sequence waits for somebody"
    desk.beat()
    dump = desk.clean()
    assert {id for id, _ in dump.each("job:")} == {"hold", "after"}
    desk.run(desk.store.replay(["hold"]))
    desk.beat()
    assert "dead_at" not in desk.clean().get("config")
