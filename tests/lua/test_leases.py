"""join, heartbeat, leave, reconcile_consumer, and the reaping of beat.lua."""

from __future__ import annotations

import json

import pytest

from rota.script import stubs
from tests.lua.conftest import LEASE, Desk


def test_join_is_as_good_twice_as_once(desk: Desk) -> None:
    desk.join("new")
    desk.join("new")
    assert desk.zset("consumers")["new"] == desk.clock.now + LEASE
    assert desk.hash("consumer", "new") == {
        "!claim": "0",
        "!lease": str(LEASE),
        "!name": f"{'host:new':<65}",
    }
    desk.clean()


def test_heartbeat_renews_what_exists_and_brings_nothing_back(desk: Desk) -> None:
    desk.add("j")
    desk.claim()
    desk.join("other")
    desk.clock.advance(LEASE + 5)
    assert desk.run(desk.store.heartbeat(["c", "nobody", "other"], lease_ms=LEASE)) == [
        (1, 1),
        None,
        (0, 0),
    ]
    desk.clock.advance(LEASE - 1)
    assert desk.claim(0) == []
    desk.lapse()
    assert desk.run(desk.store.heartbeat(["c", "other"], lease_ms=LEASE)) == [None, None]
    assert "consumers" not in desk.clean().types


@pytest.mark.parametrize("key", [None, "k"])
def test_a_reap_goes_by_pages_and_ends_with_the_consumer(desk: Desk, key: str | None) -> None:
    """From its first page on the consumer is dead, whatever it still holds."""
    desk.add(*[f"j{i}" for i in range(5)], key=key)
    desk.claim(5, 5)
    desk.beat()
    desk.clock.advance(LEASE // 2)
    desk.beat()
    desk.clock.advance(LEASE // 2)
    pages = []
    while True:
        more, _, reaped, _ = desk.run(iter(stubs.beat(desk.keys, limit=2, watched_ms=0)))
        pages.append(reaped)
        if not more:
            break
        assert desk.exchange(1, done=[("j4", 1)]).answers == ["lost"]
        assert desk.run(desk.store.heartbeat(["c"], lease_ms=LEASE)) == [None]
        assert desk.run(desk.store.deliveries_of("c", number=9)) is None
        desk.clean()
    assert sum(pages) == 5
    assert pages[0] == (5 if key else 2), "a sequence goes back as a whole"
    dump = desk.clean()
    assert "consumers" not in dump.types
    assert dump.counts("stats")["reaped"] == 5
    assert dump.counts("deaths") == ({"j0": 1} if key else {f"j{i}": 1 for i in range(5)})


@pytest.mark.legs("valkey", "redis7")
def test_thousands_of_leases_and_jobs_lapse_at_once(desk: Desk) -> None:
    for start in range(0, 8000, 1000):
        desk.add(*[f"j{i:04}" for i in range(start, start + 1000)], key=None)
    for _ in range(8):
        desk.claim(1000)
    others = [f"consumer{i}" for i in range(45)]
    desk.join(*others)
    desk.beat()
    desk.lapse()
    dump = desk.clean()
    assert dump.counts("gwaiting") == {"a": 8000}
    assert dump.types.keys() & {"consumers", "gactive"} == set()


@pytest.mark.parametrize(
    ("deaths", "hold", "waits"),
    [(0, True, ["s1", "s2"]), (1, False, ["s1", "s2"]), (2, False, ["s2"]), (2, True, [])],
)
def test_the_third_death_buries(desk: Desk, deaths: int, hold: bool, waits: list[str]) -> None:
    desk.add("s1", "s2", key="k", on_dead="hold" if hold else "skip")
    if deaths:
        desk.raw.hset(desk.key("deaths"), "s1", deaths)
    desk.claim(1, 2)
    if deaths:
        assert desk.run(desk.store.start("c", "s1", "1")) == "ok"
    desk.beat()
    desk.lapse()
    desk.join("other")
    taken = desk.claim(1, 2, consumer="other")
    assert [id for entry in taken for id in entry] == waits
    assert desk.hash("deaths") == {"s1": str(deaths + 1)}
    if deaths == 2:
        error = json.loads(desk.hash("errors")["s1"])
        assert (error["error"], error["worker"]) == ("worker lost", "host:c")
        assert desk.hash("attempts") == {}
    desk.clean()


def test_what_cannot_have_started_dies_no_death(desk: Desk) -> None:
    """Not started: all but a sequence's first, and jobs with a death behind them."""
    desk.add("s1", "s2", "s3", key="k")
    desk.add("j1", "j2")
    desk.raw.hset(desk.key("deaths"), mapping={"j1": 1, "s3": 1})
    desk.claim(3, 3)
    desk.exchange(0, done=[("s1", 1)])
    desk.beat()
    desk.lapse()
    assert desk.hash("deaths") == {"j1": "1", "s3": "1", "s2": "1", "j2": "1"}
    desk.clean()


@pytest.mark.parametrize("beats", [True, False])
@pytest.mark.parametrize(
    ("gap", "watched", "counted"),
    [
        (LEASE // 2, LEASE // 2, True),
        (LEASE // 2 + 1, LEASE // 2 + 1, False),
        (LEASE // 2 + 1, LEASE // 2, True),  # a newcomer: all workers may have died
        (LEASE // 2 + 1, 0, True),
        (LEASE, 10 * LEASE, False),
    ],
)
def test_a_server_that_was_away_blames_nobody(
    desk: Desk, gap: int, watched: int, counted: bool, beats: bool
) -> None:
    """`watched`: whoever was there for so long would have beaten meanwhile. So it is before the
    first beat of a queue, and of a worker."""
    desk.add("j")
    desk.claim()
    desk.clock.advance(LEASE - gap)
    if beats:
        desk.beat()
    desk.clock.advance(gap)
    desk.beat(watched)
    assert (desk.hash("deaths") == {"j": "1"}) is counted
    assert desk.zset("pending", "a") == {"j": 1}
    desk.clean()


def test_an_outage_blames_none_of_many_workers(desk: Desk) -> None:
    """More than one page of a beat judges, and takes back."""
    names = [f"w{i}" for i in range(250)]
    desk.join(*names)
    desk.beat()
    for name in names:
        desk.add(name)
        desk.claim(consumer=name, number=1)
    desk.clock.advance(2 * LEASE)
    desk.beat(watched_ms=10 * LEASE)
    assert desk.hash("deaths") == {}
    assert len(desk.clean().get("g:a:pending")) == 250


def test_leaving_gives_everything_back_uncounted(desk: Desk) -> None:
    desk.add("s1", "s2", key="k")
    desk.add("j1", "j2", "j3")
    desk.claim(3, 2)
    desk.silence()
    assert desk.run(desk.store.leave("c")) == 4
    assert desk.bell() == 1
    dump = desk.clean()
    assert not {"consumers", "c:c", "deaths", "attempts"} & dump.types.keys()
    assert dump.counts("stats")["released"] == 4
    assert desk.run(desk.store.leave("c")) == 0
    assert desk.run(desk.store.leave("nobody")) == 0
    assert "c:nobody" not in desk.clean().types


def test_leaving_goes_by_pages(desk: Desk) -> None:
    desk.add(*[f"j{i}" for i in range(7)])
    desk.claim(7)
    backs = []
    more = 1
    while more:
        more, back, _ = desk.run(iter(stubs.leave(desk.keys, consumer="c", died=False, limit=3)))
        backs.append(back)
        assert desk.exchange(1).status == "lost"
        desk.clean()
    assert backs == [3, 3, 1]


@pytest.mark.parametrize("deaths", [0, 2])
def test_of_a_consumer_that_has_died_deaths_are_counted_as_in_a_reap(
    desk: Desk, deaths: int
) -> None:
    """At once, whether or not anybody has beaten lately: its end was seen."""
    desk.add("s1", "s2", key="k")
    desk.add("j1", "j2")
    for id in ("s1", "j1") if deaths else ():
        desk.raw.hset(desk.key("deaths"), id, deaths)
    desk.claim(3, 2)
    if deaths:
        assert desk.run(desk.store.start("c", "s1", "1")) == "ok"
    desk.silence()
    desk.clock.advance(LEASE // 2)
    assert desk.run(desk.store.leave("c", died=True)) == (3 if deaths else 4)
    assert desk.bell() == 1
    dump = desk.clean()
    assert not {"consumers", "c:c"} & dump.types.keys()
    assert desk.hash("deaths") == (
        {"s1": "3", "j1": "2", "j2": "1"} if deaths else {"s1": "1", "j1": "1", "j2": "1"}
    )
    assert desk.zset("dead").keys() == ({"s1"} if deaths else set())
    assert (dump.counts("stats")["reaped"], dump.counts("stats").get("released", 0)) == (4, 0)
    assert desk.run(desk.store.leave("c", died=True)) == 0  # as good twice as once


def test_a_consumer_that_was_spared_stays_so_when_it_dies(desk: Desk) -> None:
    """Its reaping is under way, as the server was away; then its process is seen to end."""
    desk.add(*[f"j{i}" for i in range(5)])
    desk.claim(5)
    desk.beat()
    desk.clock.advance(LEASE + 1)
    more, *_ = desk.run(iter(stubs.beat(desk.keys, limit=2, watched_ms=2 * LEASE)))
    assert more
    assert desk.run(desk.store.leave("c", died=True)) == 3
    assert desk.hash("deaths") == {}
    desk.clean()


def test_what_a_consumer_holds_is_listed_whole(desk: Desk) -> None:
    ids = [f"j{i:04}" for i in range(1900)]
    for start in (0, 1000):
        desk.add(*ids[start : start + 1000])
    desk.claim(1000, number=1)
    desk.claim(900, number=2)
    found = desk.run(desk.store.deliveries_of("c", number=3))
    assert found == {id: "1" if i < 1000 else "2" for i, id in enumerate(ids)}


def test_who_keeps_no_leases_leaves_the_dead_consumers_to_others(desk: Desk) -> None:
    """A change of the queue after a silence carries itself out by beats, and blames nobody."""
    desk.add("j")
    desk.claim()
    desk.beat()
    desk.clock.advance(2 * LEASE)
    desk.run(desk.store.queue_set(default_ceiling=3))
    assert desk.zset("consumers") != {}
    desk.beat(watched_ms=10 * LEASE)
    assert desk.hash("deaths") == {}
    assert desk.zset("pending", "a") == {"j": 1}
    desk.clean()
