"""What an operator does to lanes: ceilings, pauses, blocks, weights, and what a claim makes of it.

Exact turns are the model test's; here each control is seen from outside, through the queue.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from itertools import pairwise
from typing import Any

import pytest

import rota
from rota.consumer import Consumer
from rota.errors import ConfigError
from rota.script import stubs
from rota.script.loader import Call, Operation, together
from rota.values.jobspec import JobSpec
from rota.values.model import LaneInfo
from tests.support.queues import assert_sound, spent
from tests.support.servers import Server
from tests.support.times import FAR_BEAT, IN_TIME
from tests.support.waiting import eventually_async

NAN, INF = float("nan"), float("inf")
SOON = 0.4


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    queue = rota.Queue(queue_name, url=server.url, beat=FAR_BEAT)
    yield queue
    await queue.close()
    if len(server.keys()) < 2000:  # the audit looks key by key
        assert_sound(server, queue)


async def fill(queue: rota.Queue, lane: str, n: int, **fields: Any) -> None:
    await queue.enqueue_many(
        [JobSpec(task="t", lane=lane, id=f"{lane}-{i}", **fields) for i in range(n)]
    )


async def claimed(consumer: Consumer, n: int = 100) -> dict[str, int]:
    """Lanes of one claim, and how many jobs of each."""
    return dict(Counter(job.lane for job in await consumer.claim(n)))


# ── ceilings ────────────────────────────────────────────────────────────────────────────────


async def test_a_lane_never_holds_more_than_its_ceiling(queue: rota.Queue) -> None:
    await queue.lane("a").set(ceiling=2)
    await fill(queue, "a", 5)
    await fill(queue, "b", 5)
    async with queue.consumer() as one, queue.consumer() as two:
        jobs = await one.claim(100)
        assert Counter(job.lane for job in jobs) == {"a": 2, "b": 5}
        assert await two.claim(100) == []
        info = await queue.lane("a").info()
        assert (info.running, info.waiting, info.ceiling, info.state) == (2, 3, 2, "at ceiling")
        await one.complete(jobs[0])
        assert await claimed(two) == {"a": 1}, "a freed permit brings the lane back"


async def test_a_ceiling_of_zero_stops_a_lane_and_none_frees_it(queue: rota.Queue) -> None:
    lane = queue.lane("a")
    await fill(queue, "a", 4)
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        await lane.set(ceiling=0)
        assert (await lane.info()).state == "stopped"
        assert await consumer.claim(5) == []
        await consumer.complete(job)
        assert await consumer.claim(5) == [], "a freed permit does not open a stopped lane"
        await fill(queue, "a", 6)
        assert await consumer.claim(5) == [], "nor does new work"
        await lane.set(ceiling=None)
        assert await claimed(consumer) == {"a": 6}


async def test_a_lowered_ceiling_starts_nothing_until_below_it(queue: rota.Queue) -> None:
    lane = queue.lane("a")
    await lane.set(ceiling=4)
    await fill(queue, "a", 10)
    async with queue.consumer() as consumer:
        jobs = await consumer.claim(10)
        assert len(jobs) == 4
        await lane.set(ceiling=2)
        for job in jobs[:2]:
            await consumer.complete(job)
            assert await consumer.claim(10) == []
        await consumer.complete(jobs[2])
        assert len(await consumer.claim(10)) == 1


async def test_a_raised_ceiling_wakes_who_waits(server: Server, queue: rota.Queue) -> None:
    lane = queue.lane("a")
    await lane.set(ceiling=0)
    await fill(queue, "a", 3)
    async with queue.consumer() as consumer:
        await _woken_by(server, consumer, lambda: lane.set(ceiling=1), expected=1)
        await _woken_by(server, consumer, lambda: lane.set(ceiling=None), expected=2)


async def until_parked(server: Server) -> None:
    def blocked() -> bool:
        total = 0
        for node in server.nodes:
            with node.client() as client:
                total += client.info("clients")["blocked_clients"]
        return total > 0

    await eventually_async(blocked, "nobody waits at the bell")


async def _woken_by(server: Server, consumer: Consumer, act: Any, expected: int) -> None:
    """`act` comes while the consumer is parked, well before its beat."""
    waiting = asyncio.create_task(consumer.claim(10, wait=IN_TIME))
    await until_parked(server)
    await act()
    assert len(await waiting) == expected


async def test_a_default_ceiling_holds_for_lanes_without_their_own(queue: rota.Queue) -> None:
    await queue.lane("own").set(ceiling=3)
    for lane in ("own", "a", "b"):
        await fill(queue, lane, 10)
    await queue.set(default_ceiling=1)
    async with queue.consumer() as consumer:
        assert await claimed(consumer) == {"own": 3, "a": 1, "b": 1}
        await queue.set(default_ceiling=2)
        assert await claimed(consumer) == {"a": 1, "b": 1}
        await queue.set(default_ceiling=0)
        assert (await queue.info()).default_ceiling == 0
        assert await claimed(consumer) == {}
        await queue.set()
        assert await claimed(consumer) == {}, "what is not given stays"
        await queue.set(default_ceiling=None)
        assert await claimed(consumer) == {"a": 8, "b": 8}
        assert (await queue.info()).default_ceiling is None


async def test_a_default_ceiling_given_in_code_is_told_with_the_first_operation(
    server: Server, queue_name: str
) -> None:
    queue = rota.Queue(queue_name, url=server.url, default_ceiling=2)
    await fill(queue, "a", 5)
    async with queue.consumer() as consumer:
        assert await claimed(consumer) == {"a": 2}
    assert (await queue.info()).default_ceiling == 2
    await queue.close()
    other = rota.Queue(queue_name, url=server.url)
    assert (await other.info()).default_ceiling == 2, "one that gives none leaves it"
    await other.close()


# ── pause, block ────────────────────────────────────────────────────────────────────────────


async def test_a_paused_lane_hands_out_nothing_and_goes_on_taking(queue: rota.Queue) -> None:
    lane = queue.lane("a")
    await fill(queue, "a", 2)
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        await lane.pause(reason="abuse", by="ops")
        assert (await lane.info()).state == "paused"
        assert (await queue.info()).lanes_paused == 1
        assert await consumer.claim(5) == []
        assert await consumer.complete(job) == ["ok"], "what is in flight goes on"
        await fill(queue, "a", 4)
        assert await consumer.claim(5) == []
        assert await lane.resume() is True
        assert await lane.resume() is False
        assert len(await consumer.claim(5)) == 4


async def test_a_lane_may_be_paused_before_it_has_work(queue: rota.Queue) -> None:
    await queue.lane("a").pause()
    await fill(queue, "a", 1)
    async with queue.consumer() as consumer:
        assert await consumer.claim() == []
        await queue.lane("a").resume()
        assert len(await consumer.claim()) == 1


async def test_a_pause_may_have_an_end(queue: rota.Queue) -> None:
    await fill(queue, "a", 1)
    started = time.time()
    await queue.lane("a").pause(until=started + SOON)
    async with queue.consumer() as consumer:
        assert len(await consumer.claim(wait=IN_TIME)) == 1
    assert time.time() - started >= SOON - 0.01
    assert not (await queue.lane("a").info()).paused


async def test_pausing_again_replaces_the_end(queue: rota.Queue) -> None:
    lane = queue.lane("a")
    await fill(queue, "a", 1)
    async with queue.consumer() as consumer:
        await lane.pause(until=datetime.now(UTC) + timedelta(seconds=0.1))
        await lane.pause()
        assert await consumer.claim(wait=0.3) == []
        await lane.pause(until=time.time() + 3600)
        await lane.pause(until=1)
        assert len(await consumer.claim(wait=IN_TIME)) == 1, "an end that has passed ends it now"


async def test_a_block_ends_by_itself_and_only_ever_extends(queue: rota.Queue) -> None:
    lane = queue.lane("a")
    await fill(queue, "a", 1)
    started = time.time()
    await lane.block(60)
    blocked = time.time()
    await lane.block(0.1)
    await lane.block(0)
    info = await lane.info()
    assert info.state == "blocked"
    assert info.blocked_until is not None
    assert 60 - 0.01 <= info.blocked_until - started <= 60.01 + blocked - started
    await lane.unblock()
    started = time.time()
    await lane.block(SOON)
    async with queue.consumer() as consumer:
        assert len(await consumer.claim(wait=IN_TIME)) == 1
    assert time.time() - started >= SOON - 0.01


async def test_a_block_can_be_lifted(queue: rota.Queue) -> None:
    lane = queue.lane("a")
    await fill(queue, "a", 1)
    await lane.block(timedelta(hours=1))
    async with queue.consumer() as consumer:
        assert await consumer.claim() == []
        assert await lane.unblock() is True
        assert await lane.unblock() is False
        assert len(await consumer.claim()) == 1


async def test_a_lane_both_paused_and_blocked_waits_for_both(queue: rota.Queue) -> None:
    lane = queue.lane("a")
    await fill(queue, "a", 1)
    await lane.block(3600)
    await lane.pause()
    async with queue.consumer() as consumer:
        await lane.unblock()
        assert await consumer.claim() == []
        await lane.block(3600)
        await lane.resume()
        assert await consumer.claim() == []
        await lane.unblock()
        assert len(await consumer.claim()) == 1


async def test_a_paused_queue_hands_out_nothing(server: Server, queue: rota.Queue) -> None:
    await fill(queue, "a", 2)
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        await queue.pause(reason="deploy", by="ops")
        assert (await queue.info()).paused
        assert await consumer.claim(5) == []
        assert await consumer.exchange(job, 5) == []
        await fill(queue, "b", 1)
        assert await consumer.claim(5) == []
        await _woken_by(server, consumer, queue.resume, expected=2)
        assert not (await queue.info()).paused


# ── weights, priorities ─────────────────────────────────────────────────────────────────────


async def test_equal_lanes_take_turns(queue: rota.Queue) -> None:
    await fill(queue, "big", 50)
    for lane in ("b", "c"):
        await fill(queue, lane, 5)
    async with queue.consumer() as consumer:
        turns = [(await consumer.claim())[0].lane for _ in range(15)]
    assert all(len(set(turns[i : i + 3])) == 3 for i in range(0, 15, 3)), turns


async def test_a_lanes_share_is_its_weight(queue: rota.Queue) -> None:
    await queue.set_lanes({"a": {"weight": 3}, "b": {"weight": 1}, "c": {"weight": 0.5}})
    for lane in ("a", "b", "c"):
        await fill(queue, lane, 300)
    async with queue.consumer() as consumer:
        found = await claimed(consumer, 450)
        assert found == pytest.approx({"a": 300, "b": 100, "c": 50}, abs=2)
        await queue.lane("b").set(weight=0.5)
        found = await claimed(consumer, 100)
        assert found == pytest.approx({"b": 50, "c": 50}, abs=2), "a new weight holds at once"
        assert (await queue.lane("b").info()).weight == 0.5
        await queue.lane("b").set(weight=None)
        assert (await queue.lane("b").info()).weight == 1


async def test_a_claim_of_many_gives_the_turns_of_many_claims(
    server: Server, queue_name: str
) -> None:
    weights = {"a": 2.0, "b": 1.0, "c": 0.7, "d": 1.0, "e": 100.0}
    turns: dict[int, list[str]] = {}
    for step in (40, 7, 1):
        queue = rota.Queue(f"{queue_name}-by-{step}", url=server.url)
        await queue.set_lanes({lane: {"weight": weight} for lane, weight in weights.items()})
        for lane in weights:
            await fill(queue, lane, 10)
        async with queue.consumer() as consumer:
            turns[step] = []
            while jobs := await consumer.claim(step):
                turns[step] += [job.id for job in jobs]
        await queue.close()
    assert len(turns[1]) == 50
    assert turns[40] == turns[7] == turns[1]


@pytest.mark.parametrize("path", ["plain", "retried", "released", "left", "delayed", "blocked"])
@pytest.mark.parametrize("lane", ["a", "!a", "keyed"])
async def test_a_priority_survives_every_path(queue: rota.Queue, path: str, lane: str) -> None:
    """C53. Higher first, then enqueue order; a sequence keeps them too."""
    order = [0, 1000, -1, -1000, 1, 1, 0, -1000]
    batch = [
        JobSpec(
            task="t",
            lane=lane,
            ordering_key="k" if lane == "keyed" else None,
            id=f"j{i}",
            priority=priority,
            delay_ms=1 if path == "delayed" else 0,
        )
        for i, priority in enumerate(order)
    ]
    await queue.enqueue_many(batch)
    expected = [f"j{i}" for i in sorted(range(len(order)), key=lambda i: (-order[i], i))]
    if path == "delayed":
        await _all_waiting(queue, len(order))
    async with queue.consumer(prefetch=10) as consumer:
        if path in ("retried", "released", "left", "blocked"):
            jobs = await consumer.claim(10)
            assert [job.id for job in jobs] == expected
            match path:
                case "retried":
                    await consumer.settle([(job, rota.Retry(0)) for job in reversed(jobs)])
                case "released":
                    await consumer.release(jobs)
                case "blocked":
                    await consumer.settle([(jobs[0], rota.RateLimited(0.05))])
                    await consumer.release(jobs[1:])
    async with queue.consumer(prefetch=10) as consumer:
        found: list[str] = []
        while len(found) < len(order):
            jobs = await consumer.claim(10, wait=IN_TIME)
            assert jobs, f"only {found} came"
            found += [job.id for job in jobs]
            await consumer.complete(jobs)
    assert found == expected


async def _all_waiting(queue: rota.Queue, n: int) -> None:
    async def waiting() -> bool:
        await queue.link.run(queue.link.store.beat())
        return (await queue.info()).waiting == n

    await eventually_async(waiting, "the delayed jobs fell due")


async def test_a_lanes_priorities_do_not_move_other_lanes(queue: rota.Queue) -> None:
    """C53: 2,000 urgent jobs (scaled from 10,000) against 10 low ones, in two lanes and in one."""
    await fill(queue, "urgent", 2000, priority=1000)
    await fill(queue, "low", 10, priority=-1000)
    await queue.enqueue_many([JobSpec(task="t", lane="urgent", priority=-1000) for _ in range(10)])
    async with queue.consumer() as consumer:
        jobs = await consumer.claim(20)
        assert Counter(job.lane for job in jobs) == {"urgent": 10, "low": 10}
        rest = await consumer.claim(1000)
        rest += await consumer.claim(1000)
        assert [job.priority for job in rest[-10:]] == [-1000] * 10, "inside a lane low may starve"
        assert all(a.priority >= b.priority for a, b in pairwise(rest))


# ── what is refused ─────────────────────────────────────────────────────────────────────────

WRONG_LIMITS: list[dict[str, Any]] = [
    {"ceiling": -1}, {"ceiling": 1.5}, {"ceiling": "3"}, {"ceiling": True}, {"ceiling": 10**9},
    {"weight": 0}, {"weight": 0.009}, {"weight": 100.1}, {"weight": NAN}, {"weight": "1"},
    {"weight": True}, {"weight": -1}, {"weight": INF},
    {"backlog": -1}, {"backlog": 1.0}, {"backlog": "x"}, {"backlog": True}, {"backlog": 10**10},
]  # fmt: skip


@pytest.mark.parametrize("limits", WRONG_LIMITS, ids=repr)
async def test_wrong_limits_are_refused(
    server: Server, queue: rota.Queue, limits: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="expected .*given"):
        await queue.lane("a").set(**limits)
    with pytest.raises(ConfigError, match="expected .*given"):
        queue.sync.lane("a").set(**limits)
    with pytest.raises(ConfigError, match="expected .*given"):
        await queue.set_lanes({"fine": {"ceiling": 1}, "a": limits})
    assert server.keys() == []


@pytest.mark.parametrize(
    "limits",
    [
        {"a": {"ceilings": 3}},
        {"a": {"ceiling": 3, 5: 1}},
        {"a": 3},
        {"a": None},
        {"a": [("ceiling", 3)]},
        [("a", {"ceiling": 3})],
        None,
        5,
    ],
    ids=repr,
)
async def test_set_lanes_takes_a_mapping_of_mappings(
    server: Server, queue: rota.Queue, limits: Any
) -> None:
    with pytest.raises(ConfigError, match="expected .*given"):
        await queue.set_lanes(limits)
    with pytest.raises(ConfigError, match="expected .*given"):
        queue.sync.set_lanes(limits)
    assert server.keys() == []


WRONG_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "until text": ("pause", {"until": "tomorrow"}),
    "until naive": ("pause", {"until": datetime(2100, 1, 1)}),
    "until date": ("pause", {"until": date(2100, 1, 1)}),
    "until ms": ("pause", {"until": 4_102_444_800_000}),
    "until nan": ("pause", {"until": NAN}),
    "reason object": ("pause", {"reason": object()}),
    "reason number": ("pause", {"reason": 5}),
    "reason long": ("pause", {"reason": "x" * 100_000}),
    "by bytes": ("pause", {"by": b"ops"}),
    "block negative": ("block", {"delay": -1}),
    "block nan": ("block", {"delay": NAN}),
    "block huge": ("block", {"delay": 10**12}),
    "block text": ("block", {"delay": "30"}),
    "block reason": ("block", {"delay": 30, "reason": object()}),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
async def test_wrong_pauses_and_blocks_are_refused(
    server: Server, queue: rota.Queue, name: str
) -> None:
    verb, given = WRONG_CALLS[name]
    with pytest.raises(ConfigError, match="expected .*given"):
        await getattr(queue.lane("a"), verb)(**given)
    with pytest.raises(ConfigError, match="expected .*given"):
        getattr(queue.sync.lane("a"), verb)(**given)
    if "reason" in given and verb == "pause":
        with pytest.raises(ConfigError, match="reason: expected text"):
            await queue.pause(**given)
    assert server.keys() == []


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "10", None])
async def test_a_listing_has_a_limit(queue: rota.Queue, limit: Any) -> None:
    with pytest.raises(ConfigError, match="limit: expected a whole number"):
        await queue.lanes(limit)


async def test_a_reason_with_a_lone_surrogate_is_kept_readable(queue: rota.Queue) -> None:
    await queue.lane("a").pause(reason="caf\ud800", by="ops")
    assert (await queue.lane("a").info()).paused


# ── what is told of lanes ───────────────────────────────────────────────────────────────────


class Whole(IntEnum):
    TWO = 2


class Real(float):
    def __repr__(self) -> str:
        return f"real.float64({float(self)})"


async def test_numbers_of_other_classes_are_stored_as_numbers(queue: rota.Queue) -> None:
    """Enums and numpy's floats are ints and floats with another repr."""
    await queue.lane("a").set(ceiling=Whole.TWO, weight=Real(0.5), backlog=Whole.TWO)
    info = await queue.lane("a").info()
    assert (info.ceiling, info.weight) == (2, 0.5)
    spec = JobSpec(
        task="t",
        lane="a",
        max_attempts=Whole.TWO,
        timeout=Real(2),
        delay_ms=Whole.TWO,
        priority=Whole.TWO,
    )
    await queue.enqueue(spec)
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim(wait=IN_TIME)
        assert (job.max_attempts, job.timeout, job.priority) == (2, 2.0, 2)


