"""Cancelling: what a worker does with it, what consumers see, both faces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import rota
from rota.errors import ConfigError
from tests.failures.tools import Hand, beat, stats, until_done, working
from tests.support.queues import assert_drained, assert_sound, dump, ids, open_queue, specs
from tests.support.servers import Server
from tests.support.times import PATIENCE
from tests.support.waiting import eventually, eventually_async

BEAT = 0.2


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(server, queue_name, beat=BEAT) as queue:
        yield queue


class Log:
    """What handlers said, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, word: str) -> None:
        self.said.append(f"{rota.current_job().id}: {word}")

    async def hears(self, *words: str) -> None:
        await eventually_async(
            lambda: set(words) <= set(self.said), f"not said: {words}, but {self.said}"
        )


@pytest.fixture
def log() -> Log:
    return Log()


def assert_gone(server: Server, queue: rota.Queue, cancelled: int) -> None:
    """So many were cancelled, no flag is left, and the keys are sound."""
    found = assert_sound(server, queue)
    assert found.counts("stats").get("cancelled", 0) == cancelled
    assert "cancels" not in found.types


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_long_async_handler_is_stopped_soon(
    server: Server, queue: rota.Queue, log: Log
) -> None:
    @queue.task(max_attempts=1)
    async def sleeper() -> None:
        log.say("began")
        try:
            await asyncio.sleep(60)
        finally:
            log.say(f"ended, {rota.current_job().cancelled}")

    await sleeper.options(id="long").enqueue()
    await sleeper.options(id="other").enqueue()
    async with working(queue) as worker:
        await log.hears("long: began", "other: began")
        assert await queue.job("long").cancel(by="ops") == "asked"
        assert await queue.job("long").cancel() == "asked"
        await until_done(server, queue, 1, name="cancelled")
        assert log.said[2:] == ["long: ended, True"]
        assert worker.running == 1
        assert await queue.job("long").info() is None
        assert await queue.job("long").cancel() == "none"
        assert_gone(server, queue, 1)
        assert await queue.job("other").cancel() == "asked"
        await until_done(server, queue, 2, name="cancelled")
    assert_drained(server, queue, done=0)


async def test_the_slot_is_free_for_other_work(server: Server, queue: rota.Queue) -> None:
    @queue.task
    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)

    await sleeper.options(id="long").enqueue(60)
    async with working(queue, slots=1) as worker:
        await eventually_async(lambda: worker.running == 1, "it does not begin")
        await sleeper.enqueue(0)
        assert await queue.job("long").cancel() == "asked"
        await until_done(server, queue, 1)
    assert_gone(server, queue, 1)


@pytest.mark.parametrize("made_of_it", ["done", "failed", "retry", "rate limited", "buried"])
async def test_what_a_handler_makes_of_it(
    server: Server, queue: rota.Queue, log: Log, made_of_it: str
) -> None:
    """Done is done, and buried is buried; everything else is cancelled, attempts left or not."""

    @queue.task(max_attempts=1)
    async def stubborn() -> None:
        log.say("began")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            log.say("asked")
        await asyncio.sleep(0)
        match made_of_it:
            case "failed":
                raise ValueError("broken off")
            case "retry":
                raise rota.Retry(1)
            case "rate limited":
                raise rota.RateLimited(0.01)
            case "buried":
                raise rota.Bury("so that someone looks")

    await stubborn.options(id="j").enqueue()
    async with working(queue):
        await log.hears("j: began")
        await queue.job("j").cancel()
        name = {"done": "completed", "buried": "buried"}.get(made_of_it, "cancelled")
        await until_done(server, queue, 1, name=name)
    assert_gone(server, queue, int(name == "cancelled"))
    assert len(await queue.dead.list()) == int(made_of_it == "buried")


async def test_a_handler_that_times_out_when_asked_is_cancelled_once(
    server: Server, queue: rota.Queue, log: Log
) -> None:
    """A time-out and a cancel at the same time: the next job of the slot runs as any other."""

    @queue.task(max_attempts=1, timeout=BEAT)
    async def slow() -> None:
        log.say("began")
        await asyncio.sleep(60)

    @queue.task
    async def quick() -> None:
        await asyncio.sleep(0.01)

    await slow.options(id="j", lane="!o").enqueue()
    await quick.options(lane="!o").enqueue()
    async with working(queue):
        await log.hears("j: began")
        await queue.job("j").cancel()
        await until_done(server, queue, 1)
    counts = stats(server, queue)
    assert counts.get("cancelled", 0) + counts.get("buried", 0) == 1
    assert_sound(server, queue)


