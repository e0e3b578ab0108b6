"""Enqueues that return only when the server has confirmed that they are kept."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest

import rota
from rota.errors import (
    BatchInterrupted,
    ConfigError,
    LaneFull,
    NotDurable,
    ServerTooOld,
    Unavailable,
)
from rota.values.config import Durable
from tests.conftest import PrivateServer
from tests.failures.tools import jobs, until_done, working
from tests.support.faulty import CUT_AFTER, SILENT, Break
from tests.support.queues import assert_sound, calls, dump, open_queue
from tests.support.servers import Kind, Server
from tests.support.times import IN_TIME, PATIENCE, TRIES
from tests.support.waiting import eventually

FSYNC = Durable(timeout=IN_TIME)
ONE_REPLICA = Durable(fsync=False, replicas=1, timeout=IN_TIME)


@asynccontextmanager
async def appending(
    private_server: PrivateServer, name: str, fsync: str = "everysec"
) -> AsyncIterator[tuple[Server, rota.Queue]]:
    server = private_server(appendonly="yes", appendfsync=fsync)
    async with open_queue(server, name) as queue:
        yield server, queue


@contextmanager
def with_replica(private_server: PrivateServer, kind: Kind) -> Iterator[tuple[Server, Server]]:
    first, second = (private_server(kind, tcp=True, repl_diskless_sync_delay="0") for _ in range(2))
    second.raw().replicaof("127.0.0.1", first.nodes[0].address)
    eventually(
        lambda: first.raw().info("replication").get("slave0", {}).get("state") == "online",
        "the replica does not connect",
        timeout=10,
    )
    yield first, second
    second.thaw()


# ── fsync ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_it_returns_when_the_server_has_synced(
    private_server: PrivateServer, queue_name: str, fsync: str
) -> None:
    """What was acknowledged survives the server's death at once."""
    async with appending(private_server, queue_name, fsync) as (server, queue):
        await queue.enqueue(jobs(["first"])[0])
        done = await queue.enqueue(jobs("a")[0], durable=FSYNC)
        assert done.outcome == "created"
        many = await queue.enqueue_many(jobs(f"j{n}" for n in range(1500)), durable=FSYNC)
        assert len(many) == 1500
        assert calls(server, "waitaof") == 3
        server.kill()
        server.restart()
        assert len(list(dump(server, queue).each("job:"))) == 1502
        assert_sound(server, queue)


