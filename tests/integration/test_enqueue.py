"""One job into the queue: what it is given, what is refused, and where it stands afterwards."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

import rota
from rota.errors import ConfigError, LaneFull, PayloadError
from tests.support.proxy import Proxy
from tests.support.queues import assert_sound
from tests.support.servers import Server
from tests.support.times import IN_TIME

NAN, INF = float("nan"), float("inf")
NOW = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    queue = rota.Queue(queue_name, url=server.url)
    yield queue
    await queue.close()
    if len(server.keys()) < 2000:  # the audit looks key by key
        assert_sound(server, queue)


def charge_of(queue: rota.Queue, **policy: Any) -> rota.task.Task[[str, int], None]:
    @queue.task(name="charge", **policy)
    def charge(tenant: str, order: int) -> None: ...

    return charge


# ── what a job is given ─────────────────────────────────────────────────────────────────────


async def test_a_plain_job_has_the_defaults(queue: rota.Queue) -> None:
    done = await charge_of(queue).enqueue("t7", 42)
    assert done.outcome == "created"
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
    assert (job.id, job.task, job.lane, job.ordering_key) == (done.id, "charge", "default", None)
    assert (job.priority, job.attempt, job.max_attempts) == (0, 1, 5)
    assert (job.args, job.kwargs) == ((), {"tenant": "t7", "order": 42})
    assert job.payload == b'{"tenant":"t7","order":42}'
    assert (job.timeout, job.expires, job.on_dead) == (None, None, "skip")
    assert abs(job.enqueued_at - time.time()) < 60


async def test_options_travel_with_the_job(queue: rota.Queue) -> None:
    charge = charge_of(queue, max_attempts=7, timeout=timedelta(minutes=2), on_dead="hold")
    options = charge.options(
        lane="t7", ordering_key="order-42", priority=5, id="charge-42", expires=60
    )
    done = await options.enqueue("t7", 42)
    assert done == rota.Enqueued("charge-42", "created")
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
    assert (job.id, job.lane, job.ordering_key) == ("charge-42", "t7", "order-42")
    assert (job.priority, job.max_attempts, job.timeout, job.on_dead) == (5, 7, 120.0, "hold")
    assert job.expires == round(job.enqueued_at * 1000) + 60_000


async def test_parameters_name_lane_key_and_id(queue: rota.Queue) -> None:
    @queue.task(lane_from="tenant", ordering_key_from="order", id_from="event")
    def ship(tenant: int, order: int, event: UUID) -> None: ...

    event = UUID(int=7)
    done = await ship.enqueue(7, 42, event)
    assert done.id == str(event)
    info = await queue.job(done.id).info()
    assert info is not None
    assert (info.lane, info.ordering_key) == ("7", "42")


async def test_options_win_over_parameters(queue: rota.Queue) -> None:
    @queue.task(lane_from="tenant", ordering_key_from="tenant", id_from="tenant")
    def ship(tenant: str | None) -> None: ...

    done = await ship.options(lane="l", ordering_key="k", id="i").enqueue(None)
    info = await queue.job("i").info()
    assert info is not None
    assert (done.id, info.lane, info.ordering_key) == ("i", "l", "k")


async def test_a_parameters_default_names_the_lane(queue: rota.Queue) -> None:
    @queue.task(lane_from="tenant")
    def ship(order: int, tenant: str = "nobody") -> None: ...

    assert ship.spec(1).lane == "nobody"
    assert ship.spec(1, tenant="t7").lane == "t7"


@pytest.mark.parametrize("value", [None, "", True, 1.5, b"x", ["a"], "!", "a\nb", "x" * 201])
async def test_a_value_that_names_nothing_is_refused(
    server: Server, queue: rota.Queue, value: Any
) -> None:
    @queue.task(lane_from="tenant")
    def ship(tenant: Any) -> None: ...

    with pytest.raises((ConfigError, PayloadError), match="expected"):
        await ship.enqueue(value)
    assert server.keys() == []


async def test_a_queue_may_require_a_lane(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url, require_lane=True)
    charge = charge_of(queue)
    with pytest.raises(ConfigError, match="task charge: this queue requires a lane"):
        await charge.enqueue("t7", 1)
    assert server.keys() == []
    assert (await charge.options(lane="t7").enqueue("t7", 1)).outcome == "created"
    await queue.close()


async def test_ids_made_by_the_client_are_new_and_sort_by_time(queue: rota.Queue) -> None:
    charge = charge_of(queue)
    first, second = charge.spec("t7", 1), charge.spec("t7", 1)
    assert first.id != second.id
    assert len(first.id) == 26
    assert first.id[:11] <= second.id[:11]


# ── what is refused, before anything is written ─────────────────────────────────────────────

WRONG_OPTIONS: list[dict[str, Any]] = [
    {"lane": ""}, {"lane": 5}, {"lane": "!"}, {"lane": "x" * 201}, {"lane": "a\0b"},
    {"lane": "\ud800"}, {"ordering_key": ""}, {"ordering_key": 5}, {"ordering_key": "a\nb"},
    {"lane": "!ordered", "ordering_key": "k"},
    {"id": ""}, {"id": "!x"}, {"id": 5}, {"id": "x" * 201},
    {"priority": 1001}, {"priority": -1001}, {"priority": 10**9}, {"priority": -(10**9)},
    {"priority": 2**63}, {"priority": 1.5}, {"priority": "3"}, {"priority": True},
    {"priority": NAN}, {"priority": None},
    {"delay": -1}, {"delay": NAN}, {"delay": INF}, {"delay": 10**12}, {"delay": "3"},
    {"delay": True}, {"delay": timedelta(seconds=-1)}, {"delay": timedelta(days=40_000)},
    {"at": NOW.replace(tzinfo=None)}, {"at": date(2026, 1, 1)}, {"at": "2026-01-01"},
    {"at": NAN}, {"at": -1}, {"at": 10**13}, {"at": True},
    {"at": NOW, "delay": 1}, {"at": NOW, "delay": 0},
    {"expires": -1}, {"expires": 0}, {"expires": NAN}, {"expires": "x"}, {"expires": True},
    {"expires": NOW.replace(tzinfo=None)}, {"expires": NOW.replace(year=2020)},
    {"expires": 5, "delay": 5}, {"expires": timedelta(seconds=4), "delay": 5},
    {"expires": NOW + timedelta(hours=1), "at": NOW + timedelta(hours=2)},
    {"expires": 60, "at": NOW},
    {"expires": datetime(2030, 1, 1, tzinfo=UTC), "delay": timedelta(days=3650)},
]  # fmt: skip


@pytest.mark.parametrize("options", WRONG_OPTIONS, ids=lambda o: ascii(o)[:60])
async def test_wrong_options_are_refused_before_anything_is_written(
    server: Server, queue: rota.Queue, options: dict[str, Any]
) -> None:
    charge = charge_of(queue)
    with pytest.raises(ConfigError, match="(expected|takes no) .*given") as caught:
        await charge.options(**options).enqueue("t7", 1)
    assert len(str(caught.value)) < 400
    with pytest.raises(ConfigError):
        charge.options(**options).sync.enqueue("t7", 1)
    assert server.keys() == []


WRONG_FIELDS: list[dict[str, Any]] = [
    {"task": ""}, {"task": 5}, {"task": None}, {"task": "a\nb"},
    {"lane": 5}, {"lane": None}, {"lane": ""},
    {"ordering_key": 5}, {"ordering_key": ""}, {"ordering_key": "k", "lane": "!l"},
    {"priority": "1"}, {"priority": None}, {"priority": 1.0}, {"priority": 1001},
    {"delay_ms": "x"}, {"delay_ms": -1}, {"delay_ms": 0.5}, {"delay_ms": None}, {"delay_ms": True},
    {"delay_ms": 10**12}, {"delay_ms": timedelta(seconds=1)},
    {"at_ms": "x"}, {"at_ms": NOW}, {"at_ms": -1}, {"at_ms": 0.5}, {"at_ms": 10**14},
    {"at_ms": True},
    {"at_ms": 1, "delay_ms": 1},
    {"expires_in_ms": 0}, {"expires_in_ms": -1}, {"expires_in_ms": "x"}, {"expires_in_ms": 1.5},
    {"expires_in_ms": 10, "delay_ms": 10},
    {"expires_at_ms": -1}, {"expires_at_ms": "x"}, {"expires_at_ms": NOW},
    {"expires_at_ms": 10**14},
    {"expires_at_ms": 5, "at_ms": 5},
    {"id": 5}, {"id": ""}, {"id": None}, {"id": "!x"},
    {"max_attempts": 0}, {"max_attempts": "5"}, {"max_attempts": True}, {"max_attempts": 10**6},
    {"max_attempts": None},
    {"timeout": -1}, {"timeout": 0}, {"timeout": "x"}, {"timeout": NAN}, {"timeout": True},
    {"timeout": timedelta(seconds=1)},
    {"on_dead": "x"}, {"on_dead": None}, {"on_dead": True},
]  # fmt: skip


@pytest.mark.parametrize("fields", WRONG_FIELDS, ids=lambda f: ascii(f)[:60])
def test_a_spec_checks_all_its_fields(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="(expected|takes no) .*given"):
        rota.JobSpec(**{"task": "t"} | fields)


@pytest.mark.parametrize("payload", ["{}", None, {}, bytearray(b"{}"), memoryview(b"{}")])
def test_a_specs_payload_is_bytes(payload: Any) -> None:
    with pytest.raises(PayloadError, match="payload: expected bytes, given a"):
        rota.JobSpec(task="t", payload=payload)


def test_a_changed_copy_of_a_spec_is_checked_too() -> None:
    with pytest.raises(ConfigError):
        replace(rota.JobSpec(task="t"), priority=1001)


class Name(str):
    """A text of another class, as libraries make them."""


class Number(int):
    pass


async def test_a_name_of_a_subclass_travels_as_its_text(queue: rota.Queue) -> None:
    spec = rota.JobSpec(
        task=Name("t"), lane=Name("l"), ordering_key=Name("k"), id=Name("i"), priority=Number(3)
    )
    assert (await queue.enqueue(spec)).outcome == "created"
    info = await queue.job(Name("i")).info()
    assert info is not None
    assert (info.task, info.lane, info.ordering_key, info.priority) == ("t", "l", "k", 3)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        (("t7",), {}),
        (("t7", 1, 2), {}),
        (("t7",), {"nobody": 1}),
        (("t7", "1"), {}),
        ((7, 1), {}),
        (("t7", 1.5), {}),
        (("t7", None), {}),
        (("t7", True), {}),
        (("\ud800", 1), {}),
        (("x" * 2_000_000, 1), {}),
    ],
    ids=lambda value: ascii(value)[:30],
)
async def test_arguments_that_do_not_fit_are_refused(
    server: Server, queue: rota.Queue, args: Any, kwargs: Any
) -> None:
    charge = charge_of(queue)
    with pytest.raises(PayloadError):
        await charge.enqueue(*args, **kwargs)
    with pytest.raises(PayloadError):
        charge.spec(*args, **kwargs)
    assert server.keys() == []


@pytest.mark.parametrize("spec", [None, {"task": "t"}, "t", b"t", ("t", b"{}"), rota.JobSpec])
async def test_only_a_spec_is_enqueued(server: Server, queue: rota.Queue, spec: Any) -> None:
    with pytest.raises(ConfigError, match=r"expected a rota\.JobSpec"):
        await queue.enqueue(spec)
    with pytest.raises(ConfigError, match=r"expected a rota\.JobSpec"):
        queue.sync.enqueue(spec)
    assert server.keys() == []


async def test_an_unreachable_server_is_a_typed_error(queue_name: str) -> None:
    queue = rota.Queue(queue_name, url="redis://:SECRET@127.0.0.1:1")
    started = time.monotonic()
    with pytest.raises(rota.Unavailable, match=r"redis://:\*\*\*@127\.0\.0\.1:1"):
        await queue.enqueue(rota.JobSpec(task="t"))
    with pytest.raises(rota.Unavailable):
        queue.sync.enqueue(rota.JobSpec(task="t"))
    assert time.monotonic() - started < IN_TIME
    await queue.close()


# ── ids, resending, limits ──────────────────────────────────────────────────────────────────


async def test_an_id_is_taken_while_its_job_exists(queue: rota.Queue) -> None:
    charge = charge_of(queue, id_from="tenant")
    assert (await charge.enqueue("a", 1)).outcome == "created"
    assert await charge.enqueue("a", 2) == rota.Enqueued("a", "duplicate", "waiting")
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim()
        assert job.kwargs["order"] == 1
        assert await charge.enqueue("a", 3) == rota.Enqueued("a", "duplicate", "running")
        await consumer.bury(job, "broken")
        assert await charge.enqueue("a", 4) == rota.Enqueued("a", "duplicate", "dead")
        assert charge.sync.enqueue("a", 5) == rota.Enqueued("a", "duplicate", "dead")
    assert (await queue.info()).dead == 1


async def test_an_id_is_free_when_its_job_is_done(queue: rota.Queue) -> None:
    spec = charge_of(queue).spec("t7", 1)
    async with queue.consumer() as consumer:
        for _ in range(2):
            assert (await queue.enqueue(spec)).outcome == "created"
            assert (await queue.enqueue(spec)).outcome == "duplicate"
            await consumer.complete(await consumer.claim())


async def test_an_id_is_taken_across_lanes_and_delays(queue: rota.Queue) -> None:
    charge = charge_of(queue)
    assert (await charge.options(id="i", delay=60).enqueue("a", 1)).outcome == "created"
    assert (await charge.options(id="i", lane="other").enqueue("a", 1)).outcome == "duplicate"
    assert (await queue.info()).waiting == 0


async def test_a_full_lane_refuses_one_job(queue: rota.Queue) -> None:
    charge = charge_of(queue, lane_from="tenant")
    await queue.lane("t7").set(backlog=2)
    await charge.enqueue("t7", 1)
    await charge.options(delay=60).enqueue("t7", 2)
    with pytest.raises(LaneFull, match="lane 't7' is full") as caught:
        await charge.enqueue("t7", 3)
    assert caught.value.lane == "t7"
    assert (await charge.enqueue("t8", 1)).outcome == "created"
    await queue.lane("t7").set(backlog=None)
    assert (await charge.enqueue("t7", 3)).outcome == "created"


@pytest.mark.legs("valkey", "redis7")
async def test_a_lost_reply_stores_the_job_once(
    server: Server, queue_name: str, proxy: Callable[[Server], Proxy]
) -> None:
    network = proxy(server)
    queue = rota.Queue(queue_name, url=network.url)
    charge = charge_of(queue)
    await charge.enqueue("warm", 0)
    network.drop_reply_then_cut()
    done = await charge.enqueue("t7", 1)
    assert done.outcome == "created", "the resend is answered from the receipt"
    network.drop_reply_then_cut()
    outcomes = await queue.enqueue_many([charge.spec("t7", i) for i in range(100)])
    assert {one.outcome for one in outcomes} == {"created"}
    network.pass_through()
    assert (await queue.info()).waiting == 102
    await queue.close()


@pytest.mark.legs("valkey", "redis7")
def test_threads_share_a_queue(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url)
    charge = charge_of(queue)

    def work(thread: int) -> set[str]:
        return {charge.sync.enqueue(f"t{thread}", i).id for i in range(100)}

    with ThreadPoolExecutor(8) as threads:
        ids = set().union(*threads.map(work, range(8)))
    assert len(ids) == 800
    assert queue.sync.info().waiting == 800
    queue.sync.close()


# ── where a job stands ──────────────────────────────────────────────────────────────────────


async def test_a_job_is_found_in_each_state(queue: rota.Queue) -> None:
    charge = charge_of(queue)
    job = queue.job("j")
    assert await job.info() is None

    await charge.options(id="j", lane="t7", priority=-2).enqueue("t7", 42)
    info = await job.info()
    assert info is not None
    assert (info.id, info.state, info.task, info.lane) == ("j", "waiting", "charge", "t7")
    assert (info.priority, info.attempts, info.deaths, info.error) == (-2, 0, 0, None)
    assert info.payload == b'{"tenant":"t7","order":42}'
    assert info.due is None

    async with queue.consumer() as consumer:
        claimed = await consumer.claim()
        assert (await job.info()).state == "running"  # type: ignore[union-attr]
        await consumer.retry(claimed, delay=60, error="the first failure")
        info = await job.info()
        assert info is not None
        assert (info.state, info.attempts) == ("delayed", 1)
        assert info.error == "the first failure"
        assert info.due is not None
        assert 30 < info.due - time.time() < 90

        await charge.options(id="k", delay=60).enqueue("t7", 42)
        delayed = await queue.job("k").info()
        assert delayed is not None
        assert (delayed.state, delayed.priority) == ("delayed", 0)
        await charge.options(id="d").enqueue("t7", 1)
        await consumer.bury(await consumer.claim(), "broken")
        dead = await queue.job("d").info()
        assert dead is not None
        assert (dead.state, dead.error) == ("dead", "broken")
        assert dead.due is not None
        assert abs(dead.due - time.time()) < 30

        await charge.options(id="done").enqueue("t7", 1)
        await consumer.complete(await consumer.claim())
        assert await queue.job("done").info() is None


@pytest.mark.parametrize("lane", ["t7", "!t7"])
async def test_a_sequences_job_is_found_in_each_state(queue: rota.Queue, lane: str) -> None:
    charge = charge_of(queue)
    key = None if lane.startswith("!") else "k"
    for name in ("a", "b"):
        await charge.options(id=name, lane=lane, ordering_key=key).enqueue("t7", 1)

    async def states() -> list[str]:
        found = [await queue.job(name).info() for name in ("a", "b")]
        return [info.state if info else "none" for info in found]

    assert await states() == ["waiting", "waiting"]
    async with queue.consumer(prefetch=1) as consumer:
        (job,) = await consumer.claim(2)
        assert await states() == ["running", "waiting"]
        await consumer.retry(job, delay=60)
        assert await states() == ["waiting", "waiting"], "the head keeps its place"
    async with queue.consumer() as consumer:
        assert await consumer.claim(2) == []