async def test_a_lane_is_told_as_it_stands(queue: rota.Queue) -> None:
    lane = queue.lane("a")
    info = await lane.info()
    assert info == LaneInfo("a", 0, 0, 0, None, 1.0, False, None, False, None, window=info.window)
    assert 60 <= info.window < 120
    assert (await lane.info()).state == "idle"
    await lane.set(ceiling=3, weight=2.5)
    await fill(queue, "a", 4)
    await queue.enqueue(JobSpec(task="t", lane="a", delay_ms=60_000))
    info = await lane.info()
    assert (info.waiting, info.delayed, info.running) == (4, 1, 0)
    assert (info.ceiling, info.weight, info.state) == (3, 2.5, "ready")
    assert info.oldest_wait is not None
    assert 0 <= info.oldest_wait < 30
    async with queue.consumer() as consumer:
        await consumer.claim(2)
        info = await lane.info()
        assert (info.waiting, info.running, info.state) == (2, 2, "ready")
        await consumer.claim(2)
        assert (await lane.info()).state == "at ceiling"


async def test_lanes_are_listed_with_work_first(queue: rota.Queue) -> None:
    await queue.lane("configured").set(ceiling=3)
    await queue.lane("paused").pause()
    await fill(queue, "running", 1)
    async with queue.consumer() as consumer:
        await consumer.claim()
        for i in range(300):
            await fill(queue, f"t{i}", 1)
        names = [lane.name for lane in await queue.lanes()]
        assert sorted(names[:300]) == sorted(f"t{i}" for i in range(300))
        assert names[300:] == ["running", "configured", "paused"]
        assert len(await queue.lanes(limit=301)) == 301


