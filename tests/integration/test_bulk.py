"""Many jobs at once: outcomes in order, nothing half done in silence, any size (C42, C73).

C42's largest sizes, 50,000 and 200,000, are scaled to 20,000: they only repeat the calls of at
most 1,000 jobs that 8,000 exercise.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import rota
from rota.consumer import Consumer
from rota.errors import BatchInterrupted, ConfigError, LaneFull, PayloadError, ServerFull
from rota.script.keys import Keys
from rota.values.config import MAX_CLAIM
from rota.values.jobspec import JobSpec
from tests.conftest import PrivateServer
from tests.support.clock import Clock, on_test_clock
from tests.support.queues import assert_sound
from tests.support.servers import Server
from tests.support.times import PATIENCE
from tests.support.waiting import eventually_async


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    queue = rota.Queue(queue_name, url=server.url)
    yield queue
    await queue.close()
    if len(server.keys()) < 2000:  # the audit looks key by key
        assert_sound(server, queue)


def specs(n: int, *, lanes: int = 1, **fields: Any) -> list[JobSpec]:
    return [JobSpec(task="t", lane=f"t{i % lanes}", id=f"j{i}", **fields) for i in range(n)]


def counted(outcomes: list[rota.Enqueued]) -> dict[str, int]:
    return dict(Counter(done.outcome for done in outcomes))


# ── C73: each item's fate, in order ─────────────────────────────────────────────────────────


async def test_each_job_has_its_outcome_in_order(queue: rota.Queue) -> None:
    """A duplicate of an old job, one of another in the batch, and a full lane among 1,000."""
    await queue.enqueue(JobSpec(task="t", id="old"))
    await queue.lane("full").set(backlog=1)
    batch = specs(1000, lanes=100)
    batch[10] = JobSpec(task="t", id="old")
    batch[20] = JobSpec(task="t", id="j19")
    batch[30] = JobSpec(task="t", id="f1", lane="full")
    batch[31] = JobSpec(task="t", id="f2", lane="full")
    outcomes = await queue.enqueue_many(batch)
    assert [done.id for done in outcomes] == [spec.id for spec in batch]
    others = {i: done.outcome for i, done in enumerate(outcomes) if done.outcome != "created"}
    assert others == {10: "duplicate", 20: "duplicate", 31: "lane_full"}
    info = await queue.info()
    assert (info.waiting, info.totals["enqueued"]) == (998, 998)


async def test_the_same_batch_again_adds_only_what_is_missing(queue: rota.Queue) -> None:
    batch = specs(2500, lanes=7)
    assert counted(await queue.enqueue_many(batch[:1300])) == {"created": 1300}
    again = await queue.enqueue_many(batch)
    assert [done.outcome for done in again] == ["duplicate"] * 1300 + ["created"] * 1200
    assert (await queue.info()).waiting == 2500


async def test_the_ids_of_specs_are_made_once(queue: rota.Queue) -> None:
    batch = [JobSpec(task="t") for _ in range(100)]
    assert counted(await queue.enqueue_many(iter(batch))) == {"created": 100}
    assert counted(await queue.enqueue_many(iter(batch))) == {"duplicate": 100}


async def test_a_batch_rings_once(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many(specs(1000, lanes=100))
    assert server.raw().llen(Keys(queue.name).wake) == 1


@pytest.mark.parametrize("atomic", [False, True])
async def test_an_empty_batch_writes_nothing(
    server: Server, queue: rota.Queue, atomic: bool
) -> None:
    consumed = iter(specs(3))
    list(consumed)
    nothings: tuple[Any, ...] = ([], (), iter([]), consumed, {})
    for nothing in nothings:
        assert await queue.enqueue_many(nothing, atomic=atomic) == []
        assert queue.sync.enqueue_many(nothing, atomic=atomic) == []
    assert [done async for done in queue.enqueue_stream([])] == []
    assert list(queue.sync.enqueue_stream([])) == []
    assert server.keys() == []


BAD_ITEMS: dict[str, tuple[Any, type[Exception], str]] = {
    "dict": ({"task": "t"}, ConfigError, r"expected a rota\.JobSpec"),
    "none": (None, ConfigError, r"expected a rota\.JobSpec"),
    "text": ("j", ConfigError, r"expected a rota\.JobSpec"),
    "big": (JobSpec(task="t", payload=b"x" * 1_048_577), PayloadError, "at most 1048576 bytes"),
}


@pytest.mark.parametrize("kind", BAD_ITEMS)
@pytest.mark.parametrize("atomic", [False, True])
async def test_a_bad_item_is_refused_before_anything_is_written(
    server: Server, queue: rota.Queue, kind: str, atomic: bool
) -> None:
    bad, error, complaint = BAD_ITEMS[kind]
    batch = [*specs(5), bad, *specs(5)]
    with pytest.raises(error, match=complaint):
        await queue.enqueue_many(batch, atomic=atomic)
    with pytest.raises(error, match=complaint):
        queue.sync.enqueue_many(batch, atomic=atomic)
    with pytest.raises(error, match=complaint):
        list(queue.sync.enqueue_stream(batch))
    with pytest.raises(error, match=complaint):
        _ = [done async for done in queue.enqueue_stream(batch)]
    assert server.keys() == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"specs": 5}, "expected an iterable"),
        ({"specs": None}, "expected an iterable"),
        ({"specs": JobSpec(task="t")}, "expected an iterable"),
        ({"specs": "jobs"}, r"expected a rota\.JobSpec"),
        ({"specs": {"a": 1}}, r"expected a rota\.JobSpec"),
        ({"on_full": "explode"}, "on_full: expected 'outcome', 'raise' or 'wait', given 'explode'"),
        ({"on_full": None}, "on_full: expected"),
        ({"on_full": []}, "on_full: expected"),
        ({"wait": -1}, "wait: expected seconds"),
        ({"wait": "x"}, "wait: expected seconds"),
        ({"wait": float("nan")}, "wait: expected seconds"),
    ],
)
async def test_wrong_settings_are_refused_before_anything_is_written(
    server: Server, queue: rota.Queue, given: dict[str, Any], complaint: str
) -> None:
    given = {"specs": specs(3)} | given
    with pytest.raises(ConfigError, match=complaint):
        await queue.enqueue_many(**given)
    with pytest.raises(ConfigError, match=complaint):
        queue.sync.enqueue_many(**given)
    with pytest.raises(ConfigError, match=complaint):
        list(queue.sync.enqueue_stream(**given))
    with pytest.raises(ConfigError, match=complaint):
        _ = [done async for done in queue.enqueue_stream(**given)]
    assert server.keys() == []


# ── all or nothing ──────────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_an_atomic_batch_with_a_full_lane_leaves_nothing(
    server: Server, queue: rota.Queue
) -> None:
    await queue.lane("t3").set(backlog=9)
    before = server.keys()
    with pytest.raises(LaneFull) as caught:
        await queue.enqueue_many(specs(1000, lanes=100), atomic=True)
    assert caught.value.lane == "t3"
    assert server.keys() == before
    await queue.lane("t3").set(backlog=10)
    assert counted(await queue.enqueue_many(specs(1000, lanes=100), atomic=True)) == {
        "created": 1000
    }


async def test_an_atomic_batch_takes_duplicates_as_outcomes(queue: rota.Queue) -> None:
    await queue.enqueue_many(specs(2))
    outcomes = await queue.enqueue_many([*specs(4), *specs(1)], atomic=True)
    assert counted(outcomes) == {"duplicate": 3, "created": 2}


@pytest.mark.parametrize(
    "batch",
    [
        [JobSpec(task="t") for _ in range(1001)],
        [JobSpec(task="t", payload=b"x" * 1_048_576) for _ in range(3)],
    ],
    ids=["jobs", "bytes"],
)
async def test_an_atomic_batch_beyond_one_call_is_refused(
    server: Server, queue: rota.Queue, batch: list[JobSpec]
) -> None:
    with pytest.raises(ConfigError, match="atomic: expected at most 1000 jobs and 2097152 bytes"):
        await queue.enqueue_many(batch, atomic=True)
    assert server.keys() == []


# ── a generator that raises, a server that refuses ──────────────────────────────────────────


class OwnError(Exception):
    pass


def failing_after(n: int, error: Exception) -> Iterator[JobSpec]:
    yield from specs(n)
    raise error


@pytest.mark.parametrize(("n", "stored"), [(0, 0), (500, 0), (1000, 0), (1001, 1000), (2500, 2000)])
async def test_a_generator_that_raises_half_way(queue: rota.Queue, n: int, stored: int) -> None:
    """Chunks are sent when full: what was not sent is neither stored nor in doubt."""
    with pytest.raises(
        BatchInterrupted, match=f"after {stored} jobs, 0 unsure: OwnError: why"
    ) as c:
        await queue.enqueue_many(failing_after(n, OwnError("why")))
    assert isinstance(c.value.__cause__, OwnError)
    assert [done.id for done in c.value.outcomes] == [f"j{i}" for i in range(stored)]
    assert c.value.unsure == []
    assert (await queue.info()).waiting == stored
    with pytest.raises(BatchInterrupted) as caught:
        queue.sync.enqueue_many(failing_after(n, OwnError("why")))
    assert counted(caught.value.outcomes) == ({"duplicate": stored} if stored else {})


async def test_a_bad_argument_late_in_a_generator_says_how_far_it_got(queue: rota.Queue) -> None:
    @queue.task(lane_from="tenant")
    def charge(tenant: str) -> None: ...

    tenants = ["t"] * 1500 + [""]
    with pytest.raises(BatchInterrupted, match="after 1000 jobs, 0 unsure: ConfigError") as caught:
        await queue.enqueue_many(charge.spec(tenant) for tenant in tenants)
    assert isinstance(caught.value.__cause__, ConfigError)
    with pytest.raises(ConfigError, match="lane_from"):
        await queue.enqueue_many(charge.spec(tenant) for tenant in tenants[1490:])
    assert (await queue.info()).waiting == 1000


async def test_a_stream_that_breaks_off_has_yielded_what_is_stored(queue: rota.Queue) -> None:
    outcomes: list[rota.Enqueued] = []

    async def work() -> None:
        async for done in queue.enqueue_stream(failing_after(2500, OwnError("why"))):
            outcomes.append(done)  # noqa: PERF401 - a comprehension would lose what it has

    with pytest.raises(BatchInterrupted, match="OwnError") as caught:
        await work()
    assert counted(outcomes) == {"created": 2000}
    assert (caught.value.outcomes, caught.value.unsure) == ([], [])
    blocking = queue.sync.enqueue_stream(failing_after(2500, OwnError("why")))
    assert len([next(blocking) for _ in range(2000)]) == 2000
    with pytest.raises(BatchInterrupted, match="OwnError"):
        next(blocking)


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
async def test_a_server_that_fills_up_half_way(
    private_server: PrivateServer, queue_name: str, kind: Any
) -> None:
    server = private_server(kind)
    queue = rota.Queue(queue_name, url=server.url)
    batch = specs(5000, lanes=50)

    def filling() -> Iterator[JobSpec]:
        for i, spec in enumerate(batch):
            if i == 2500:
                server.raw().config_set("maxmemory", "1")
            yield spec

    with pytest.raises(BatchInterrupted, match="after 2000 jobs, 0 unsure: ServerFull") as caught:
        await queue.enqueue_many(filling())
    assert isinstance(caught.value.__cause__, ServerFull)
    assert [done.id for done in caught.value.outcomes] == [spec.id for spec in batch[:2000]]
    assert caught.value.unsure == []
    with pytest.raises(ServerFull):
        await queue.enqueue(batch[4000])

    server.raw().config_set("maxmemory", "0")
    assert counted(await queue.enqueue_many(batch)) == {"duplicate": 2000, "created": 3000}
    assert (await queue.info()).waiting == 5000
    await queue.close()


async def test_a_server_that_is_read_only_for_a_moment_is_waited_for(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server()
    queue = rota.Queue(queue_name, url=server.url)
    timer = threading.Timer(0.3, lambda: server.raw().execute_command("REPLICAOF", "NO", "ONE"))

    def demoting() -> Iterator[JobSpec]:
        for i, spec in enumerate(specs(3000)):
            if i == 1500:
                server.raw().execute_command("REPLICAOF", "127.0.0.1", "1")
                timer.start()
            yield spec

    assert counted(await queue.enqueue_many(demoting())) == {"created": 3000}
    timer.join()
    assert (await queue.info()).waiting == 3000
    await queue.close()


# ── full lanes ──────────────────────────────────────────────────────────────────────────────


async def test_a_full_lane_is_an_outcome_or_an_error(queue: rota.Queue) -> None:
    await queue.lane("t0").set(backlog=3)
    outcomes = await queue.enqueue_many(specs(5))
    assert [done.outcome for done in outcomes] == ["created"] * 3 + ["lane_full"] * 2
    with pytest.raises(LaneFull, match="lane 't0' is full"):
        await queue.enqueue_many(specs(5), on_full="raise")
    with pytest.raises(LaneFull):
        queue.sync.enqueue_many(specs(5), on_full="raise")
    with pytest.raises(LaneFull):
        _ = [done async for done in queue.enqueue_stream(specs(5), on_full="raise")]
    assert (await queue.lane("t0").info()).waiting == 3


async def test_a_backlog_counts_what_is_delayed_and_not_what_runs(queue: rota.Queue) -> None:
    await queue.lane("t0").set(backlog=3)
    batch = [JobSpec(task="t", lane="t0", delay_ms=60_000), *specs(4)]
    assert counted(await queue.enqueue_many(batch)) == {"created": 3, "lane_full": 2}
    async with queue.consumer() as consumer:
        assert len(await consumer.claim(2)) == 2
        assert counted(await queue.enqueue_many(specs(4))) == {"duplicate": 2, "created": 2}


async def test_a_backlog_of_zero_shuts_a_lane_and_none_opens_it(queue: rota.Queue) -> None:
    await queue.lane("t0").set(backlog=0)
    assert counted(await queue.enqueue_many(specs(2))) == {"lane_full": 2}
    await queue.lane("t0").set(backlog=None)
    assert counted(await queue.enqueue_many(specs(2))) == {"created": 2}


async def test_room_that_comes_free_is_waited_for(queue: rota.Queue) -> None:
    await queue.lane("t0").set(backlog=3)
    batch = specs(8)
    async with queue.consumer() as consumer:
        done: set[str] = set()

        async def work_off() -> bool:
            jobs = await consumer.claim(2)
            done.update(job.id for job in jobs)
            await consumer.complete(jobs)
            return len(done) == 8

        waiting = asyncio.create_task(queue.enqueue_many(batch, on_full="wait", wait=20))
        await eventually_async(work_off, "all eight went through", timeout=PATIENCE)
        assert counted(await waiting) == {"created": 8}


async def test_waiting_for_room_ends(queue: rota.Queue) -> None:
    await queue.lane("t0").set(backlog=1)
    outcomes = await queue.enqueue_many(specs(3), on_full="wait", wait=0.5)
    assert [done.outcome for done in outcomes] == ["created", "lane_full", "lane_full"]
    streamed = [d async for d in queue.enqueue_stream(specs(3), on_full="wait", wait=0.25)]
    assert [done.outcome for done in streamed] == ["duplicate", "lane_full", "lane_full"]


# ── streams ─────────────────────────────────────────────────────────────────────────────────


async def test_a_stream_takes_no_more_than_a_call_ahead(queue: rota.Queue) -> None:
    taken = 0

    def counting() -> Iterator[JobSpec]:
        nonlocal taken
        for spec in specs(3500):
            taken += 1
            yield spec

    stream = queue.enqueue_stream(counting())
    assert taken == 0
    n = 0
    async for done in stream:
        assert done.id == f"j{n}"
        n += 1
        assert taken <= (n - 1) // 1000 * 1000 + 1001
    assert n == 3500


# ── C42: more than 8,000 values ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [1, 999, 1000, 1001, 7999, 8000, 20_000])
@pytest.mark.legs("valkey", "redis7")
async def test_batches_of_any_size_go_into_one_lane(queue: rota.Queue, n: int) -> None:
    assert counted(await queue.enqueue_many(specs(n))) == {"created": n}
    info = await queue.info()
    assert (info.waiting, info.lanes_ready) == (n, 1)


@pytest.mark.parametrize("n", [1001, 8001])
@pytest.mark.legs("valkey", "redis7")
async def test_batches_of_any_size_go_into_as_many_lanes(queue: rota.Queue, n: int) -> None:
    assert counted(await queue.enqueue_many(specs(n, lanes=n))) == {"created": n}
    info = await queue.info()
    assert (info.waiting, info.lanes_ready) == (n, n)


@pytest.mark.parametrize("n", [1, 999, MAX_CLAIM])
@pytest.mark.legs("valkey", "redis7")
async def test_claims_of_any_size(queue: rota.Queue, n: int) -> None:
    await queue.enqueue_many(specs(n, lanes=100))
    async with queue.consumer() as consumer:
        jobs = await consumer.claim(n)
        assert [job.id for job in jobs[:100]] == [f"j{i}" for i in _by_name(min(n, 100))]
        assert await consumer.complete(jobs) == ["ok"] * n
    info = await queue.info()
    assert (info.waiting, info.running, info.totals["completed"]) == (0, 0, n)


def _by_name(n: int) -> list[int]:
    """Lanes with equal tags take turns by name."""
    return sorted(range(n), key=lambda i: f"t{i}")


@pytest.mark.parametrize("n", [0, -1, MAX_CLAIM + 1, 8000, 1.0, True, None, "1"])
async def test_a_claim_beyond_its_bounds_is_refused(queue: rota.Queue, n: Any) -> None:
    await queue.enqueue_many(specs(3))
    async with queue.consumer() as consumer:
        with pytest.raises(ConfigError, match=f"n: expected a whole number from 1 to {MAX_CLAIM}"):
            await consumer.claim(n)
        assert consumer.held == []
        assert len(await consumer.claim(3)) == 3
    with queue.sync.consumer() as blocking, pytest.raises(ConfigError, match="n: expected"):
        blocking.claim(n)


async def claim_all(consumer: Consumer, n: int) -> list[rota.Job]:
    jobs: list[rota.Job] = []
    while len(jobs) < n:
        jobs += await consumer.claim(MAX_CLAIM)
    assert len(jobs) == n
    return jobs


@pytest.mark.parametrize("verb", ["complete", "exchange", "retry", "release", "bury", "leave"])
@pytest.mark.legs("valkey", "redis7")
async def test_endings_of_any_size(queue: rota.Queue, verb: str) -> None:
    n = 8001
    await queue.enqueue_many(specs(n, lanes=3))
    async with queue.consumer() as consumer:
        jobs = await claim_all(consumer, n)
        endings: dict[str, Callable[[], Any]] = {
            "complete": lambda: consumer.complete(jobs),
            "retry": lambda: consumer.retry(jobs, delay=0, error="why"),
            "release": lambda: consumer.release(jobs),
            "bury": lambda: consumer.bury(jobs, "why"),
        }
        if verb == "exchange":
            assert await consumer.exchange(jobs, 1) == []
        elif verb != "leave":
            assert await endings[verb]() == ["ok"] * n
    info = await queue.info()
    assert info.running == 0
    assert info.totals.get("completed", 0) == (n if verb in ("complete", "exchange") else 0)
    assert info.dead == (n if verb == "bury" else 0)
    assert info.waiting == (n if verb in ("retry", "release", "leave") else 0)


async def test_leases_of_any_number_lapse_at_once(server: Server, queue_name: str) -> None:
    """1,001 consumers with a job each, and one with 8,000."""
    queue = on_test_clock(rota.Queue(queue_name, url=server.url))
    clock, store, run = Clock(server.raw(), queue.link.keys), queue.link.store, queue.link.run

    async def claim(consumer: str, number: int, want: int) -> int:
        reply = await run(
            store.exchange(consumer, number=number, want=want, prefetch=1, park=False)
        )
        return sum(map(len, reply.entries))

    await queue.enqueue_many(specs(9001, lanes=50))
    for i in range(1001):
        await run(store.join(f"c{i}", lease_ms=30_000, name="one"))
        assert await claim(f"c{i}", 1, 1) == 1
    await run(store.join("big", lease_ms=30_000, name="all"))
    assert [await claim("big", number, 1000) for number in range(1, 9)] == [1000] * 8
    assert (await queue.info()).running == 9001

    clock.advance(30_001)
    beats = 0
    while (await queue.info()).running:
        await run(store.beat())
        beats += 1
        assert beats < 20, "many pages a beat"
    info = await queue.info()
    assert (info.waiting, info.consumers, info.totals["reaped"]) == (9001, 0, 9001)
    assert not [key for key in server.keys() if key.startswith(queue.link.keys.root + "c:")]
    await queue.close()


@pytest.mark.legs("valkey", "redis7")
async def test_a_sequence_of_any_length(queue: rota.Queue) -> None:
    batch = specs(8001, ordering_key="k")
    await queue.enqueue_many(batch)
    async with queue.consumer(prefetch=100) as consumer:
        jobs = await consumer.claim(10)
        assert [job.id for job in jobs] == [f"j{i}" for i in range(100)]
    assert (await queue.lane("t0").info()).waiting == 8001


@pytest.mark.legs("valkey", "redis7")
async def test_settings_of_any_number_of_lanes(queue: rota.Queue) -> None:
    lanes = {f"t{i}": {"ceiling": 0} for i in range(8001)}
    await queue.set_lanes(lanes)
    await queue.enqueue_many(specs(8001, lanes=8001))
    assert (await queue.info()).lanes_ready == 0
    await queue.set_lanes({name: {"ceiling": None} for name in lanes})
    assert (await queue.info()).lanes_ready == 8001
    found = await queue.lanes(limit=9000)
    assert {lane.name for lane in found} == set(lanes)
    assert len(await queue.lanes(limit=10)) == 10
