"""settle.lua and start.lua: each ending, its place, and what it takes along."""

from __future__ import annotations

import pytest

from rota.values.model import UNPACED, Action, Settlement
from tests.lua.conftest import Desk

SEQUENCE = "1:a:k"


def held(desk: Desk) -> list[str]:
    return sorted(desk.dump().deliveries("c"))


@pytest.mark.parametrize(
    ("action", "delay", "attempts", "place"),
    [
        ("retry", 0, "1", "pending"),
        ("retry", 9, "1", "scheduled"),
        ("release", 0, None, "pending"),
        ("release", 9, None, "scheduled"),
        ("bury", 0, "1", "dead"),
        ("complete", 0, None, None),
        ("block_sequence", 0, None, "pending"),
        ("block_sequence", 9, None, "scheduled"),
        ("block_lane", 9, None, "pending"),
    ],
)
def test_an_unordered_job_goes_where_its_ending_says(
    desk: Desk, action: Action, delay: int, attempts: str | None, place: str | None
) -> None:
    desk.add("j", priority=3)
    desk.claim()
    assert desk.settle(("j", action, delay), error='{"error":"x"}') == ["ok"]
    dump = desk.clean()
    assert desk.hash("attempts").get("j") == attempts
    assert bool(dump.get("g:a:pending")) is (place == "pending")
    assert bool(dump.get("scheduled")) is (place == "scheduled")
    assert bool(dump.get("dead")) is (place == "dead")
    assert bool(dump.get("job:j")) is (place is not None)
    assert bool(dump.get("ring")) is (place == "pending" and action != "block_lane")


def test_success_clears_the_counts_of_failures(desk: Desk) -> None:
    desk.add("j")
    for _ in range(2):
        desk.claim()
        desk.settle(("j", "retry", 0), error='{"error":"x"}')
    for kind in ("deaths", "cancels", "releases"):
        desk.raw.hset(desk.key(kind), "j", "1")
    assert [job.attempts for (job,) in desk.exchange().entries] == [2]
    assert desk.settle(("j", "complete", 0)) == ["ok"]
    dump = desk.clean()
    assert not {"attempts", "deaths", "errors", "cancels", "releases"} & dump.types.keys()


PAUSES = [0, 0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]


def release(desk: Desk) -> tuple[int, str]:
    """Claims the job and releases it without a delay: for how long it stays away, what is said."""
    assert desk.claim() == [["j"]]
    (answer,) = desk.settle(("j", "release", UNPACED))
    away = [until for kind in ("scheduled", "blocked") for until in desk.zset(kind).values()]
    desk.clean()
    return (round(away[0]) - desk.clock.now if away else 0), answer


@pytest.mark.parametrize("key", [None, "k"])
def test_releases_without_a_delay_space_themselves_out(desk: Desk, key: str | None) -> None:
    """Of a sequence as a whole, of which nothing overtakes its head."""
    desk.add(*["j", "behind"][: 2 if key else 1], key=key)
    for n, pause in enumerate(PAUSES):
        assert release(desk) == (pause, "slowed" if n == 2 else "ok")
        if pause:
            desk.run(desk.store.heartbeat(["c"], lease_ms=2 * max(PAUSES)))
            desk.clock.advance(pause - 1)
            desk.beat()
            assert desk.claim() == []
            desk.clock.advance(1)
            desk.beat()
    assert desk.hash("releases") == {"j": str(len(PAUSES))}
    assert not desk.hash("attempts")


@pytest.mark.parametrize("ending", ["retry", "bury", "complete"])
def test_another_ending_ends_the_row(desk: Desk, ending: Action) -> None:
    desk.add("j")
    for _ in range(2):
        assert release(desk) == (0, "ok")
    desk.claim()
    desk.settle(("j", ending, 0), error='{"error":"x"}')
    if ending == "bury":
        assert desk.run(desk.store.replay(["j"])) == ["ok"]
    elif ending == "complete":
        desk.add("j")
    assert not desk.hash("releases")
    assert [release(desk) for _ in range(3)] == [(0, "ok"), (0, "ok"), (1000, "slowed")]


