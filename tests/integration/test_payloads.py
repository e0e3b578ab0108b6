"""C48 and C49: payloads of any size, and values that come back as they went in or are refused.

C48's 100 MB and 513 MB are scaled down: a payload may have 64 MiB at most, and the largest that
travels here is 8 MiB; the batch of 1.1 million tiny ones is part of test_bulk.py, by 20,000.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import rota
from rota.errors import ConfigError, PayloadError
from rota.script.keys import Keys
from tests.support.queues import assert_sound
from tests.support.servers import Server
from tests.support.times import IN_TIME

MIB = 1024 * 1024


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    queue = rota.Queue(queue_name, url=server.url)
    yield queue
    await queue.close()
    if len(server.keys()) < 2000:  # the audit looks key by key
        assert_sound(server, queue)


def spec_of(size: int, **fields: Any) -> rota.JobSpec:
    return rota.JobSpec(task="t", payload=b"x" * size, **fields)


# ── C48: sizes ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 2049, 65_536, MIB])
async def test_a_payload_of_any_size_up_to_the_limit_travels(queue: rota.Queue, size: int) -> None:
    await queue.enqueue(spec_of(size))
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        assert job.payload == b"x" * size
        await consumer.retry(job, delay=0)
        (job,) = await consumer.claim()
        assert job.payload == b"x" * size
        await consumer.complete(job)


async def test_a_payload_over_the_limit_is_refused(server: Server, queue: rota.Queue) -> None:
    for attempt in (queue.enqueue(spec_of(MIB + 1)), queue.enqueue_many([spec_of(MIB + 1)])):
        with pytest.raises(PayloadError, match="at most 1048576 bytes .max_payload., given 104857"):
            await attempt
    assert server.keys() == []


async def test_a_queue_may_allow_larger_payloads(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url, max_payload=8 * MIB)
    await queue.enqueue_many([spec_of(8 * MIB, id=f"j{i}") for i in range(3)])
    async with queue.consumer() as consumer:
        for i in range(3):
            (job,) = await consumer.claim(10)
            assert (job.id, len(job.payload)) == (f"j{i}", 8 * MIB)
            await consumer.complete(job)
    with pytest.raises(PayloadError):
        await queue.enqueue(spec_of(8 * MIB + 1))
    with pytest.raises(
        ConfigError, match="max_payload: expected a whole number from 1 to 67108864"
    ):
        rota.Queue(queue_name, max_payload=64 * MIB + 1)
    await queue.close()


@pytest.mark.parametrize("where", ["lane", "lanes", "sequence"])
async def test_a_claim_brings_two_mebibytes_at_most(queue: rota.Queue, where: str) -> None:
    fields: dict[str, Any] = {"ordering_key": "k"} if where == "sequence" else {}
    batch = [
        spec_of(400_000, id=f"j{i}", lane=f"t{i if where == 'lanes' else 0:02}", **fields)
        for i in range(12)
    ]
    await queue.enqueue_many(batch)
    seen: list[str] = []
    async with queue.consumer(prefetch=100) as consumer:
        while len(seen) < 12:
            jobs = await consumer.claim(100)
            assert 1 <= len(jobs) <= 5, "at most 2 MiB, and progress"
            seen += [job.id for job in jobs]
            await consumer.complete(jobs)
    assert seen == [f"j{i}" for i in range(12)], "in turn order, nothing skipped"


async def test_small_payloads_do_not_pay_for_the_bound(server: Server, queue: rota.Queue) -> None:
    """Only once a payload over 2 KiB was enqueued does a claim ask for sizes."""
    await queue.enqueue_many([spec_of(2048) for _ in range(3)])
    config = Keys(queue.name).config
    assert server.raw().hget(config, "large") is None
    await queue.enqueue(spec_of(2049))
    assert server.raw().hget(config, "large") == "1"


async def test_large_payloads_travel_in_calls_of_bounded_size(
    server: Server, queue: rota.Queue
) -> None:
    outcomes = await queue.enqueue_many([spec_of(700_000) for _ in range(5)])
    assert [done.outcome for done in outcomes] == ["created"] * 5
    receipts = [key for key in server.keys() if key.startswith(Keys(queue.name).root + "sent:")]
    assert len(receipts) == 3, "two, two and one"


async def test_an_error_text_is_bounded(server: Server, queue: rota.Queue) -> None:
    await queue.enqueue_many([spec_of(1, id="retried"), spec_of(1, id="dead")])
    async with queue.consumer() as consumer:
        retried, dead = await consumer.claim(2)
        await consumer.retry(retried, delay=60, error="é" * 5_000_000)
        await consumer.bury(dead, "\ud800" + "x" * 5_000_000)
    for name in ("retried", "dead"):
        info = await queue.job(name).info()
        assert info is not None
        assert info.error is not None
        assert 1000 < len(info.error) < 10_000


# ── C49: values ─────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Money:
    amount: Decimal
    currency: str


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


SURVIVE: dict[str, Any] = {
    "none": None, "true": True, "false": False, "zero": 0, "minus": -1, "2^53+1": 2**53 + 1,
    "2^63": 2**63, "18 digits": 130775545883395173, "10^30": 10**30, "float": 0.1,
    "minus zero": -0.0, "tiny": 5e-324, "huge": 1.7976931348623157e308, "1.0": 1.0,
    "empty": "", "text": "é🎉\u2028\x00\x1f\"\\/", "list": [], "lists": [[]], "dict": {},
    "mixed": {"a": [1, {"b": None}], "": [], "é": {"x": {}}}, "nested 100": nested(100),
}  # fmt: skip
REFUSED: dict[str, Any] = {
    "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "nan inside": {"a": [math.nan]},
    "surrogate": "\ud800", "surrogate key": {"\ud800": 1}, "int keys": {1: "a"},
    "none key": {None: 1}, "set": {1, 2}, "tuple": (1, 2), "bytes": bytes(range(256)),
    "decimal": Decimal("1.1"), "uuid": UUID(int=5), "aware": datetime(2026, 1, 1, tzinfo=UTC),
    "naive": datetime(2026, 1, 1), "dataclass": Money(Decimal(1), "EUR"), "object": object(),
    "nested 1000": nested(1000), "cyclic": cyclic(), "complex": 1j,
}  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Equal, of the same type, and zero with its sign."""
    return type(a) is type(b) and a == b and repr(a) == repr(b)