async def test_per_queue_per_task_and_per_call(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server(appendonly="yes", appendfsync="always")
    queue = rota.Queue(queue_name, url=server.url, durable=FSYNC)

    @queue.task
    async def work() -> None: ...

    try:
        await queue.enqueue(jobs(["first"])[0])
        asked = calls(server, "waitaof")

        async def one_more() -> None:
            nonlocal asked
            asked += 1
            assert calls(server, "waitaof") == asked

        await work.enqueue()
        await one_more()
        await queue.enqueue(work.spec())
        await one_more()
        await queue.enqueue_many([work.spec()])
        await one_more()
        assert [done.outcome async for done in queue.enqueue_stream([work.spec()])] == ["created"]
        await one_more()
        queue.sync.enqueue(work.spec())
        await one_more()
        work.sync.enqueue()
        await one_more()
        async with open_queue(server, queue_name) as plain:
            plain.task(name="work")(work.function)
            await plain.tasks["work"].enqueue()
            assert calls(server, "waitaof") == asked
            await plain.tasks["work"].options(durable=FSYNC).enqueue()
            await one_more()
            await plain.enqueue(work.spec(), durable=FSYNC)
            await one_more()
            plain.sync.enqueue_many([work.spec()], durable=FSYNC)
            await one_more()
    finally:
        await queue.close()


async def enqueue(queue: rota.Queue, how: str, specs: list[rota.JobSpec], durable: Durable) -> None:
    if how == "one":
        await queue.enqueue(specs[-1], durable=durable)
    elif how == "stream":
        async for _ in queue.enqueue_stream(specs, durable=durable):
            raise AssertionError("an outcome that is not confirmed")
    else:
        await queue.enqueue_many(specs, atomic=how == "atomic", durable=durable)


@pytest.mark.parametrize("how", ["one", "many", "stream", "atomic"])
async def test_what_was_not_confirmed_exists_and_runs(
    private_server: PrivateServer, queue_name: str, how: str
) -> None:
    """A server that never syncs: NotDurable after the time asked for, with the outcomes."""
    async with appending(private_server, queue_name, "no") as (server, queue):
        short = Durable(timeout=0.2)
        await queue.enqueue(jobs(["old"], payload=b"{}")[0])
        specs = jobs(["old", "new"], payload=b"{}")
        began = time.monotonic()
        with pytest.raises(NotDurable, match=r"within 0.2 s \(no fsync\)") as caught:
            await enqueue(queue, how, specs, short)
        assert 0.19 < time.monotonic() - began < IN_TIME
        outcomes = {done.id: done.outcome for done in caught.value.outcomes}
        assert outcomes == {"new": "created"} | ({} if how == "one" else {"old": "duplicate"})

        @queue.task(name="work")
        async def work() -> None: ...

        async with working(queue):
            await until_done(server, queue, 2)


async def test_a_batch_of_several_calls_tells_all_outcomes_so_far(
    private_server: PrivateServer, queue_name: str
) -> None:
    """The append-only file is switched off after the first call: the second is stored, and not
    confirmed; the third is not sent."""
    async with appending(private_server, queue_name, "always") as (server, queue):

        def specs() -> Iterator[rota.JobSpec]:
            for n, spec in enumerate(jobs(f"j{n}" for n in range(2500))):
                if n == 1001:
                    server.raw().config_set("appendonly", "no")
                yield spec

        with pytest.raises(NotDurable, match="confirms nothing") as caught:
            await queue.enqueue_many(specs(), durable=FSYNC)
        assert [done.id for done in caught.value.outcomes] == [f"j{n}" for n in range(2000)]
        assert len(list(dump(server, queue).each("job:"))) == 2000


async def test_a_full_lane_is_no_question_of_durability(
    private_server: PrivateServer, queue_name: str
) -> None:
    async with appending(private_server, queue_name, "no") as (_, queue):
        await queue.lane("a").set(backlog=0)
        with pytest.raises(LaneFull):
            await queue.enqueue(jobs("a")[0], durable=Durable(timeout=0.1))


# ── replicas ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
async def test_it_returns_when_replicas_have_it(
    private_server: PrivateServer, queue_name: str, kind: Kind
) -> None:
    with with_replica(private_server, kind) as (first, second):
        async with open_queue(first, queue_name) as queue:
            for n in range(5):
                id = f"j{n}"
                await queue.enqueue(jobs([id])[0], durable=ONE_REPLICA)
                assert second.raw().exists(queue.link.keys.key("job", id)) == 1
            two = Durable(fsync=False, replicas=2, timeout=0.1)
            for n in range(TRIES):
                with pytest.raises(NotDurable, match="[01] of 2 replicas") as caught:
                    await queue.enqueue(jobs([f"b{n}"])[0], durable=two)
                if "1 of 2 replicas" in str(caught.value):
                    break
            else:
                pytest.fail("the one that has it is not counted")
            second.freeze()
            with pytest.raises(NotDurable, match="0 of 1 replicas") as caught:
                await queue.enqueue(
                    jobs("c")[0], durable=Durable(fsync=False, replicas=1, timeout=0.3)
                )
            assert [done.outcome for done in caught.value.outcomes] == ["created"]
            second.thaw()
            again = await queue.enqueue(jobs("c")[0], durable=ONE_REPLICA)
            assert again.outcome == "duplicate"


# ── refused before anything is written ──────────────────────────────────────────────────────────


async def refused(server: Server, queue: rota.Queue, error: type[Exception], text: str) -> None:
    """By every way to enqueue, one job or many; the server's keys stay as they are."""
    before = server.keys()
    many = jobs(f"j{n}" for n in range(1500))
    for durable in (FSYNC, Durable(replicas=1)):
        with pytest.raises(error, match=text):
            await queue.enqueue(many[0], durable=durable)
        with pytest.raises(error, match=text):
            await queue.enqueue_many(many, durable=durable)
        with pytest.raises(error, match=text):
            await queue.enqueue_many(many[:9], atomic=True, durable=durable)
        with pytest.raises(error, match=text):
            async for _ in queue.enqueue_stream(many, durable=durable):
                pass
        with pytest.raises(error, match=text):
            queue.sync.enqueue_many(many, durable=durable)
    assert server.keys() == before


@pytest.mark.legs("redis7")
async def test_a_server_without_waitaof_is_told_so(server: Server, queue: rota.Queue) -> None:
    await refused(server, queue, ServerTooOld, "WAITAOF needs Redis 7.2 or Valkey")
    queue.sync.close()


@pytest.mark.legs("valkey", "cluster")
async def test_a_server_without_an_append_only_file_is_told_so(
    server: Server, queue: rota.Queue
) -> None:
    await refused(server, queue, ConfigError, r"appendonly yes")
    queue.sync.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"fsync": False},
        {"fsync": 1},
        {"replicas": -1},
        {"replicas": True},
        {"timeout": 0},
        {"timeout": 9},
        {"timeout": "1"},
    ],
)
def test_wrong_wishes_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"expected"):
        Durable(**settings)  # type: ignore[arg-type]