@pytest.mark.parametrize("delay", [0, 5])
def test_a_delay_that_is_named_is_kept_and_does_not_count(desk: Desk, delay: int) -> None:
    """0 is what consumers by hand and stopping workers say."""
    desk.add("j")
    for _ in range(2):
        assert release(desk) == (0, "ok")
    for _ in range(5):
        desk.claim()
        assert desk.settle(("j", "release", delay)) == ["ok"]
        assert list(desk.zset("scheduled").values()) == [desk.clock.now + delay] * bool(delay)
        desk.clock.advance(delay)
        desk.beat()
    assert desk.hash("releases") == {"j": "2"}
    assert release(desk) == (1000, "slowed")


def test_a_job_asked_to_be_cancelled_does_not_stay_away(desk: Desk) -> None:
    desk.add("j")
    for _ in range(2):
        release(desk)
    desk.claim()
    desk.run(desk.store.cancel("j", by=None))
    assert desk.settle(("j", "release", UNPACED)) == ["ok"]
    assert not desk.clean().get("job:j")
    assert not desk.hash("releases")


@pytest.mark.parametrize("action", ["retry", "release", "bury", "complete"])
@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_ending_inside_a_sequence(desk: Desk, action: Action, hold: bool, which: int) -> None:
    """What was taken behind the job goes back with it, but not past a success or a skip."""
    ids = ["s0", "s1", "s2"]
    desk.add(*ids, "s3", key="k")
    desk.claim(1, 3)
    assert desk.settle((ids[which], action, 0), hold=hold) == ["ok"]
    takes_along = action in ("retry", "release") or (action == "bury" and hold)
    still = ids[:which] + ([] if takes_along else ids[which + 1 :])
    assert held(desk) == still
    dump = desk.clean()
    assert dump.holdings() == ({SEQUENCE: ("c", still)} if still else {})
    back = [ids[which]] if action in ("retry", "release") else []
    back += ids[which + 1 :] if takes_along else []
    assert [*dump.get(f"s:{SEQUENCE}")] == [*back, "s3"]
    free = not still and not (action == "bury" and hold)
    assert ("!k" in dump.get("g:a:pending")) is free
    assert ("k" in dump.get("g:a:out")) is not free


def test_later_rows_find_what_an_earlier_row_released(desk: Desk) -> None:
    desk.add("s1", "s2", "s3", key="k")
    desk.claim(1, 3)
    rows: list[tuple[str, Action, int]] = [
        ("s1", "complete", 0),
        ("s2", "retry", 0),
        ("s3", "complete", 0),
        ("s2", "complete", 0),
    ]
    assert desk.settle(*rows) == ["ok", "ok", "settled", "settled"]
    assert [*desk.zset("sequence", SEQUENCE)] == ["s2", "s3"]
    desk.clean()


def test_a_delayed_retry_of_the_head_holds_its_place(desk: Desk) -> None:
    desk.add("s1", "s2", key="k")
    desk.claim(1, 1)
    desk.silence()
    desk.settle(("s1", "retry", 5))
    assert desk.bell() == 1, "something falls due"
    desk.add("urgent", key="k", priority=9)
    assert desk.claim() == []
    assert desk.hash("why") == {f"h:{SEQUENCE}": "s1"}
    desk.clock.advance(5)
    assert desk.claim(1, 9) == [["urgent", "s1", "s2"]]
    assert desk.hash("why") == {}
    desk.clean()


@pytest.mark.parametrize("together", [True, False])
def test_a_dead_jobs_hold_outlasts_the_delay_of_an_earlier_one(desk: Desk, together: bool) -> None:
    desk.add("s1", "s2", "s3", key="k")
    desk.claim(1, 2)
    hold, delay = Settlement("s2", "1", "bury", hold=True), Settlement("s1", "1", "retry", 5)
    for rows in [[hold, delay]] if together else [[hold], [delay]]:
        assert desk.run(desk.store.settle("c", rows)) == ["ok"] * len(rows)
    desk.clock.advance(10)
    assert desk.claim() == []
    assert desk.zset("blocked") == {f"h:{SEQUENCE}": float("inf")}
    assert desk.run(desk.store.discard(["s2"])) == ["ok"]
    assert desk.claim(1, 9) == [["s1", "s3"]]
    desk.clean()


