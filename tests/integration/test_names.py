"""C46: odd names as queue, lane, ordering key, id and task, from enqueue to done.

A name is either refused with a typed error before anything is written, or works everywhere; and
two different names never share a key.
"""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator
from typing import Any

import pytest

import rota
from rota.errors import ConfigError
from rota.script.keys import CATALOGUE, Keys
from tests.model import audit
from tests.support.queues import assert_sound
from tests.support.servers import Server
from tests.support.times import IN_TIME

NFC, NFD = "café", unicodedata.normalize("NFD", "café")
ODD = [
    "a:b", "{x}", "}{", "}", " ", "  ", "/", "..", "#", "?", "+", "%2F", "%s", "*", "[a-z]", "\\",
    "\\1", "'", '"', "]]", "🎉", NFC, NFD, "\u200fabc", "\u2028", "0", "-1", "1e5", "nil", "null",
    "paused", "ring", "g:x:pending", "1:a", "x" * 200, "é" * 100, "a!", "+inf", "-inf",
    "\u00a0", "ﷺ", "\ufeff", "\ue000",
]  # fmt: skip
REFUSED = ["", "\0", "a\0b", "a\nb", "\r", "\t", "\x7f", "\x85", "\ud800", "x" * 201, "x" * 10_240]


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    queue = rota.Queue(queue_name, url=server.url)
    yield queue
    await queue.close()
    if len(server.keys()) < 2000:  # the audit looks key by key
        assert_sound(server, queue)


async def left_behind(server: Server, queue: rota.Queue) -> set[str]:
    """The kinds of keys a drained queue has left, receipts apart."""
    keys = Keys(queue.name)
    constant = {keys.key(kind.name): kind.name for kind in CATALOGUE if kind.parameter is None}
    transient = tuple(keys.root + kind for kind in audit.TRANSIENT)
    found = {key for key in server.keys() if not key.startswith(transient)}
    return {constant.get(key, key) for key in found}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.legs("valkey", "cluster")
async def test_odd_names_go_all_the_way(server: Server, queue: rota.Queue, ordered: bool) -> None:
    """As lane, key, id and task at once: enqueued, listed, claimed, retried, done, and gone."""
    mark = "!" if ordered else ""
    odd = [name for name in ODD if len((mark + name).encode()) <= 200]
    batch = [
        rota.JobSpec(
            task=name,
            lane=mark + name,
            ordering_key=None if ordered else name,
            id=name,
            payload=b"[]",
        )
        for name in odd
    ]
    outcomes = await queue.enqueue_many(batch)
    assert [done.outcome for done in outcomes] == ["created"] * len(odd)
    assert {lane.name for lane in await queue.lanes()} == {mark + name for name in odd}
    async with queue.consumer() as consumer:
        jobs = await consumer.claim(len(odd))
        assert {(job.id, job.task, job.lane, job.ordering_key) for job in jobs} == {
            (spec.id, spec.task, spec.lane, spec.ordering_key) for spec in batch
        }
        assert await consumer.retry(jobs, delay=0) == ["ok"] * len(odd)
        jobs = await consumer.claim(len(odd))
        assert [job.attempt for job in jobs] == [2] * len(odd)
        for name in odd:
            info = await queue.job(name).info()
            assert info is not None
            assert (info.state, info.task) == ("running", name)
        assert await consumer.complete(jobs) == ["ok"] * len(odd)
    assert await left_behind(server, queue) <= {"config", "seq", "stats", "vt", "owed", "wake"}


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.legs("valkey", "cluster")
async def test_odd_lanes_can_be_steered(server: Server, queue: rota.Queue, delayed: bool) -> None:
    for i, name in enumerate(ODD):
        lane = queue.lane(name)
        await lane.set(ceiling=1 + i % 3, weight=1 + i % 5)
        if i % 2:
            await lane.pause(reason="odd", until=2_000_000_000 if delayed else None)
        else:
            await lane.block(3600)
    await queue.enqueue_many([rota.JobSpec(task="t", lane=name) for name in ODD])
    async with queue.consumer() as consumer:
        assert await consumer.claim(len(ODD)) == []
        for i, name in enumerate(ODD):
            lane = queue.lane(name)
            info = await lane.info()
            assert (info.name, info.waiting, info.ceiling) == (name, 1, 1 + i % 3)
            assert info.state == ("paused" if i % 2 else "blocked")
            assert await (lane.resume() if i % 2 else lane.unblock())
        jobs = await consumer.claim(len(ODD))
        assert {job.lane for job in jobs} == set(ODD)
        await consumer.complete(jobs)