async def test_what_is_no_wish_is_refused(server: Server, queue: rota.Queue) -> None:
    with pytest.raises(ConfigError, match=r"durable: expected a rota\.Durable"):
        await queue.enqueue(jobs("a")[0], durable=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"durable: expected a rota\.Durable"):
        rota.Queue("q", durable="yes")  # type: ignore[arg-type]
    assert server.keys() == []


# ── sending again ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lost", ["enqueue", "WAITAOF"])
async def test_a_resend_is_confirmed_by_its_own_connection(
    private_server: PrivateServer, queue_name: str, faulty: Break, lost: str
) -> None:
    """The reply is lost after the job was stored. The resend answers from the receipt; the
    confirmation is asked for anew, where the receipt was touched, and covers what came before."""
    server = private_server(appendonly="yes", appendfsync="everysec")
    proxy = faulty(server)
    async with open_queue(proxy.url, queue_name) as queue:
        await queue.enqueue(jobs(["first"])[0], durable=FSYNC)
        proxy.passed.clear()
        proxy.plant(lost, CUT_AFTER, times=1)
        done = await queue.enqueue(jobs("a")[0], durable=FSYNC)
        assert done.outcome == "created"
        assert proxy.failed == {lost: 1}
        assert len(proxy.passed["WAITAOF"]) == 1
        assert len(proxy.passed["enqueue"]) == (1 if lost == "enqueue" else 2)
        server.kill()
        server.restart()
        assert set(dict(dump(server, queue).each("job:"))) == {"first", "a"}


async def test_a_resend_that_is_not_confirmed_says_so(
    private_server: PrivateServer, queue_name: str, faulty: Break
) -> None:
    """As the first sending would: a receipt is no proof of durability."""
    server = private_server(appendonly="yes", appendfsync="no")
    proxy = faulty(server)
    async with open_queue(proxy.url, queue_name) as queue:
        await queue.enqueue(jobs(["first"])[0])
        proxy.plant("enqueue", CUT_AFTER, times=1)
        with pytest.raises(NotDurable) as caught:
            await queue.enqueue(jobs("a")[0], durable=Durable(timeout=0.2))
        assert [done.outcome for done in caught.value.outcomes] == ["created"]