async def test_a_plain_function_sees_the_flag(server: Server, queue: rota.Queue, log: Log) -> None:
    seen = threading.Event()

    @queue.task
    def in_thread() -> None:
        log.say("began")
        job = rota.current_job()
        eventually(lambda: job.cancelled, "the flag is not seen")
        seen.set()
        raise InterruptedError

    await in_thread.options(id="j").enqueue()
    async with working(queue):
        await log.hears("j: began")
        assert await queue.job("j").cancel() == "asked"
        await until_done(server, queue, 1, name="cancelled")
    assert seen.is_set()
    assert_gone(server, queue, 1)


async def test_a_plain_function_that_does_not_look_is_done(
    server: Server, queue: rota.Queue, log: Log
) -> None:
    go_on = threading.Event()
    jobs: list[rota.Job] = []

    @queue.task
    def in_thread() -> None:
        jobs.append(rota.current_job())
        log.say("began")
        assert go_on.wait(PATIENCE)

    await in_thread.options(id="j").enqueue()
    async with working(queue):
        await log.hears("j: began")
        await queue.job("j").cancel()
        await eventually_async(lambda: jobs[0].cancelled, "the worker is not told")
        go_on.set()
        await until_done(server, queue, 1)
    assert_gone(server, queue, 0)


async def test_an_async_handler_behind_a_plain_wrapper_is_stopped(
    server: Server, queue: rota.Queue, log: Log
) -> None:
    async def inner() -> None:
        log.say("began")
        await asyncio.sleep(60)

    @queue.task
    def wrapped() -> Any:
        return inner()

    await wrapped.options(id="j").enqueue()
    async with working(queue):
        await log.hears("j: began")
        await queue.job("j").cancel()
        await until_done(server, queue, 1, name="cancelled")
    assert_gone(server, queue, 1)


@pytest.mark.parametrize("whole_lane", [True, False])
async def test_a_prefetched_job_of_a_sequence_is_not_run(
    server: Server, queue: rota.Queue, log: Log, whole_lane: bool
) -> None:
    go_on = asyncio.Event()

    @queue.task
    async def step() -> None:
        log.say("began")
        await go_on.wait()
        log.say("done")

    for n in range(4):
        await step.options(id=f"s{n}", lane="!o").enqueue()
    async with working(queue, prefetch=4) as worker:
        await log.hears("s0: began")
        if whole_lane:
            await step.options(id="w", lane="!o").enqueue()
            assert await queue.lane("!o").cancel() == rota.Cancelled(removed=1, asked=4)
            await until_done(server, queue, 5, name="cancelled")
            assert log.said == ["s0: began"]
        else:
            held = worker._fetchers[0]._deliveries.jobs
            assert [*held] == ["s0", "s1", "s2", "s3"]
            for id in ("s1", "s3"):
                assert await queue.job(id).cancel() == "asked"
            await eventually_async(
                lambda: held["s1"].cancelled and held["s3"].cancelled, "the worker is not told"
            )
            go_on.set()
            await until_done(server, queue, 2)
            await until_done(server, queue, 2, name="cancelled")
            assert log.said == ["s0: began", "s0: done", "s2: began", "s2: done"]
    assert_gone(server, queue, 5 if whole_lane else 2)


async def test_a_lane_that_runs_is_stopped(server: Server, queue: rota.Queue, log: Log) -> None:
    @queue.task(lane_from="lane")
    async def sleeper(lane: str) -> None:
        log.say("began")
        await asyncio.sleep(60 if lane == "a" else 2 * BEAT)

    await queue.enqueue_many(sleeper.spec(lane) for lane in "ab" * 20)
    async with working(queue, slots=10):
        await eventually_async(lambda: len(log.said) >= 10, "nothing begins")
        done = await queue.lane("a").cancel(by="ops")
        assert done.removed + done.asked == 20
        assert done.asked >= 5
        await until_done(server, queue, 20)
        await until_done(server, queue, 20, name="cancelled")
    assert_gone(server, queue, 20)
    assert (await queue.info()).waiting == 0


