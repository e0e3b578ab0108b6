"""Dead jobs: kept with what it takes to judge them, found in pages, put back, deleted, outlived."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable

import pytest

import rota
from rota.errors import ConfigError, Unavailable
from rota.values import model
from rota.values.model import JobInfo
from rota.values.signals import Signal
from tests.failures.tools import Hand, Timed, beat, jobs, stats, until_done, working
from tests.support.faulty import CUT, Break
from tests.support.queues import assert_sound, dump, open_queue
from tests.support.servers import Server


async def bury(queue: rota.Queue, specs: Iterable[rota.JobSpec], reason: str = "{}") -> None:
    """Enqueues, claims and buries; those of a sequence with `on_dead="hold"` hold it."""
    given = {spec.id: spec for spec in specs}
    await queue.enqueue_many(given.values())
    hand = await Hand(queue, lease=60).join()
    left = set(given)
    while left:
        taken = await hand.claim(500, prefetch=1)
        assert taken, "nothing comes"
        await queue.link.run(
            queue.link.store.settle(
                hand.id,
                [
                    model.Settlement(
                        id, str(hand.number), "bury", error=reason, hold=given[id].on_dead == "hold"
                    )
                    for id in taken
                ],
            )
        )
        left -= set(taken)
    await hand.leave()


def ids(found: Iterable[JobInfo]) -> list[str]:
    return [job.id for job in found]


# ── what is kept ────────────────────────────────────────────────────────────────────────────────


async def test_a_dead_job_says_what_happened(server: Server, queue: rota.Queue) -> None:
    @queue.task(max_attempts=2, backoff=rota.Backoff(base=0.01, jitter=0))
    async def work(n: int) -> None:
        raise ValueError(f"attempt {rota.current_job().attempt}")

    began = time.time()
    done = await work.options(lane="t7", ordering_key="k", priority=3, id="x").enqueue(5)
    async with working(queue):
        await until_done(server, queue, 1, name="buried")
    (job,) = await queue.dead.list()
    assert done.id == job.id == "x"
    assert (job.task, job.lane, job.ordering_key, job.priority) == ("work", "t7", "k", 3)
    assert (job.attempts, job.deaths, job.payload) == (2, 0, b'{"n":5}')
    assert job.error is not None
    assert job.died_at is not None
    assert job.error.startswith("Traceback")
    assert job.error.endswith("ValueError: attempt 2"), "the last attempt's error"
    assert job.worker
    assert began - 1 < job.enqueued_at <= job.died_at < time.time() + 1
    info = await queue.job("x").info()
    assert info is not None
    assert (info.state, info.due) == ("dead", job.died_at)
    assert queue.sync.dead.list() == [job]
    queue.sync.close()


@pytest.mark.parametrize("end", ["bury", "time-out", "exhausted", "signal"])
async def test_the_reason_is_kept_bounded(server: Server, queue: rota.Queue, end: str) -> None:
    @queue.task(max_attempts=1, timeout=0.1)
    async def work() -> None:
        if end == "bury":
            raise rota.Bury("why not")
        if end == "time-out":
            await asyncio.sleep(60)
        if end == "signal":
            raise Signal("a bare one")
        raise ValueError("x" * 1_000_000)

    await work.enqueue()
    async with working(queue):
        await until_done(server, queue, 1, name="buried")
    (job,) = await queue.dead.list()
    expected = {
        "bury": "why not",
        "time-out": "timed out after 0.1 s",
        "signal": "Signal: a bare one",
        "exhausted": "xxx",
    }
    assert job.error is not None
    assert expected[end] in job.error
    assert len(job.error) < 5000


# ── pages ───────────────────────────────────────────────────────────────────────────────────────


async def test_thousands_that_died_in_the_same_millisecond_are_listed_once(
    server: Server, timed: Timed
) -> None:
    """Pages of 200 with a cursor in the middle of one instant; odd ids; some go meanwhile."""
    queue, clock = timed.queue, timed.clock
    names = [f"{kind}{n}" for n in range(700) for kind in ("A", "a", "é", "_")]
    random.Random(1).shuffle(names)
    await bury(queue, jobs(names[:300]))
    clock.advance(1)
    await bury(queue, jobs(names[300:2600]))
    clock.advance(1)
    await bury(queue, jobs(names[2600:]))
    found = [job async for job in queue.dead.iterate()]
    assert sorted(ids(found)) == sorted(names)
    order = [(job.died_at, job.id.encode()) for job in found]
    assert order == sorted(order), "oldest first"
    assert ids(await queue.dead.list(limit=1000)) == ids(found[:1000])
    seen, gone = [], set()
    async for job in queue.dead.iterate():
        seen.append(job.id)
        if len(seen) % 100 == 50:
            # The very job the page ends with, ones seen before, and one still to come.
            out = [seen[-1], seen[0], found[min(len(seen) + 400, len(found) - 1)].id]
            gone |= set(out)
            await queue.dead.discard(*out)
    assert len(seen) == len(set(seen)), "one was listed twice"
    assert set(names) - set(seen) <= gone, "one was skipped"
    queue.sync.close()


async def test_filters_by_lane_and_task(server: Server, queue: rota.Queue) -> None:
    specs = [rota.JobSpec(task=f"t{n % 3}", lane=f"l{n % 2}", id=f"j{n:03}") for n in range(600)]
    await bury(queue, specs)
    for lane in (None, "l0", "l1", "none"):
        for task in (None, "t0", "none"):
            expected = {
                spec.id for spec in specs if lane in (None, spec.lane) and task in (None, spec.task)
            }
            found = [job async for job in queue.dead.iterate(lane=lane, task=task)]
            assert set(ids(found)) == expected
            listed = await queue.dead.list(lane=lane, task=task, limit=1000)
            assert listed == found
    assert len(await queue.dead.list(lane="l0", limit=7)) == 7
    for limit in (0, -1, True, 1.5, 100_001):
        with pytest.raises(ConfigError, match="limit: expected a whole number"):
            await queue.dead.list(limit=limit)  # type: ignore[arg-type]


# ── replay and discard ──────────────────────────────────────────────────────────────────────────


async def test_each_id_has_its_answer(server: Server, queue: rota.Queue) -> None:
    await bury(queue, jobs("abcd"))
    await queue.enqueue_many(jobs("w"))
    assert await queue.dead.replay("a", "none", "w", "a") == ["ok", "none", "none", "none"]
    assert await queue.dead.discard("b", "none", "w", "b") == ["ok", "none", "none", "none"]
    with pytest.raises(ConfigError, match="id"):
        await queue.dead.replay("c", "!odd")
    with pytest.raises(ConfigError, match="id"):
        await queue.dead.discard("c", "")
    assert ids(await queue.dead.list()) == ["c", "d"]
    assert await queue.dead.replay() == []
    assert_sound(server, queue)


@pytest.mark.parametrize("act", ["replay", "discard"])
async def test_all_of_a_filter_in_pages(server: Server, queue: rota.Queue, act: str) -> None:
    """Attempts, deaths and errors are forgiven; what does not match stays."""
    names = [f"j{n:04}" for n in range(1500)]
    await bury(
        queue, [rota.JobSpec(task="work", lane=f"l{n % 3}", id=id) for n, id in enumerate(names)]
    )
    assert await getattr(queue.dead, f"{act}_all")(lane="l1") == 500
    assert await getattr(queue.dead, f"{act}_all")(lane="l1") == 0
    found = assert_sound(server, queue)
    assert len(found.get("dead")) == len(found.get("errors")) == len(found.get("attempts")) == 1000
    if act == "replay":
        hand = await Hand(queue, lease=60).join()
        assert await hand.claim(1000) == names[1::3], "in their places"
        assert stats(server, queue)["replayed"] == 500
    assert await getattr(queue.dead, f"{act}_all")() == 1000
    assert dump(server, queue).get("dead") == {}
    assert_sound(server, queue)


@pytest.mark.parametrize("act", ["replay", "discard"])
async def test_what_was_interrupted_stays_done_and_is_carried_on(
    server: Server, queue_name: str, faulty: Break, act: str
) -> None:
    """The link fails on the third page: two pages are done, and doing it again does the rest."""
    proxy = faulty(server)
    async with open_queue(proxy.url, queue_name) as queue:
        names = [f"j{n:04}" for n in range(900)]
        await bury(queue, jobs(names))
        store = queue.link.store
        pages = 0

        def third_fails() -> None:
            nonlocal pages
            pages += 1
            if pages == 3:
                raise RuntimeError("interrupted")

        original = store._each

        def each(call, ids):  # type: ignore[no-untyped-def]
            third_fails()
            return original(call, ids)

        store._each = each  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="interrupted"):
            await getattr(queue.dead, f"{act}_all")()
        store._each = original  # type: ignore[method-assign]
        assert len(dump(server, queue).get("dead")) == 500
        assert_sound(server, queue)
        proxy.plant(act, CUT, times=1)  # a cut in the middle is mended by sending again
        assert await getattr(queue.dead, f"{act}_all")() == 500
        assert proxy.failed == {act: 1}
        assert dump(server, queue).get("dead") == {}
        assert_sound(server, queue)


async def test_an_unreadable_dead_job_is_listed_and_discarded_not_replayed(
    server: Server, queue: rota.Queue
) -> None:
    await bury(queue, jobs("abc"))
    raw, keys = server.raw(decode=False), queue.link.keys
    raw.set(keys.key("job", "a"), b"\xff\x00 no record")
    raw.setrange(keys.key("job", "b"), 47, b"not json")
    raw.hset(keys.key("errors"), "c", b"\xff not json")
    found = {job.id: job for job in await queue.dead.list()}
    assert found.keys() == {"a", "b", "c"}
    assert found["a"].payload == b"\xff\x00 no record"
    assert (found["c"].error or "").endswith("not json")
    assert await queue.dead.replay("a", "b", "c") == ["unreadable", "unreadable", "ok"]
    assert await queue.dead.discard("a", "b") == ["ok", "ok"]
    assert_sound(server, queue)


async def test_replaying_wakes_at_once_and_counts_anew(server: Server, queue_name: str) -> None:
    """A replayed job has all its attempts again."""
    async with open_queue(server, queue_name) as queue:
        ran: list[int] = []

        @queue.task(max_attempts=2, backoff=rota.Backoff(base=0.01, jitter=0))
        async def work() -> None:
            ran.append(rota.current_job().attempt)
            if len(ran) < 4:
                raise ValueError

        await work.options(id="x").enqueue()
        async with working(queue):
            await until_done(server, queue, 1, name="buried")
            await asyncio.sleep(0.05)
            assert await queue.dead.replay("x") == ["ok"]
            await until_done(server, queue, 1)
        assert ran == [1, 2, 1, 2]


# ── retention ───────────────────────────────────────────────────────────────────────────────────


async def test_the_newest_are_kept_up_to_a_number(server: Server, timed: Timed) -> None:
    """Pruned by beats, in pages; ids of pruned jobs are free again."""
    queue, clock = timed.queue, timed.clock
    for n in range(6):
        await bury(queue, jobs(f"j{n}-{m}" for m in range(100)))
        clock.advance(10)
    await queue.set(dead_max=150)
    await beat(queue)
    found = [job.id async for job in queue.dead.iterate()]
    assert len(found) == 150
    assert {id[:2] for id in found} == {"j4", "j5"}
    assert stats(server, queue)["discarded"] == 450
    assert (await queue.enqueue(jobs(["j0-0"])[0])).outcome == "created"
    await queue.set(dead_max=0)
    await beat(queue)
    assert await queue.dead.list() == []
    assert_sound(server, queue)


async def test_the_young_are_kept_up_to_an_age(server: Server, timed: Timed) -> None:
    queue, clock = timed.queue, timed.clock
    await queue.set(dead_age=61)
    for n in range(4):
        await bury(queue, jobs([f"j{n}"]))
        clock.advance(20_000)
    await beat(queue)
    assert ids(await queue.dead.list()) == ["j1", "j2", "j3"]
    clock.advance(21_001)
    await beat(queue)
    assert ids(await queue.dead.list()) == ["j3"]
    await queue.set(dead_age=None)
    clock.advance(179 * 86_400_000)
    await beat(queue)
    assert ids(await queue.dead.list()) == ["j3"]
    clock.advance(86_400_000)
    await beat(queue)
    assert await queue.dead.list() == []
    assert_sound(server, queue)


@pytest.mark.parametrize("rule", ["number", "age"])
async def test_a_job_that_holds_its_sequence_outlives_retention(
    server: Server, timed: Timed, rule: str
) -> None:
    """Whatever stands before and behind it; once acted upon it is like any other."""
    queue, clock = timed.queue, timed.clock
    holds = [
        rota.JobSpec(task="work", lane=f"!h{n}", id=f"h{n}", on_dead="hold") for n in range(150)
    ]
    await bury(queue, jobs(f"a{n}" for n in range(50)))
    clock.advance(1)
    await bury(queue, holds)
    clock.advance(1)
    await bury(queue, jobs(f"b{n}" for n in range(250)))
    await queue.enqueue_many(rota.JobSpec(task="work", lane=f"!h{n}") for n in range(150))
    clock.advance(1000)
    await (queue.set(dead_max=0) if rule == "number" else queue.set(dead_age=0.5))
    for _ in range(8):
        await beat(queue)
    assert {job.id async for job in queue.dead.iterate()} == {spec.id for spec in holds}
    found = assert_sound(server, queue)
    assert len(found.get("blocked")) == 150
    hand = await Hand(queue, lease=3600).join()
    assert await hand.claim(1000) == []
    # A hold that ends leaves a dead job as any other: replayed and skipped, it is pruned.
    assert await queue.dead.replay("h0") == ["ok"]
    assert await hand.claim(9) == ["h0"]
    assert await hand.settle("h0", "bury") == "ok"
    clock.advance(1000)
    for _ in range(3):
        await beat(queue)
    assert len(dump(server, queue).get("dead")) == 149
    assert await queue.dead.discard_all() == 149
    assert len(await hand.claim(1000)) == 150
    assert_sound(server, queue)


# ── ids ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "end",
    [
        "complete",
        "dead",
        "discard",
        "purge",
        "cancel",
        "cancel, delayed",
        "cancel, running",
        "cancel, killed",
        "cancel the lane",
        "expiry",
        "killed",
        "pruned",
        "lost body",
    ],
)
async def test_an_id_is_taken_as_long_as_its_job_exists(
    server: Server, timed: Timed, end: str
) -> None:
    """C37: by each way a job can go. A refusal names the job that has the id, and no record of
    the id outlives it. (Lanes cannot be deleted.)"""
    queue, clock = timed.queue, timed.clock
    delay = 1000 if end == "cancel, delayed" else 0
    spec = jobs("k", expires_in_ms=1000 if end == "expiry" else None, delay_ms=delay)[0]
    assert (await queue.enqueue(spec)).outcome == "created"
    again = await queue.enqueue(jobs("k")[0])
    assert (again.id, again.outcome) == ("k", "duplicate")
    hand = await Hand(queue, lease=2).join()
    free = end not in ("dead", "expiry", "killed")
    if end == "purge":
        assert await queue.lane("a").purge() == 1
    elif end in ("cancel", "cancel, delayed"):
        assert await queue.job("k").cancel() == "cancelled"
    elif end == "cancel the lane":
        assert await queue.lane("a").cancel() == rota.Cancelled(removed=1, asked=0)
    elif end == "cancel, running":
        assert await hand.claim() == ["k"]
        assert await queue.job("k").cancel() == "asked"
        again = await queue.enqueue(jobs("k")[0])
        assert (again.id, again.outcome) == ("k", "duplicate")
        assert await hand.settle("k", "retry", delay=1000) == "ok"
    elif end == "cancel, killed":
        assert await hand.claim() == ["k"]
        assert await queue.job("k").cancel() == "asked"
        for _ in range(4):
            clock.advance(600)
            await beat(queue)
    elif end == "expiry":
        clock.advance(1000)
        async with queue.consumer(lease=3600) as consumer:
            assert await consumer.claim() == []
    elif end == "lost body":
        assert await hand.claim() == ["k"]
        server.raw().delete(queue.link.keys.key("job", "k"))
        assert await hand.settle("k", "complete") == "ok"
    elif end == "killed":
        server.raw().hset(queue.link.keys.key("deaths"), "k", 2)
        assert await hand.claim() == ["k"]
        await queue.link.run(queue.link.store.start(hand.id, "k", "1"))
        for _ in range(4):
            clock.advance(600)
            await beat(queue)
    else:
        assert await hand.claim() == ["k"]
        await hand.settle("k", "complete" if end == "complete" else "bury")
        if end == "discard":
            assert await queue.dead.discard("k") == ["ok"]
        if end == "pruned":
            await queue.set(dead_max=0)
            await beat(queue)
    assert [job.id for job in await queue.dead.list()] == ([] if free else ["k"])
    assert (await queue.enqueue(jobs("k")[0])).outcome == ("created" if free else "duplicate")
    if not free:
        assert await queue.dead.discard("k") == ["ok"]
        assert (await queue.enqueue(jobs("k")[0])).outcome == "created"
    last = await Hand(queue, lease=60).join()
    reply = await last.exchange()
    (job,) = reply.entries[0]
    assert (job.id, job.attempts, job.suspect) == ("k", 0, False)
    assert_sound(server, queue)


async def test_nothing_can_be_reached_is_a_typed_error(queue_name: str) -> None:
    async with open_queue("redis://127.0.0.1:1", queue_name) as queue:
        with pytest.raises(Unavailable):
            await queue.dead.list()
