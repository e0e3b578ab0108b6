"""Records of a version that a worker does not know: others may, so they go back, in order."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

import rota
from rota.values.jobspec import RECORD_VERSION
from rota.worker import Worker
from tests.failures.tools import Hand, Timed, jobs
from tests.support.queues import assert_drained, assert_sound, dump
from tests.support.servers import Server
from tests.support.times import LEASE

NEWER = 99
READABLE: dict[str, Any] = {"colour": "blue"}
UNREADABLE: dict[str, Any] = {"max_attempts": "many", "expires_in": [1], "trace": {}}


def rewrite(server: Server, queue: rota.Queue, id: str, **fields: Any) -> None:
    """As another version would have written it."""
    raw, key = server.raw(decode=False), queue.link.keys.key("job", id)
    record: Any = raw.get(key)
    prefix, header, rest = record.split(b"\n", 2)
    header = msgspec.json.encode(msgspec.json.decode(header) | fields)
    raw.set(key, b"\n".join([prefix, header, rest]))


def recording(queue: rota.Queue) -> list[tuple[str, int]]:
    """Registers `work`; what it has run, and which attempt that was."""
    ran: list[tuple[str, int]] = []

    @queue.task(name="work")
    async def work() -> None:
        job = rota.current_job()
        ran.append((job.id, job.attempt))

    return ran


async def burst(queue: rota.Queue) -> rota.Drained:
    return await Worker(queue, lease=LEASE, concurrency=4).run(burst=True)


@pytest.mark.parametrize("shape", [READABLE, UNREADABLE], ids=["readable", "unreadable"])
@pytest.mark.parametrize(
    ("lane", "key"), [("a", None), ("a", "k"), ("!o", None)], ids=["plain", "key", "lane"]
)
async def test_a_newer_record_goes_back_until_a_newer_worker_comes(
    server: Server,
    timed: Timed,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    lane: str,
    key: str | None,
    shape: dict[str, Any],
) -> None:
    queue, clock = timed.queue, timed.clock
    caplog.set_level(logging.WARNING)
    ran = recording(queue)
    await queue.lane(lane).set(ceiling=1, rate=rota.Rate(1000, per=1, burst=4))
    await queue.enqueue_many(jobs(["x", "y", "z"], lane, ordering_key=key))
    rewrite(server, queue, "y", v=NEWER, **shape)
    ordered = lane == "!o" or key is not None
    before = [("x", 1)] if ordered else [("x", 1), ("z", 1)]
    left = 3 - len(before)
    assert await burst(queue) == rota.Drained(done=len(before), retried=0, dead=0, left=left)
    assert ran == before
    for n, pause in enumerate((1000, 2000, 4000), 1):
        clock.advance(pause - 1)
        assert (await burst(queue)).left == left
        assert dump(server, queue).counts("releases") == {"y": n}
        clock.advance(1)
        assert (await burst(queue)).left == left
        assert dump(server, queue).counts("releases") == {"y": n + 1}
        assert_sound(server, queue)
    assert ran == before
    assert not dump(server, queue).counts("attempts")

    info = await queue.job("y").info()
    assert info is not None
    assert (info.task, info.lane, info.ordering_key, info.attempts) == ("work", lane, key, 0)
    assert info.payload == b"{}"
    assert f"version {NEWER}" in (info.error or "")
    explained = await queue.job("y").explain()
    assert explained is not None
    assert any(f"version {NEWER}" in reason.text for reason in explained.reasons)
    said = [one for one in caplog.records if f"version {NEWER}" in one.getMessage()]
    assert len(said) == 4  # of each worker once
    assert (vars(said[0])["job"], vars(said[0])["task"]) == ("y", "work")

    if shape is UNREADABLE:
        rewrite(server, queue, "y", max_attempts=5, expires_in=None, trace=None)
    monkeypatch.setattr("rota.values.model.RECORD_VERSION", NEWER)
    clock.advance(8000)
    assert (await burst(queue)).done == left
    assert ran == before + [("y", 1), ("z", 1)][:left]
    assert_drained(server, queue, done=3)


async def test_a_flood_of_newer_records_is_said_once_and_spins_nobody(
    server: Server, timed: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    queue = timed.queue
    caplog.set_level(logging.WARNING)
    ran = recording(queue)
    names = [f"{n}" for n in range(50)]
    await queue.enqueue_many(jobs([*names, "old"]))
    for name in names:
        rewrite(server, queue, name, v=NEWER)
    assert await burst(queue) == rota.Drained(done=1, retried=0, dead=0, left=50)
    assert ran == [("old", 1)]
    assert len([one for one in caplog.records if "version" in one.getMessage()]) == 1
    assert set(dump(server, queue).counts("releases").values()) == {1}


@pytest.mark.parametrize("face", ["async", "blocking"])
async def test_a_consumer_by_hand_gives_it_back_too(
    server: Server, timed: Timed, face: str
) -> None:
    queue = timed.queue
    await queue.enqueue_many(jobs(["x", "y"]))
    rewrite(server, queue, "x", v=NEWER)
    if face == "async":
        async with queue.consumer() as consumer:
            assert [job.id for job in await consumer.claim(2)] == ["y"]
    else:
        with queue.sync.consumer() as blocking:
            assert [job.id for job in blocking.claim(2)] == ["y"]
    assert dump(server, queue).counts("releases") == {"x": 1}
    assert_sound(server, queue)


async def test_a_newer_record_among_the_dead_still_says_what_it_is(
    server: Server, timed: Timed
) -> None:
    queue = timed.queue
    await queue.enqueue_many(jobs(["x"], "t7"))
    rewrite(server, queue, "x", v=NEWER, **UNREADABLE)
    hand = await Hand(queue).join()
    assert await hand.claim() == ["x"]
    await hand.settle("x", "bury", error='{"error":"by hand"}')
    (dead,) = await queue.dead.list(lane="t7", task="work")
    assert (dead.id, dead.task, dead.lane, dead.error) == ("x", "work", "t7", "by hand")
    assert await queue.dead.replay("x") == ["ok"]
    assert_sound(server, queue)


@pytest.mark.parametrize("version", ["99", 1.5, True, None, [2]])
async def test_a_version_that_is_no_number_is_damage(
    server: Server, timed: Timed, version: object
) -> None:
    queue = timed.queue
    recording(queue)
    await queue.enqueue_many(jobs(["x"]))
    rewrite(server, queue, "x", v=version)
    assert await burst(queue) == rota.Drained(done=0, retried=0, dead=1, left=0)


async def test_what_a_reader_may_skip_needs_no_new_version(server: Server, timed: Timed) -> None:
    queue = timed.queue
    ran = recording(queue)
    await queue.enqueue_many(jobs(["x", "y"]))
    rewrite(server, queue, "x", **READABLE)
    rewrite(server, queue, "y", v=RECORD_VERSION)
    assert (await burst(queue)).done == 2
    assert sorted(ran) == [("x", 1), ("y", 1)]


async def test_a_line_that_is_not_read_yet_is_passed_over_and_kept(
    server: Server, timed: Timed
) -> None:
    queue, raw = timed.queue, server.raw(decode=False)
    given: list[tuple[str, str]] = []

    @queue.task
    async def work(text: str) -> None:
        given.append((rota.current_job().id, text))

    names = ["x", "y", "z"]
    payload = b'{"text":"two\\nlines"}'
    await queue.enqueue_many(jobs(names, "b", payload=payload))
    meta = b'{"user":"7","v":"99"}'
    for name in names:
        key = queue.link.keys.key("job", name)
        record: Any = raw.get(key)
        prefix, header, line, rest = record.split(b"\n", 3)
        assert (line, rest) == (b"", payload)
        raw.set(key, b"\n".join([prefix, header, meta, rest]))
    await queue.lane("b").move("a")
    await queue.lane("a").reprioritize(7)
    for name in names:
        moved: Any = raw.get(queue.link.keys.key("job", name))
        _, header, *rest = moved.split(b"\n", 3)
        assert (msgspec.json.decode(header)["lane"], rest) == ("a", [meta, payload])
        info = await queue.job(name).info()
        assert info is not None
        assert (info.priority, info.payload) == (7, payload)
    assert (await burst(queue)).done == 3
    assert given == [(name, "two\nlines") for name in names]