async def test_the_death_of_a_worker_ends_a_flagged_job(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many(specs(2))
    hand = await Hand(queue, lease=1).join()
    first, second = await hand.claim(2)
    assert await queue.job(first).cancel() == "asked"
    await eventually_async(
        lambda: len(dump(server, queue).get("consumers")) == 1, "the consumer is not there"
    )

    async def reaped() -> bool:
        await beat(queue)
        return "consumers" not in dump(server, queue).types

    await eventually_async(reaped, "its jobs are not taken back")
    assert await queue.job(first).info() is None
    info = await queue.job(second).info()
    assert info is not None
    assert info.state == "waiting"
    assert_gone(server, queue, 1)


async def test_a_stopping_worker_gives_nothing_back_that_was_asked(
    server: Server, queue_name: str, log: Log
) -> None:
    """Also what it was not told of yet: the beat is far off."""
    async with open_queue(server, queue_name) as queue:

        @queue.task
        async def sleeper() -> None:
            log.say("began")
            await asyncio.sleep(60)

        for id in ("s0", "s1"):
            await sleeper.options(id=id, lane="!o").enqueue()
        await sleeper.options(id="other").enqueue()
        async with working(queue, grace=0):
            await log.hears("s0: began", "other: began")
            for id in ("s0", "s1"):
                assert await queue.job(id).cancel() == "asked"
        assert_gone(server, queue, 2)
        info = await queue.job("other").info()
        assert info is not None
        assert info.state == "waiting"


async def test_while_nothing_is_flagged_nothing_more_is_sent(
    server: Server, queue: rota.Queue
) -> None:
    """Flags are looked for only where a beat says that there are any."""
    asked: list[object] = []
    look = queue.link.store.asked

    def watched(consumers: Sequence[str]) -> Any:
        asked.append(consumers)
        return look(consumers)

    queue.link.store.asked = watched  # type: ignore[method-assign]
    beats = 0
    keep_time = queue.link.store.keep_time

    def counted(**settings: int) -> Any:
        nonlocal beats
        beats += 1
        return keep_time(**settings)

    queue.link.store.keep_time = counted  # type: ignore[method-assign]
    await queue.enqueue_many(specs(1))
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        await eventually_async(lambda: beats > 2, "nobody keeps the time")
        assert not asked
        await queue.job(job.id).cancel()
        await eventually_async(lambda: job.cancelled, "the flag is not seen")
        assert asked
        assert await consumer.complete(job) == ["ok"]


# ── consumers by hand, and the blocking face ────────────────────────────────────────────────────


async def test_a_consumer_by_hand_sees_the_flag_and_decides(
    server: Server, queue: rota.Queue
) -> None:
    await queue.enqueue_many(specs(3))
    async with queue.consumer() as consumer:
        jobs = await consumer.claim(3)
        for job in jobs[:2]:
            assert await queue.job(job.id).cancel() == "asked"
        await eventually_async(lambda: jobs[1].cancelled, "the flag is not seen")
        assert [job.cancelled for job in jobs] == [True, True, False]
        assert ids(consumer.held) == ids(jobs)
        assert await consumer.complete(jobs[0]) == ["ok"]
        assert await consumer.retry(jobs[1], delay=5, error="stopped") == ["ok"]
        assert await consumer.release(jobs[2]) == ["ok"]
        again = await consumer.claim(3)
        assert ids(again) == [jobs[2].id]
        assert not again[0].cancelled
        await consumer.complete(again)
    assert_gone(server, queue, 1)
    assert_drained(server, queue, done=2)


def test_the_blocking_face(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url, beat=BEAT)
    try:
        queue.sync.enqueue_many([*specs(3), *specs(2, "b")])
        with queue.sync.consumer() as consumer:
            jobs = consumer.claim(2)
            assert queue.sync.job(jobs[0].id).cancel(by="ops") == "asked"
            eventually(lambda: jobs[0].cancelled, "the flag is not seen")
            assert consumer.release(jobs) == ["ok", "ok"]
        assert queue.sync.job(jobs[0].id).cancel() == "none"
        assert queue.sync.job(jobs[1].id).cancel() == "cancelled"
        found = queue.sync.lane("a").cancel(by="ops")
        assert (found.removed, found.asked) == (2 if jobs[1].lane == "b" else 1, 0)
        assert queue.sync.lane("b").purge() == 3 - found.removed
        assert_sound(server, queue)
    finally:
        queue.sync.close()


async def test_who_asks_is_text_of_some_length(queue: rota.Queue) -> None:
    with pytest.raises(ConfigError, match="by: expected text of at most 1000 bytes"):
        await queue.job("j").cancel(by="x" * 1001)
    with pytest.raises(ConfigError, match="by: expected text"):
        await queue.lane("a").cancel(by=5)  # type: ignore[arg-type]