# ── C30: a head full of lanes that may not run ──────────────────────────────────────────────

CROWD = 20_000
SCENES = {"paused": CROWD, "blocked": 8000, "at ceiling": 8000}
SHORT_US = 3000
"""Far below what looking at thousands of lanes costs (6-11 ms for 10,000)."""


def _all(calls: list[Call[int]]) -> Operation[int]:
    for start in range(0, len(calls), 500):
        yield from together(calls[start : start + 500])
    return len(calls)


async def _shut(queue: rota.Queue, lanes: list[str], why: str) -> None:
    keys = queue.link.keys
    match why:
        case "paused":
            calls = [stubs.pause(keys, lane=lane, until_ms=-1, why="{}") for lane in lanes]
        case "blocked":
            calls = [stubs.block(keys, lane=lane, ms=10**8, why="{}") for lane in lanes]
        case _:
            await queue.set_lanes({lane: {"ceiling": 1} for lane in lanes})
            return
    await queue.link.run(_all(calls))


async def _open(queue: rota.Queue, lanes: list[str], why: str) -> None:
    keys = queue.link.keys
    match why:
        case "paused":
            await queue.link.run(_all([stubs.resume(keys, lane=lane) for lane in lanes]))
        case "blocked":
            await queue.link.run(_all([stubs.unblock(keys, lane=lane) for lane in lanes]))
        case _:
            await queue.set_lanes({lane: {"ceiling": None} for lane in lanes})


