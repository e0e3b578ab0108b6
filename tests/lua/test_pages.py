"""job_info, lanes_named, lanes_page, timed_page, consumers_page, queue_info: reading, by pages."""

from __future__ import annotations

import math
import struct

import pytest

from rota.script import stubs
from rota.script.loader import packed_names
from rota.store.inspector import Inspector
from rota.values.jobspec import JobSpec
from rota.values.limits import Rate
from rota.values.model import ConsumerInfo, LaneInfo, Settlement
from tests.lua.conftest import LEASE, Desk


def test_where_a_job_stands(desk: Desk, look: Inspector) -> None:
    desk.add("waiting", "running", "retried", "dead", "done")
    desk.add("s1", "s2", key="k")
    desk.add("delayed", delay_ms=5_000)
    desk.claim(9, 1)
    desk.settle(
        ("waiting", "release", 0),
        ("retried", "retry", 9_000),
        ("dead", "bury", 0),
        ("done", "complete", 0),
        error='{"error":"x"}',
    )
    found = {}
    for id in ("waiting", "running", "retried", "dead", "done", "s1", "s2", "delayed", "none"):
        job = desk.run(look.job(id))
        found[id] = job and (job.state, job.attempts, job.due)
    now = desk.clock.now / 1000
    assert found == {
        "waiting": ("waiting", 0, None),
        "running": ("running", 0, None),
        "retried": ("delayed", 1, now + 9),
        "dead": ("dead", 1, now),
        "done": None,
        "s1": ("running", 0, None),
        "s2": ("waiting", 0, None),
        "delayed": ("delayed", 0, now + 5),
        "none": None,
    }
    job = desk.run(look.job("dead"))
    assert job is not None
    assert (job.error, job.ordering_key, job.payload) == ("x", None, b"{}")


@pytest.mark.parametrize(
    "text", ["", "damaged", "+0000000000000001,1700000000000,1700000000000\n{"]
)
def test_a_damaged_record_can_be_looked_at(desk: Desk, look: Inspector, text: str) -> None:
    desk.add("j")
    desk.claim()
    desk.raw.set(desk.key("job", "j"), text)
    job = desk.run(look.job("j"))
    assert job is not None
    assert (job.state, job.payload) == ("running", text.encode())


def test_a_lanes_oldest_wait_counts_what_may_not_be_claimed_too(
    desk: Desk, look: Inspector
) -> None:
    def wait(lane: str = "a") -> float | None:
        return desk.run(look.lane(lane)).oldest_wait

    assert wait() is None
    desk.add("d", delay_ms=1_000)
    assert wait() is None
    desk.add("s1", "s2", key="k")
    desk.clock.advance(1_000)
    desk.add("j")
    assert wait() == 1
    desk.claim(1, 1)
    assert wait() == 1, "s2 waits in the held sequence"
    desk.clock.advance(500)
    assert desk.run(look.lane("a")).running == 1
    assert wait() == 1.5
    desk.clean()


def test_a_wait_begins_when_a_job_is_first_available(desk: Desk, look: Inspector) -> None:
    """Neither a retry nor a release begins it anew; a delay is no wait."""
    desk.add("retried", "released", "j", lane="a")
    desk.add("delayed", lane="b", delay_ms=4_000)
    desk.claim(2)
    desk.clock.advance(1_000)
    desk.settle(("retried", "retry", 5_000), ("released", "release", 0))
    assert desk.run(look.lane("a")).oldest_wait == 1
    desk.clock.advance(3_500)
    desk.beat()
    assert desk.run(look.lane("b")).oldest_wait == 0, "its wait begins now, at 4.5 s"
    desk.claim(3)
    assert desk.run(look.lane("a")).oldest_wait is None, "the retried one is delayed"
    desk.clock.advance(2_000)
    desk.beat()
    info = desk.run(look.lane("a"))
    assert (info.waiting, info.oldest_wait, info.next_wait) == (1, 6.5, 6.5)
    desk.clean()


def test_the_wait_of_the_next_entry_apart_from_what_is_out(desk: Desk, look: Inspector) -> None:
    desk.add("s1", "s2", key="k")
    desk.claim()
    desk.clock.advance(2_000)
    assert desk.run(look.lane("a")).next_wait is None
    desk.add("j")
    desk.clock.advance(1_000)
    info = desk.run(look.lane("a"))
    assert (info.next_wait, info.oldest_wait) == (1, 3)


def listed(desk: Desk, limit: int = 50) -> dict[str, LaneInfo]:
    found: dict[str, LaneInfo] = {}
    place: list[bytes] = []
    while True:
        page = stubs.lanes_page(desk.keys, cursor=packed_names(place), limit=limit)
        place, rows, _ = desk.run(iter(page))
        found.update((row.name, row) for row in rows)
        if not place:
            return found