@pytest.mark.parametrize(
    ("lane", "key", "action", "member"),
    [
        ("a", None, "block_lane", "l:a"),
        ("a", None, "block_sequence", None),
        ("a", "k", "block_lane", "l:a"),
        ("a", "k", "block_sequence", "s:1:a:k"),
        ("!o", None, "block_sequence", "l:!o"),
        ("!o", None, "block_lane", "l:!o"),
    ],
)
def test_a_rate_limit_blocks_lane_or_sequence_and_uses_no_attempt(
    desk: Desk, lane: str, key: str | None, action: Action, member: str | None
) -> None:
    desk.add("j1", lane=lane, key=key)
    desk.add("j2", lane="b", key="z")
    start = desk.clock.now
    desk.claim(9)
    assert desk.settle(("j1", action, 100)) == ["ok"]
    assert desk.zset("blocked") == ({member: start + 100} if member else {})
    assert desk.hash("attempts") == {}
    desk.clean()
    assert desk.claim() == [], "a job that has no sequence to block waits alone"
    desk.clock.advance(100)
    assert desk.claim() == [["j1"]]
    desk.clean()


def test_a_shorter_block_does_not_shorten_a_longer_one(desk: Desk) -> None:
    desk.add("s1", "s2", key="k")
    desk.add("j")
    desk.claim(2, 1)
    desk.run(desk.store.block("a", 1, reason=None, by=None))
    desk.raw.zadd(desk.key("blocked"), {f"s:{SEQUENCE}": desk.clock.now + 700})
    desk.raw.hset(desk.key("why"), f"s:{SEQUENCE}", "{}")
    assert desk.settle(("s1", "block_sequence", 100), ("j", "block_lane", 100)) == ["ok", "ok"]
    assert desk.zset("blocked") == {
        f"s:{SEQUENCE}": desk.clock.now + 700,
        "l:a": desk.clock.now + 1000,
    }
    desk.clean()


def test_a_delivery_can_be_settled_once(desk: Desk) -> None:
    desk.add("j")
    desk.claim()
    old = Settlement("j", "1", "complete")
    desk.settle(("j", "release", 0))
    desk.claim()
    assert desk.run(desk.store.settle("c", [old])) == ["settled"]
    assert desk.run(desk.store.settle("nobody", [old])) == ["lost"]
    desk.join("other")
    assert desk.run(desk.store.settle("other", [Settlement("j", "2", "bury")])) == ["settled"]
    assert held(desk) == ["j"]


def test_thousands_settled_in_one_call_of_the_store(desk: Desk) -> None:
    ids = [f"j{i:04}" for i in range(1200)]
    for start in (0, 600):
        desk.add(*ids[start : start + 600])
    desk.claim(1000)
    desk.claim(200)
    actions: list[Action] = ["retry", "release", "bury", "complete"]
    rows = [(id, actions[i % 4], 0) for i, id in enumerate(ids)]
    assert desk.settle(*rows) == ["ok"] * 1200
    assert len(desk.clean().get("dead")) == 300


def test_a_permit_of_a_full_lane_wakes_somebody(desk: Desk) -> None:
    desk.run(desk.store.lane_set("a", ceiling=1))
    desk.add("j1", "j2")
    desk.claim()
    desk.silence()
    desk.settle(("j1", "complete", 0))
    assert (desk.bell(), desk.zset("ring")) == (1, {"a": 2})


def test_an_unstarted_job_is_started_once_the_server_has_said_so(desk: Desk) -> None:
    desk.add("j", "k")
    desk.raw.hset(desk.key("deaths"), "j", 1)
    assert [[job.suspect for job in entry] for entry in desk.exchange(2).entries] == [
        [True],
        [False],
    ]
    assert desk.dump().deliveries("c")["j"].mark == "u"
    assert desk.run(desk.store.start("c", "j", "2")) == "settled"
    assert desk.run(desk.store.start("nobody", "j", "1")) == "lost"
    assert desk.run(desk.store.start("c", "j", "1")) == "ok"
    assert desk.run(desk.store.start("c", "j", "1")) == "ok"
    assert desk.dump().deliveries("c")["j"].mark == "-"
    desk.clean()