async def test_concurrent_callers_are_confirmed_each_on_its_own(
    private_server: PrivateServer, queue_name: str
) -> None:
    """From threads and from a loop, on pooled connections: a call's question never meets
    another's write."""
    server = private_server(appendonly="yes", appendfsync="everysec")
    queue = rota.Queue(queue_name, url=server.url, durable=FSYNC)
    await queue.enqueue(jobs(["first"])[0])
    before = calls(server, "waitaof")
    failed = []

    def blocking(n: int) -> None:
        try:
            queue.sync.enqueue(jobs([f"t{n}"])[0])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=blocking, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(list(dump(server, queue).each("job:"))) == 9
    assert calls(server, "waitaof") == before + 8
    await queue.close()


@pytest.mark.parametrize("face", ["loop", "threads"])
@pytest.mark.parametrize("refused", ["NOSCRIPT", "LOADING", "READONLY"])
async def test_nothing_is_waited_for_that_was_refused(
    valkey: Server, queue_name: str, faulty: Break, face: str, refused: str
) -> None:
    """Each such wait would take all the time of the next one, which confirms what was written."""
    proxy = faulty(valkey)
    async with open_queue(proxy.url, queue_name) as queue:
        await queue.enqueue(jobs(["first"])[0])
        proxy.plant("enqueue", refused, times=1)
        send = partial(_enqueue(queue, face), jobs("a")[0])
        with pytest.raises(NotDurable):
            await _on(face, partial(send, durable=Durable(fsync=False, replicas=1, timeout=0.1)))
        assert proxy.failed == {"enqueue": 1}
        assert len(proxy.passed["WAIT"]) == 1


@pytest.mark.legs("cluster")
async def test_nothing_is_waited_for_where_the_slot_is_not(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue(jobs(["first"])[0])
        slots = queue.link.async_client._route.slots
        owners = dict.fromkeys(slots.values())
        slots.update({slot: next(one for one in owners if one != slots[slot]) for slot in slots})
        before = calls(server, "wait")
        with pytest.raises(NotDurable):
            await queue.enqueue(jobs("a")[0], durable=Durable(fsync=False, replicas=1, timeout=0.1))
        assert calls(server, "wait") - before == 1


def test_threads_wait_in_line_for_a_confirmation(valkey: Server, queue_name: str) -> None:
    """More than there are connections for it: each is answered, and within its time."""
    queue = rota.Queue(queue_name, url=valkey.url, timeout=4)
    durable = Durable(fsync=False, replicas=1, timeout=2)
    answers: list[BaseException] = []

    def send() -> None:
        try:
            queue.sync.enqueue(jobs("a")[0], durable=durable)
        except rota.RotaError as error:
            answers.append(error)

    threads = [threading.Thread(target=send) for _ in range(48)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [type(one) for one in answers] == [NotDurable] * 48
    queue.sync.close()


@pytest.mark.parametrize("face", ["loop", "threads"])
async def test_a_confirmation_that_does_not_come_takes_no_longer_than_the_call_may(
    valkey: Server, queue_name: str, faulty: Break, face: str
) -> None:
    proxy = faulty(valkey)
    durable = Durable(fsync=False, replicas=1, timeout=0.5)
    async with rota.Queue(queue_name, url=proxy.url, timeout=1, durable=durable) as queue:
        proxy.plant("WAIT", SILENT)
        send = _enqueue(queue, face)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(_on(face, partial(send, jobs("a")[0])), IN_TIME)
        proxy.heal()


def _enqueue(queue: rota.Queue, face: str) -> Callable[..., Any]:
    if face == "loop":
        return queue.enqueue
    return queue.sync.enqueue


async def _on(face: str, call: Callable[[], Any]) -> Any:
    return await (call() if face == "loop" else asyncio.to_thread(call))


def test_not_durable_is_no_interruption() -> None:
    """Who catches one does not catch the other by mistake."""
    assert not issubclass(NotDurable, BatchInterrupted)
    assert not issubclass(NotDurable, ConfigError)