@pytest.mark.legs("valkey", "cluster")
async def test_odd_names_wait_out_a_delay(queue: rota.Queue) -> None:
    batch = [
        rota.JobSpec(task="t", lane=name, ordering_key=name, id=name, delay_ms=1) for name in ODD
    ]
    await queue.enqueue_many(batch)
    async with queue.consumer() as consumer:
        jobs: list[rota.Job] = []
        while len(jobs) < len(ODD):
            found = await consumer.claim(len(ODD), wait=IN_TIME)
            assert found, "the delayed jobs did not come"
            jobs += found
        assert {job.id for job in jobs} == set(ODD)
        await consumer.complete(jobs)


@pytest.mark.legs("valkey", "cluster")
async def test_names_that_look_alike_stay_apart(queue: rota.Queue) -> None:
    """Lane `a` with key `b:c` and lane `a:b` with key `c`; one letter in two forms."""
    pairs = [
        ("a", "b:c"), ("a:b", "c"), ("a:b:c", "x"), ("1:a", "b"), ("1", "a:b"), ("3:a:b", "c"),
        (NFC, "k"), (NFD, "k"), ("k", NFC), ("k", NFD), ("K", "k"), ("k ", "k"), (" k", "k"),
    ]  # fmt: skip
    batch = [
        rota.JobSpec(task=f"{lane}|{key}", lane=lane, ordering_key=key)
        for lane, key in pairs
        for _ in range(2)
    ]
    await queue.enqueue_many(batch)
    async with queue.consumer(prefetch=10) as consumer:
        jobs = await consumer.claim(100)
        assert len(jobs) == 2 * len(pairs)
        assert all(job.task == f"{job.lane}|{job.ordering_key}" for job in jobs)
        await consumer.complete(jobs)
    assert (await queue.info()).waiting == 0


@pytest.mark.parametrize("name", [n for n in ODD if "{" not in n and "}" not in n], ids=ascii)
@pytest.mark.legs("valkey", "cluster")
async def test_a_queue_may_have_an_odd_name(server: Server, name: str) -> None:
    queue, other = (
        rota.Queue(name, url=server.url),
        rota.Queue(name + "x", url=server.url)
        if len(name.encode()) < 200
        else rota.Queue("x", url=server.url),
    )
    await queue.enqueue(rota.JobSpec(task="t", id="j"))
    assert (await other.info()).waiting == 0
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        assert await consumer.complete(job) == ["ok"]
    await queue.close()
    await other.close()


@pytest.mark.parametrize("name", ["{x}", "}{", "a{", "}", "a:7", ":0", *REFUSED], ids=ascii)
def test_a_queues_name_outside_the_rules_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="queue: expected"):
        rota.Queue(name)


@pytest.mark.parametrize("name", [*REFUSED, None, 5, b"a"], ids=lambda n: ascii(n)[:20])
async def test_a_name_outside_the_rules_is_refused_everywhere(
    server: Server, queue: rota.Queue, name: Any
) -> None:
    refusing = [
        lambda: queue.lane(name),
        lambda: queue.sync.lane(name),
        lambda: queue.job(name),
        lambda: queue.sync.job(name),
        lambda: rota.JobSpec(task=name),
        lambda: rota.JobSpec(task="t", lane=name),
        lambda: rota.JobSpec(task="t", id=name),
        lambda: queue.sync.set_lanes({name: {"ceiling": 1}}),
    ]
    for refuse in refusing:
        with pytest.raises(ConfigError, match="expected 1-200 bytes of text"):
            refuse()
    with pytest.raises(ConfigError, match="expected 1-200 bytes of text"):
        await queue.set_lanes({"fine": {"ceiling": 1}, name: {"ceiling": 1}})
    assert server.keys() == []