@pytest.mark.parametrize("path", ["plain", "delayed", "retried", "sequence"])
async def test_plain_values_come_back_equal(queue: rota.Queue, path: str) -> None:
    @queue.task
    def keep(name: str, value) -> None: ...  # type: ignore[no-untyped-def]

    options = keep.options(
        delay=0.001 if path == "delayed" else None,
        ordering_key="k" if path == "sequence" else None,
    )
    await queue.enqueue_many(options.spec(name, value) for name, value in SURVIVE.items())
    found: dict[str, Any] = {}
    async with queue.consumer(prefetch=100) as consumer:
        while len(found) < len(SURVIVE):
            jobs = await consumer.claim(100, wait=IN_TIME)
            assert jobs, "the jobs did not come"
            if path == "retried" and jobs[0].attempt == 1:
                await consumer.retry(jobs, delay=0)
            else:
                found |= {job.kwargs["name"]: job.kwargs["value"] for job in jobs}
                await consumer.complete(jobs)
    different = {name for name, value in SURVIVE.items() if not same(found[name], value)}
    assert different == set()


@pytest.mark.parametrize("name", REFUSED)
async def test_other_values_are_refused_at_enqueue(
    server: Server, queue: rota.Queue, name: str
) -> None:
    @queue.task
    def keep(value) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(PayloadError, match="task keep, parameter value"):
        await keep.enqueue(REFUSED[name])
    assert server.keys() == []


async def test_annotated_values_come_back_by_their_annotation(queue: rota.Queue) -> None:
    @queue.task
    def keep(
        when: datetime, price: Decimal, ident: UUID, raw: bytes, tags: set[int], money: Money,
        pair: tuple[int, str], span: timedelta,
    ) -> None: ...  # fmt: skip

    values = (
        datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        Decimal("1.10"), UUID(int=2**64), bytes(range(256)), {3, 1}, Money(Decimal("9.99"), "EUR"),
        (1, "a"), timedelta(seconds=1, microseconds=1),
    )  # fmt: skip
    await keep.enqueue(*values)
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        assert tuple(job.kwargs.values()) == values
        await consumer.complete(job)


async def test_the_server_never_reads_the_payload(queue: rota.Queue) -> None:
    """Bytes that are no JSON travel, delayed and retried too, and come back byte by byte."""
    payload = bytes(range(256)) * 4
    await queue.enqueue_many(
        [
            rota.JobSpec(task="t", payload=payload),
            rota.JobSpec(task="t", payload=payload, delay_ms=1, ordering_key="k"),
            rota.JobSpec(task="t", payload=b"\n\n" + payload, delay_ms=1, lane="!o"),
        ]
    )
    seen: list[bytes] = []
    async with queue.consumer() as consumer:
        while len(seen) < 3:
            jobs = await consumer.claim(10, wait=IN_TIME)
            assert jobs
            for job in jobs:
                if job.attempt == 1:
                    await consumer.retry(job, delay=0)
                else:
                    seen.append(job.payload)
                    await consumer.complete(job)
    assert sorted(seen) == sorted([payload, payload, b"\n\n" + payload])
