"""Workers: running, ending, stopping, losing their lease, sharing slots."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import rota
from rota.worker import Drained, Worker
from tests.conftest import PrivateServer
from tests.support.proxy import Proxy
from tests.support.queues import (
    assert_drained,
    assert_sound,
    commands_sent,
    dump,
    held_on_server,
    open_queue,
)
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, PATIENCE
from tests.support.waiting import eventually_async


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name) as queue:
        yield queue


@asynccontextmanager
async def working(
    *queues: rota.Queue, slots: int = 10, grace: float = 2, **settings: float
) -> AsyncIterator[Worker]:
    worker = Worker(queues, concurrency=slots, lease=LEASE, grace=grace, **settings)  # type: ignore[arg-type]
    run = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await asyncio.sleep(0)
        worker.stop()
        await run


async def burst(*queues: rota.Queue, slots: int = 10, **settings: float) -> Drained:
    worker = Worker(queues, concurrency=slots, lease=LEASE, **settings)  # type: ignore[arg-type]
    return await worker.run(burst=True)


# ── what becomes of a job ───────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_async_and_plain_handlers_run_and_the_burst_ends(
    server: Server, queue: rota.Queue
) -> None:
    ran: list[object] = []

    @queue.lifespan
    async def resources() -> AsyncIterator[str]:
        yield "resource"

    @queue.task
    async def on_loop(n: int) -> None:
        ran.append((n, rota.current_job().state))

    @queue.task
    def in_thread(n: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        ran.append((n, rota.current_job().state))

    await queue.enqueue_many(on_loop.spec(n) for n in range(5))
    await queue.enqueue_many(in_thread.spec(n) for n in range(5, 10))
    assert await burst(queue) == Drained(done=10, retried=0, dead=0, left=0)
    assert sorted(ran) == [(n, "resource") for n in range(10)]  # type: ignore[type-var]
    assert_drained(server, queue, done=10)
    with pytest.raises(LookupError):
        rota.current_job()


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_failing_job_backs_off_and_ends_dead_with_its_error(
    server: Server, queue: rota.Queue
) -> None:
    starts: list[tuple[float, int]] = []

    @queue.task(max_attempts=3, backoff=rota.Backoff(base=0.1, factor=2, jitter=0))
    async def fail() -> None:
        starts.append((time.monotonic(), rota.current_job().attempt))
        raise ValueError("broken thing")

    done = await fail.enqueue()

    async def state() -> str | None:
        info = await queue.job(done.id).info()
        return info.state if info else None

    async with working(queue):
        await eventually_async(
            lambda: dump(server, queue).get("dead"), "the job does not go to the dead"
        )
    assert [attempt for _, attempt in starts] == [1, 2, 3]
    first, second = (b[0] - a[0] for a, b in itertools.pairwise(starts))
    assert first > 0.09
    assert second > 0.19
    info = await queue.job(done.id).info()
    assert info is not None
    assert info.attempts == 3
    assert info.error is not None
    assert "broken thing" in info.error
    assert "ValueError" in info.error
    assert_sound(server, queue)


class Odd(BaseException):
    """Passes by `except Exception`."""


@pytest.mark.parametrize(
    "error", [StopIteration(), Odd("odd"), SystemExit(3), KeyError("k"), GeneratorExit()]
)
@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_whatever_a_handler_raises_ends_its_job(
    server: Server, queue: rota.Queue, kind: str, error: BaseException
) -> None:
    async def on_loop() -> None:
        raise error

    def in_thread() -> None:
        raise error

    task = queue.task(max_attempts=1)(on_loop if kind == "async" else in_thread)
    done = await task.enqueue()
    assert await burst(queue) == Drained(done=0, retried=0, dead=1, left=0)
    info = await queue.job(done.id).info()
    assert info is not None
    assert info.error is not None
    assert type(error).__name__ in info.error


async def test_the_signals_steer_their_job(server: Server, queue: rota.Queue) -> None:
    """C59 for the runtime: the first ending wins; a hand-back uses no attempt."""
    seen: Counter[str] = Counter()

    @queue.task(max_attempts=2)
    async def steer(signal: str) -> None:
        seen[signal] += 1
        if seen[signal] > 3:
            assert rota.current_job().attempt == (2 if signal == "retry" else 1)
            return
        if signal == "retry" and seen[signal] == 1:
            raise rota.Retry(0)
        if signal == "release":
            raise rota.Release(0.05)
        if signal == "limited":
            raise rota.RateLimited(0.1)
        if signal == "sequence":
            raise rota.RateLimited(0.1, scope="sequence")
        if signal == "bury":
            raise rota.Bury("enough")

    for name in ("retry", "release", "limited", "bury"):
        await steer.options(lane=name).enqueue(name)
    await steer.options(lane="s", ordering_key="k").enqueue("sequence")
    async with working(queue):
        await eventually_async(
            lambda: dump(server, queue).counts("stats").get("completed") == 4,
            "not all jobs were done",
        )
    assert seen == {"retry": 2, "release": 4, "limited": 4, "sequence": 4, "bury": 1}
    assert_sound(server, queue)


async def test_time_outs_cancel_async_handlers_and_let_threads_end(
    server: Server, queue: rota.Queue
) -> None:
    @queue.task(timeout=0.1, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(30)

    @queue.task(timeout=0.1, max_attempts=1)
    def threaded() -> None:
        time.sleep(0.3)

    done = await slow.enqueue()
    await threaded.enqueue()
    assert await burst(queue) == Drained(done=1, retried=0, dead=1, left=0)
    info = await queue.job(done.id).info()
    assert info is not None
    assert "timed out after 0.1 s" in (info.error or "")


async def test_unknown_and_unreadable_jobs_go_to_the_dead_and_the_worker_goes_on(
    server: Server, queue: rota.Queue
) -> None:
    """C50 scaled: every fifth of 25 is damaged in one of five ways."""
    ran = []

    @queue.task
    async def good(n: int) -> None:
        ran.append(n)

    specs = [good.spec(n) for n in range(25)]
    specs[0] = rota.JobSpec(task="unknown")
    specs[5] = rota.JobSpec(task="good", payload=b'{"n": ')
    specs[10] = rota.JobSpec(task="good", payload=b'{"m": 1}')
    await queue.enqueue_many(specs)
    raw, record = server.raw(decode=False), lambda n: queue.link.keys.key("job", specs[n].id)
    raw.set(record(15), raw.getrange(record(15), 0, 60))
    raw.delete(record(20))
    assert await burst(queue) == Drained(done=20, retried=0, dead=5, left=0)
    assert sorted(ran) == [n for n in range(25) if n % 5]
    bad = {specs[n].id for n in range(0, 25, 5)}
    assert dump(server, queue).get("dead").keys() == bad
    info = await queue.job(specs[5].id).info()
    assert info is not None
    assert info.payload == b'{"n": '


# ── sequences ───────────────────────────────────────────────────────────────────────────────────


async def test_a_sequences_next_job_starts_after_the_acceptance_of_the_one_before(
    server: Server, queue: rota.Queue
) -> None:
    """Asked of the server at each start; two workers, prefetch 4, handlers that give up."""
    starts: dict[str, list[int]] = {}
    failed: set[tuple[str, int]] = set()
    raw = server.raw()

    @queue.task(backoff=rota.Backoff(base=0.02, jitter=0))
    async def step(key: str, n: int, id: str) -> None:
        if n:
            before = queue.link.keys.key("job", f"{key}-{n - 1}")
            assert raw.exists(before) == 0, "the one before was not accepted yet"
        starts.setdefault(key, []).append(n)
        await asyncio.sleep(random.uniform(0, 0.004))
        if n % 3 == 1 and (key, n) not in failed:
            failed.add((key, n))
            raise random.Random(n).choice([rota.Retry(), rota.Release(), ValueError("again")])

    jobs = [
        step.options(lane=f"l{i % 2}", ordering_key=key, id=f"{key}-{n}").spec(key, n, f"{key}-{n}")
        for n in range(9)
        for i, key in enumerate("abcd")
    ]
    await queue.enqueue_many(jobs)
    async with working(queue, slots=3, prefetch=4), working(queue, slots=3, prefetch=4):
        await eventually_async(
            lambda: dump(server, queue).counts("stats").get("completed") == len(jobs),
            "not all jobs were done",
            timeout=PATIENCE,
        )
    expected = [0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8]
    assert starts == dict.fromkeys("abcd", expected)
    assert_drained(server, queue, done=len(jobs))


async def test_a_rate_limited_head_is_not_overtaken_by_what_was_taken_with_it(
    server: Server, queue: rota.Queue
) -> None:
    starts = []

    @queue.task
    async def step(n: int) -> None:
        starts.append(n)
        if starts == [0]:
            raise rota.RateLimited(0.2, scope="sequence")

    await queue.enqueue_many(step.options(lane="!o").spec(n) for n in range(4))
    async with working(queue):
        await eventually_async(lambda: len(starts) == 5, "not all jobs ran")
    assert starts == [0, 0, 1, 2, 3]
    assert_drained(server, queue, done=4)


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_sequence_goes_on_behind_a_handler_that_cancels_its_own_task(
    server: Server, queue: rota.Queue, awaits: bool
) -> None:
    starts = []

    @queue.task(max_attempts=1)
    async def step(n: int) -> None:
        starts.append(n)
        if n == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if awaits:
                await asyncio.sleep(0)

    await queue.enqueue_many(step.options(lane="!o").spec(n) for n in range(4))
    drained = await burst(queue)
    assert starts == [0, 1, 2, 3]
    assert drained == Drained(done=4 - awaits, retried=0, dead=int(awaits), left=0)
    assert_sound(server, queue)


async def test_a_sequence_goes_on_behind_a_job_that_fails_outside_its_handler(
    server: Server, queue: rota.Queue
) -> None:
    starts = []

    @queue.task(max_attempts=1)
    async def step(n: int) -> None:
        starts.append(n)
        if n == 1:
            signal = rota.Bury("a reason")
            signal.reason = None  # type: ignore[assignment]  # settling it fails
            raise signal

    await queue.enqueue_many(step.options(lane="!o").spec(n) for n in range(4))
    drained = await burst(queue)
    assert starts == [0, 1, 2, 3]
    assert drained == Drained(done=3, retried=0, dead=1, left=0)
    assert_sound(server, queue)


async def test_a_task_groups_signals_and_bodies_that_nobody_runs_end_their_jobs(
    server: Server, queue: rota.Queue
) -> None:
    async def part(signal: Exception) -> None:
        raise signal

    @queue.task
    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(part(rota.RateLimited(60)))
            group.create_task(part(rota.Retry(0)))

    @queue.task(max_attempts=1)
    def unrun() -> object:
        return (n for n in range(3))

    await grouped.options(lane="a").enqueue()
    await unrun.options(lane="b", id="unrun").enqueue()
    drained = await burst(queue)
    assert drained == Drained(done=0, retried=0, dead=1, left=1)
    found = assert_sound(server, queue)
    assert "l:a" in found.get("blocked")
    info = await queue.job("unrun").info()
    assert info
    assert info.error
    assert info.error.startswith("the handler returned a generator, whose body nobody runs")


async def test_a_dead_head_lets_go_or_holds_as_it_says(server: Server, queue: rota.Queue) -> None:
    """C33: starts A B C C C D E F F, then G only where the policy lets it."""
    starts: dict[str, list[str]] = {"skip": [], "hold": []}

    async def run(policy: str, name: str) -> None:
        starts[policy].append(name)
        if (name == "C" and starts[policy].count("C") < 3) or name == "F":
            raise ValueError(name)

    for policy in ("skip", "hold"):
        task = queue.task(
            name=policy,
            max_attempts=3,
            backoff=rota.Backoff(base=0.05, jitter=0),
            on_dead=policy,
        )(run)
        await queue.enqueue_many(task.options(lane=f"!{policy}").spec(policy, n) for n in "ABCDEFG")
    async with working(queue, prefetch=3):
        await eventually_async(
            lambda: len(dump(server, queue).get("dead")) == 2 and starts["skip"][-1:] == ["G"],
            "the sequences do not end",
        )
        await asyncio.sleep(0.1)
    assert starts["skip"] == list("ABCCCDEFFFG")
    assert starts["hold"] == list("ABCCCDEFFF")
    assert_sound(server, queue)


# ── slots and queues ────────────────────────────────────────────────────────────────────────────


async def test_two_queues_share_slots_in_rotation(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as big, open_queue(server, queue_name + "2") as small:
        order: list[str] = []

        async def work(which: str) -> None:
            order.append(which)
            await asyncio.sleep(0.002)

        for queue in (big, small):
            queue.task(work)
        await big.enqueue_many(big.tasks["work"].spec("big") for _ in range(200))
        await small.enqueue_many(small.tasks["work"].spec("small") for _ in range(30))
        assert (await burst(big, small, slots=2)).done == 230
        last_small = len(order) - 1 - order[::-1].index("small")
        assert last_small < 30 * 3, "the small queue starves"
        assert order[:last_small].count("big") > 20


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_an_idle_worker_costs_next_to_nothing(server: Server, queue: rota.Queue) -> None:
    async with working(queue):
        await asyncio.sleep(0.3)
        before = commands_sent(server)
        await asyncio.sleep(1.0)
        assert commands_sent(server) - before <= 2  # no beat, no renewal is due


@pytest.mark.parametrize("slots", [1, 10])
async def test_idle_queues_of_one_worker_do_not_squeeze_each_other(
    server: Server, queue_name: str, slots: int
) -> None:
    async with open_queue(server, queue_name) as one, open_queue(server, queue_name + "2") as two:
        ran = []

        @two.task
        async def work() -> None:
            ran.append(1)

        async with working(one, two, slots=slots):
            await asyncio.sleep(0.3)
            before = commands_sent(server)
            await asyncio.sleep(1.0)
            sent = commands_sent(server) - before
            assert sent <= 4  # no beat, no renewal is due
            await work.enqueue()
            await eventually_async(lambda: ran, "an idle queue's job does not run")


async def test_a_queue_whose_worker_is_full_is_served_by_another(
    server: Server, queue_name: str
) -> None:
    """The full process holds the bell of a queue it cannot serve: it passes it on."""
    async with (
        open_queue(server, queue_name) as busy,
        open_queue(server, queue_name + "2") as other,
        open_queue(server, queue_name + "2") as elsewhere,
    ):
        release, where = asyncio.Event(), []

        @busy.task
        async def hold() -> None:
            await release.wait()

        @other.task
        async def work() -> None:
            where.append("full")

        @elsewhere.task(name="work")
        async def work_elsewhere() -> None:
            where.append("free")

        async with working(busy, other, slots=2), working(elsewhere):
            await busy.enqueue_many(hold.spec() for _ in range(2))
            await eventually_async(
                lambda: dump(server, busy).counts("stats").get("running") == 2,
                "the slots do not fill",
            )
            for n in range(1, 6):
                await work.enqueue()
                await eventually_async(lambda: len(where) == n, "nobody runs the job")
            await other.enqueue(work.options(delay=0.2).spec())
            await eventually_async(lambda: len(where) == 6, "nobody keeps the time")
            release.set()
        assert where == ["free"] * 6


async def test_a_burst_of_two_queues_leaves_nothing_claimable(
    server: Server, queue_name: str
) -> None:
    """Lanes of ceiling 1, hand-backs, one slot: what an ending frees is looked for again."""
    async with open_queue(server, queue_name) as one, open_queue(server, queue_name + "2") as two:
        given_back: set[str] = set()

        async def work() -> None:
            job = rota.current_job()
            await asyncio.sleep(random.uniform(0, 0.003))
            if job.id not in given_back:
                given_back.add(job.id)
                raise rota.Release()

        for queue in (one, two):
            queue.task(work)
            await queue.set_lanes({"a": {"ceiling": 1}, "b": {"ceiling": 1}})
            await queue.enqueue_many(
                queue.tasks["work"].options(lane=lane).spec() for lane in "ab" * 15
            )
        assert await burst(one, two, slots=3) == Drained(done=60, retried=0, dead=0, left=0)


async def test_a_burst_leaves_and_counts_what_may_not_run(
    server: Server, queue: rota.Queue
) -> None:
    @queue.task
    async def work() -> None: ...

    await queue.lane("paused").pause()
    await queue.lane("blocked").block(60)
    for lane in ("paused", "blocked", "free"):
        await work.options(lane=lane).enqueue()
    await work.options(delay=60).enqueue()
    assert await burst(queue) == Drained(done=1, retried=0, dead=0, left=3)


# ── stopping ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_stop_gives_back_what_does_not_end_in_time(
    server: Server, queue: rota.Queue
) -> None:
    started = asyncio.Event()

    @queue.task
    async def work(seconds: float) -> None:
        started.set()
        await asyncio.sleep(seconds)

    await queue.enqueue_many([work.spec(0.1), work.spec(30), *(work.spec(0) for _ in range(50))])
    began = time.monotonic()
    async with working(queue, slots=2, grace=0.4):
        await started.wait()
    assert time.monotonic() - began < IN_TIME
    found = assert_sound(server, queue)
    assert found.counts("stats").get("running", 0) == 0
    assert found.get("attempts") == found.get("deaths") == {}
    assert found.counts("stats")["waiting"] >= 40


async def test_a_claim_on_its_way_at_the_stop_is_given_back_unrun(
    valkey: Server,
    proxy: Callable[[Server], Proxy],
    queue_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    between = proxy(valkey)
    async with open_queue(between.url, queue_name) as queue:
        ran = []

        @queue.task
        async def work() -> None:
            ran.append(1)
            await asyncio.sleep(5)

        @queue.task
        async def warm() -> None: ...

        await warm.enqueue()
        await burst(queue)
        await queue.enqueue_many(work.spec() for _ in range(3))
        exchange = queue.link.store.exchange

        def unheard(*args: Any, **settings: Any) -> Any:
            between.silent(replies_only=True)
            return exchange(*args, **settings)

        monkeypatch.setattr(queue.link.store, "exchange", unheard)
        async with working(queue, slots=2) as worker:
            await eventually_async(
                lambda: dump(valkey, queue).counts("stats").get("running") == 2, "no claim arrives"
            )
            monkeypatch.undo()
            worker.stop()
            between.pass_through()
        assert ran == []
        found = assert_sound(valkey, queue)
        assert found.counts("stats")["waiting"] == 3


async def test_a_stop_in_mid_air_loses_no_job(server: Server, queue: rota.Queue) -> None:
    """C01, 200 rounds scaled to 60: stop and publish in the same 50 ms; a fresh worker next."""
    ran: Counter[int] = Counter()
    rand = random.Random(1)

    @queue.task
    async def work(n: int) -> None:
        ran[n] += 1

    async def publish(n: int) -> None:
        await asyncio.sleep(rand.uniform(0, 0.05))
        await work.enqueue(n)
        assert set(server.raw().lrange(queue.link.keys.wake, 0, -1)) <= {"1"}

    for n in range(60):
        worker = Worker(queue, lease=LEASE, grace=1)
        run = asyncio.create_task(worker.run())
        publishing = asyncio.create_task(publish(n))
        await asyncio.sleep(rand.uniform(0, 0.05))
        worker.stop()
        await asyncio.gather(run, publishing)
    async with working(queue):
        await eventually_async(lambda: len(ran) == 60, "a job was lost")
    assert set(ran.values()) == {1}
    assert_drained(server, queue, done=60)


# ── losing the lease, losing the server ─────────────────────────────────────────────────────────


async def lose(server: Server, queue: rota.Queue) -> set[str]:
    """Marks every consumer of the queue dead, as a reap does. Returns their ids."""
    consumers = queue.link.keys.key("consumers")
    ids = set(server.raw().zrange(consumers, 0, -1))
    server.raw().zadd(consumers, dict.fromkeys(ids, float("-inf")))
    return ids


@pytest.mark.usefixtures("quick_renewals")
@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_worker_that_lost_its_lease_cancels_and_starts_anew(
    server: Server, queue: rota.Queue
) -> None:
    events: list[str] = []

    @queue.task
    async def work() -> None:
        events.append("start")
        try:
            if events.count("start") == 1:
                await asyncio.sleep(30)
        except asyncio.CancelledError:
            events.append("cancelled")
            raise
        events.append("end")

    await work.enqueue()
    async with working(queue, grace=1):
        await eventually_async(lambda: events == ["start"], "the job does not start")
        await lose(server, queue)
        await eventually_async(
            lambda: events == ["start", "cancelled", "start", "end"], f"{events}"
        )
        await eventually_async(
            lambda: dump(server, queue).counts("stats").get("completed") == 1, "it is not done"
        )
    assert_drained(server, queue, done=1)


@pytest.mark.usefixtures("quick_renewals")
@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_run_that_outlives_its_lease_does_not_settle_the_second_run(
    server: Server, queue: rota.Queue, kind: str
) -> None:
    """A thread, or a handler that ignores its cancelling: the same process has the job again,
    under another delivery, when the first run ends."""
    may_end = [threading.Event(), threading.Event()]
    events: list[str] = []

    async def on_loop() -> None:
        run = events.count("start")
        events.append("start")
        while not may_end[run].is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        events.append("end")

    def in_thread() -> None:
        run = events.count("start")
        events.append("start")
        assert may_end[run].wait(PATIENCE)
        events.append("end")

    task = queue.task(on_loop if kind == "async" else in_thread)
    await task.enqueue()
    async with working(queue, grace=1):
        await eventually_async(lambda: events == ["start"], "the job does not start")
        await lose(server, queue)
        await eventually_async(lambda: events == ["start"] * 2, "no second run")
        may_end[0].set()
        await eventually_async(lambda: "end" in events, "the first run does not end")
        await asyncio.sleep(0.1)
        assert dump(server, queue).counts("stats")["running"] == 1, "the first run settled it"
        may_end[1].set()
        await eventually_async(
            lambda: dump(server, queue).counts("stats").get("completed") == 1, "it is not done"
        )
    assert_drained(server, queue, done=1)


async def test_a_stop_does_not_wait_for_a_server_that_is_gone(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server()
    async with open_queue(server, queue_name) as queue:

        @queue.task
        async def work(seconds: float) -> None:
            await asyncio.sleep(seconds)

        await queue.enqueue_many([work.spec(0.5), work.spec(30)])
        async with working(queue, grace=0.8):
            await eventually_async(
                lambda: dump(server, queue).counts("stats").get("running") == 2, "nothing runs"
            )
            await asyncio.to_thread(server.kill)
            stopped = time.monotonic()
        assert time.monotonic() - stopped < IN_TIME


async def test_a_worker_survives_a_restart_of_its_server(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server(appendonly="yes", appendfsync="always")
    async with open_queue(server, queue_name) as queue:
        ran: Counter[int] = Counter()

        @queue.task
        async def work(n: int) -> None:
            ran[n] += 1
            await asyncio.sleep(0.002)

        await queue.enqueue_many(work.spec(n) for n in range(300))
        async with working(queue, slots=4):
            await eventually_async(lambda: len(ran) > 30, "nothing runs")
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)
            await eventually_async(lambda: len(ran) == 300, "it does not resume")
            await asyncio.to_thread(server.restart)  # idle this time
            await work.enqueue(300)
            await eventually_async(lambda: ran[300], "it does not resume")
        assert sum(ran.values()) - len(ran) <= 2 * 4, "more ran twice than were in flight"
        assert_drained(server, queue, done=301)


async def test_a_worker_reconciles_claims_of_unknown_outcome(
    valkey: Server, proxy: Callable[[Server], Proxy], queue_name: str
) -> None:
    """Replies are swallowed again and again; each job is done, once."""
    between = proxy(valkey)
    async with open_queue(between.url, queue_name) as queue:
        ran: Counter[int] = Counter()

        @queue.task
        async def work(n: int) -> None:
            ran[n] += 1
            await asyncio.sleep(0.005)

        await queue.enqueue_many(work.spec(n) for n in range(200))
        async with working(queue, slots=5):
            for _ in range(15):
                between.drop_reply_then_cut(after=b"EVALSHA")
                await asyncio.sleep(0.03)
            between.pass_through()
            await eventually_async(
                lambda: dump(valkey, queue).counts("stats").get("completed") == 200,
                "not all jobs were done",
            )
            assert all(not held for held in held_on_server(valkey, queue).values())
        assert between.dropped >= 5
        assert ran == Counter(range(200))
        assert_drained(valkey, queue, done=200)


async def test_a_job_with_a_death_behind_it_is_not_stranded_when_its_start_fails(
    server: Server, queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    @queue.task
    async def work() -> None:
        ran.append(rota.current_job().attempt)

    done = await work.enqueue()
    server.raw().hset(queue.link.keys.key("deaths"), done.id, 1)
    start, failures = queue.link.store.start, [rota.Unavailable("away")]

    def failing(*args: str) -> object:
        if failures:
            raise failures.pop()
        return start(*args)

    monkeypatch.setattr(queue.link.store, "start", failing)
    async with working(queue):
        await eventually_async(lambda: ran == [1], "the job does not run")
    assert_drained(server, queue, done=1)