def test_a_row_tells_the_limits_that_hold(desk: Desk, look: Inspector) -> None:
    rate, own = Rate(3, per=60, burst=2), Rate(0.3)
    desk.run(desk.store.set_template("pro", ceiling=4, weight=2.5, rate=rate, backlog=7))
    desk.run(desk.store.queue_set(default_ceiling=9, default_weight=3))
    desk.run(desk.store.lane_set("of template", template="pro"))
    desk.run(desk.store.lane_set("of its own", template="pro", rate=own, ceiling=1, backlog=0))
    desk.run(desk.store.lane_set("only a rate", rate=own))
    desk.run(desk.store.lane_set("gone", template="pro"))
    desk.run(desk.store.lane_set("gone", template=None))
    found = listed(desk)
    limits = {
        lane: (row.ceiling, row.weight, row.rate, row.backlog, row.template)
        for lane, row in found.items()
    }
    assert limits == {
        "of template": (4, 2.5, rate, 7, "pro"),
        "of its own": (1, 2.5, own, 0, "pro"),
        "only a rate": (9, 3.0, own, None, None),
    }
    assert found == {lane: desk.run(look.lane(lane)) for lane in found}


def test_until_when_a_lane_is_out_of_rate(desk: Desk, look: Inspector) -> None:
    desk.run(desk.store.lane_set("a", rate=Rate(1, per=10)))
    desk.add("j1", "j2")
    assert desk.run(look.lane("a")).rated_until is None
    desk.claim(2)
    assert desk.run(look.lane("a")).rated_until == desk.clock.now / 1000 + 10
    desk.clock.advance(10_000)
    desk.beat()
    info = desk.run(look.lane("a"))
    assert (info.rated_until, info.state) == (None, "ready")


# ── figures ─────────────────────────────────────────────────────────────────────────────────────


def figures(desk: Desk, lane: str = "a") -> tuple[object, ...]:
    info = desk.run(Inspector(desk.keys).lane(lane))
    return info.served, info.wait_mean, info.charged


def test_figures_of_known_waits(desk: Desk) -> None:
    assert figures(desk) == (0, None, 0)
    desk.add("j1", "j2")
    desk.clock.advance(10_000)
    desk.add("j3")
    desk.clock.advance(5_000)
    desk.claim(3)
    assert figures(desk) == (3, pytest.approx((15 + 15 + 5) / 3), 3)
    assert figures(desk, "b") == (0, None, 0)
    desk.settle(("j1", "retry", 0))
    desk.clock.advance(5_000)
    desk.claim()
    assert figures(desk) == (4, pytest.approx((15 + 15 + 5 + 20) / 4), 4), "served again, counts"


def test_figures_are_of_two_minutes(desk: Desk) -> None:
    minute = desk.clock.now // 60_000 * 60_000
    desk.add(*[f"j{i}" for i in range(9)])
    desk.clock.set(minute + 59_999)
    desk.join("d")
    desk.claim(4, consumer="d")
    desk.clock.set(minute + 60_000)
    desk.claim(1, consumer="d")
    seen = {}
    for passed in (60_000, 119_999, 120_000, 179_999, 180_000):
        desk.clock.set(minute + passed)
        info = desk.run(Inspector(desk.keys).lane("a"))
        seen[passed] = (info.served, info.wait_mean is None, info.window)
    assert seen == {
        60_000: (5, False, 60.0),
        119_999: (5, False, 119.999),
        120_000: (1, False, 60.0),
        179_999: (1, False, 119.999),
        180_000: (0, True, 60.0),
    }
    desk.clean()


@pytest.mark.parametrize(
    "damage", [b"x", struct.pack("<3d", math.nan, 0, 0), struct.pack("<3d", 1, math.inf, 0)]
)
def test_damaged_figures_count_as_nothing_and_are_written_anew(desk: Desk, damage: bytes) -> None:
    desk.add("j1", "j2")
    desk.claim()
    key = desk.key("figures", f"{desk.clock.now // 60_000}")
    desk.raw.hset(key, mapping={"": damage, "a": damage})
    assert figures(desk) == (0, None, 0)
    desk.claim()
    assert figures(desk) == (1, 0, 1)
    desk.clean()


def test_a_claim_does_without_figures_whose_key_is_damaged(desk: Desk) -> None:
    desk.add("j1")
    key = desk.key("figures", f"{desk.clock.now // 60_000}")
    desk.raw.set(key, "x")
    assert desk.claim() == [["j1"]]
    desk.raw.delete(key)
    desk.clean()


def test_a_cost_in_a_minute_that_began_without(desk: Desk) -> None:
    """What was charged 1 each before the first cost of a minute counts too, of every lane."""
    desk.add("a1", "a2", "a3", lane="a")
    desk.claim(2)
    desk.add("b1", lane="b", cost=2.5)
    desk.add("b2", lane="b", cost=0.001)
    assert len(desk.claim(3)) == 3
    assert figures(desk, "a") == (3, 0, 3)
    assert figures(desk, "b") == (2, 0, pytest.approx(2.501))
    minute = desk.clean().get(f"figures:{desk.clock.now // 60_000}")
    assert minute[""]["charged"] == pytest.approx(0.501)