@pytest.mark.parametrize("why", SCENES)
async def test_one_lane_among_thousands_that_may_not_run(
    server: Server, queue: rota.Queue, why: str
) -> None:
    """C30. The only lane that may run is claimed by the first call, at the cost of a small one."""
    crowd = [f"t{i:05}" for i in range(SCENES[why] - 1)]
    await _shut(queue, crowd, why)
    jobs = 2 if why == "at ceiling" else 1
    await queue.enqueue_many(JobSpec(task="t", lane=lane) for lane in crowd for _ in range(jobs))
    async with queue.consumer() as busy, queue.consumer() as consumer:
        while why == "at ceiling" and await busy.claim(1000):
            pass
        await queue.enqueue(JobSpec(task="t", lane="z"))
        costs = []
        for _ in range(5):
            calls, before = spent(server)
            (job,) = await consumer.claim(10)
            assert job.lane == "z"
            now, after = spent(server)
            costs.append((after - before) / (now - calls))
            await consumer.release(job)
        assert min(costs) < SHORT_US, f"a claim took the server {costs} µs"

        calls, before = spent(server)
        await _open(queue, crowd, why)
        now, after = spent(server)
        assert (after - before) / (now - calls) < SHORT_US
        assert (await queue.info()).lanes_ready == SCENES[why]


@pytest.mark.legs("valkey", "redis7")
async def test_a_default_ceiling_reaches_thousands_of_lanes_in_short_steps(
    server: Server, queue: rota.Queue
) -> None:
    await queue.enqueue_many(JobSpec(task="t", lane=f"t{i}") for i in range(CROWD))
    for ceiling, ready in ((0, 0), (None, CROWD)):
        calls, before = spent(server)
        await queue.set(default_ceiling=ceiling)
        while (await queue.info()).lanes_ready != ready:
            await queue.link.run(queue.link.store.beat())
        now, after = spent(server)
        assert now - calls >= CROWD // 200, "in pages"
        assert (after - before) / (now - calls) < 10_000, "µs of a step"


async def test_a_lane_with_only_delayed_jobs_is_listed(queue: rota.Queue) -> None:
    await queue.enqueue_many(
        [JobSpec(task="t", lane="later", delay_ms=60_000) for _ in range(3)]
        + [JobSpec(task="t", lane="both"), JobSpec(task="t", lane="both", delay_ms=60_000)]
    )
    rows = {lane.name: (lane.waiting, lane.delayed) for lane in await queue.lanes()}
    assert rows == {"later": (0, 3), "both": (1, 1)}
