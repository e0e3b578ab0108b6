"""job_info, lane_info, lanes_page, dead_page, consumers_page, queue_info: reading, by pages."""

from __future__ import annotations

import pytest

from rota import scripts
from rota.dead import START
from rota.inspector import Inspector
from rota.model import JobSpec
from tests.lua.conftest import LEASE, Desk

pytestmark = pytest.mark.legs("valkey", "redis7")  # the cluster is the model test's


@pytest.fixture
def look(desk: Desk) -> Inspector:
    return Inspector(desk.keys)


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
    if do in ("claim", "hold"):
        desk.claim(9)
    assert desk.run(look.lane("a")).state == state


@pytest.mark.legs("valkey", "redis7")
def test_every_lane_is_listed_once(desk: Desk, look: Inspector) -> None:
    busy = [f"busy{i:03}" for i in range(700)]
    desk.add_specs([JobSpec(task="t", id=lane, lane=lane) for lane in busy])
    desk.claim(5)
    for i, lane in enumerate([*busy[:8], "idle1", "idle2"]):
        if i % 2:
            desk.run(desk.store.lane_set(lane, ceiling=i, weight=2, backlog=9))
        else:
            desk.run(desk.store.pause(lane, reason=None, by=None, until=None))
    found = []
    cursor = ""
    while True:
        cursor, rows = desk.run(iter(scripts.lanes_page(desk.keys, cursor=cursor, limit=50)))
        found += [row.name for row in rows]
        if not cursor:
            break
    assert sorted(found) == [*busy, "idle1", "idle2"]


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
    cursor = START
    while True:
        cursor, jobs = desk.run(desk.dead.page(cursor, lane=None, task=None, limit=limit))
        found += [job.id for job in jobs]
        if cursor == START:
            break
        desk.run(desk.dead.discard([cursor[1]]))
    assert found == expected


def test_consumers_are_listed_with_what_they_hold(desk: Desk) -> None:
    desk.add("j1", "j2")
    desk.claim(2)
    desk.join("idle")
    now, cursor, rows = desk.run(iter(scripts.consumers_page(desk.keys, cursor="0", limit=100)))
    assert (now, cursor) == (desk.clock.now, b"0")
    assert sorted(rows) == [
        [b"c", now + LEASE, b"host:c", 2],
        [b"idle", now + LEASE, b"host:idle", 0],
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