@pytest.mark.parametrize("by", ["settle", "exchange"])
def test_a_job_charged_by_time_counts_for_what_it_took(desk: Desk, by: str) -> None:
    desk.add("j1", "j2", charge="time")
    desk.claim(2)
    assert figures(desk)[2] == 2
    held = desk.dump().deliveries("c")
    ran = {"j1": 7.5, "j2": 0.25}
    if by == "settle":
        done = [Settlement(id, held[id].number, "complete", ran=ran[id]) for id in ran]
        desk.run(desk.store.settle("c", done))
    else:
        desk.run(
            desk.store.exchange(
                "c",
                number=9,
                want=0,
                prefetch=1,
                park=False,
                done=[(id, held[id].number) for id in ran],
                ran=list(ran.values()),
            )
        )
    assert figures(desk)[2] == pytest.approx(7.75)
    desk.clean()


@pytest.mark.parametrize(
    ("do", "state"),
    [
        ("nothing", "idle"),
        ("add", "ready"),
        ("pause", "paused"),
        ("block", "blocked"),
        ("stop", "stopped"),
        ("claim", "at ceiling"),
        ("hold", "held"),
        ("spend", "out of rate"),
    ],
)
def test_the_state_of_a_lane_in_one_word(desk: Desk, look: Inspector, do: str, state: str) -> None:
    if do != "nothing":
        desk.add("j1", "j2", key="k" if do == "hold" else None)
    if do == "pause":
        desk.run(desk.store.pause("a", reason=None, by=None, until=None))
    if do == "block":
        desk.run(desk.store.block("a", 5, reason=None, by=None))
    if do in ("stop", "claim"):
        desk.run(desk.store.lane_set("a", ceiling=0 if do == "stop" else 1))
    if do == "spend":
        desk.run(desk.store.lane_set("a", rate=Rate(1)))
    if do in ("claim", "hold", "spend"):
        desk.claim(9)
    assert desk.run(look.lane("a")).state == state


@pytest.mark.legs("valkey", "redis7")
def test_every_lane_is_listed_once(desk: Desk, look: Inspector) -> None:
    busy = [f"busy{i:03}" for i in range(700)]
    desk.add_specs([JobSpec(task="t", id=lane, lane=lane) for lane in busy])
    desk.claim(5)
    desk.run(desk.store.set_template("pro", weight=2))
    desk.run(desk.store.lane_set("rated", rate=Rate(5)))
    desk.run(desk.store.lane_set("like others", template="pro"))
    desk.run(desk.store.lane_set(busy[0], rate=Rate(5), template="pro"))
    for i, lane in enumerate([*busy[:8], "idle1", "idle2"]):
        if i % 2:
            desk.run(desk.store.lane_set(lane, ceiling=i, weight=2, backlog=9))
        else:
            desk.run(desk.store.pause(lane, reason=None, by=None, until=None))
    found = []
    place: list[bytes] = []
    while True:
        page = stubs.lanes_page(desk.keys, cursor=packed_names(place), limit=50)
        place, rows, _ = desk.run(iter(page))
        found += [row.name for row in rows]
        if not place:
            break
    assert sorted(found) == sorted([*busy, "idle1", "idle2", "like others", "rated"])


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_the_dead_are_listed_oldest_first_whatever_goes_meanwhile(desk: Desk, limit: int) -> None:
    """Pages go on behind the last one seen, gone or not; ties go by the bytes of ids."""
    ids = [*"ABaZz", "é", "a1", "a0"]
    for i, id in enumerate(ids):
        desk.add(id)
        desk.claim()
        desk.settle((id, "bury", 0))
        if i == 4:
            desk.clock.advance(1)
    expected = [*sorted(ids[:5], key=str.encode), *sorted(ids[5:], key=str.encode)]
    found = []
    cursor: str | None = None
    while True:
        page = desk.run(desk.look.jobs("dead", lane=None, task=None, cursor=cursor, limit=limit))
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
        desk.run(desk.store.discard([page.jobs[-1].id]))
    assert found == expected


def test_consumers_are_listed_with_what_they_hold(desk: Desk) -> None:
    desk.add("j1", "j2")
    desk.claim(2)
    desk.join("idle")
    cursor, rows = desk.run(iter(stubs.consumers_page(desk.keys, cursor="0", limit=100)))
    assert cursor == "0"
    assert sorted(rows, key=lambda row: row.id) == [
        ConsumerInfo("c", "host:c", LEASE / 1000, 2),
        ConsumerInfo("idle", "host:idle", LEASE / 1000, 0),
    ]


def test_the_queue_in_numbers(desk: Desk, look: Inspector) -> None:
    desk.add("j1", "j2", "j3")
    desk.add("late", delay_ms=5)
    desk.run(desk.store.pause("p", reason=None, by=None, until=None))
    desk.claim(2)
    desk.settle(("j1", "bury", 0), ("j2", "complete", 0))
    desk.run(desk.store.shut_gate(reason=None, by=None))
    info = desk.run(look.queue())
    assert (info.waiting, info.running, info.delayed, info.dead) == (1, 0, 1, 1)
    assert (info.lanes_waiting, info.lanes_ready, info.lanes_paused) == (1, 1, 1)
    assert (info.consumers, info.default_ceiling, info.paused) == (1, None, True)
    assert info.totals == {"enqueued": 4, "completed": 1, "buried": 1}
