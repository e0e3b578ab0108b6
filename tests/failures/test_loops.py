"""Every background loop survives every answer: it backs off, says so once, and goes on in time.

C23 and C07. The answers come from a proxy that plays the server; what real servers say in such a
state (a role change, too few replicas, a script that runs for ever, full memory, a failed
snapshot) is provoked on real ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

import rota
from rota.consume.doorbell import PassOn
from rota.errors import ServerFull
from tests.conftest import PrivateServer
from tests.failures.tools import jobs, stats, until_done, working
from tests.support.faulty import ANSWERS, CUT, CUT_AFTER, SILENT, STRANGE, Break, Faulty
from tests.support.queues import assert_drained, assert_sound, dump, open_queue
from tests.support.servers import Kind, Server
from tests.support.times import LEASE
from tests.support.waiting import eventually_async

BEAT = 0.5

FAULTS = [*ANSWERS, CUT, CUT_AFTER, SILENT]
LOOPS = ("beat", "heartbeat", "BLPOP", "exchange", "settle", "pass_on")


class Worked:
    """A queue behind its own faulty link, and a worker on it."""

    def __init__(self, server: Server, queue: rota.Queue, proxy: Faulty) -> None:
        self.server, self.queue, self.proxy = server, queue, proxy
        self.ran: Counter[str] = Counter()

        @queue.task(name="work")
        async def work() -> None:
            self.ran[rota.current_job().id] += 1

        @queue.task(name="give_back")
        async def give_back() -> None:
            self.ran[rota.current_job().id] += 1
            if self.ran[rota.current_job().id] == 1:
                raise rota.Release()

    def put(self, id: str, task: str = "work") -> None:
        """Enqueues past the faulty link."""
        with contextlib.closing(rota.Queue(self.queue.name, url=self.server.url).sync) as direct:
            direct.enqueue(rota.JobSpec(task=task, lane="a", id=id, payload=b"{}"))

    @property
    def leases(self) -> set[str]:
        return set(dump(self.server, self.queue).get("consumers"))


async def trouble(one: Worked, loop: str, answer: str) -> None:
    """One loop meets one answer, at least twice where it can come twice."""
    proxy = one.proxy
    async with working(one.queue, lease=LEASE, slots=2):
        await eventually_async(lambda: "BLPOP" in proxy.passed or one.leases, "it does not start")
        first = one.leases
        times = 1 if answer in (CUT_AFTER, SILENT) else float("inf")
        planted = time.monotonic()
        proxy.plant(loop, answer, times)
        match loop:
            case "exchange":
                one.put("x")
            case "settle":
                one.put("x", "give_back")
            case "pass_on":
                bell = one.queue.consuming.bell()
                bell._do((PassOn(),))
        await eventually_async(
            lambda: proxy.failed.get(loop, 0) >= (1 if times == 1 or loop == "pass_on" else 2),
            f"{loop} met no {answer}",
        )
        await asyncio.sleep(0.3)
        healed = proxy.heal()
        await eventually_async(
            # A debt that could not be passed on is paid by the worker's own look.
            lambda: proxy.after(loop, planted if times == 1 else healed) or loop == "pass_on",
            f"{loop} does not go on after {answer}",
        )
        one.put("y")
        await eventually_async(lambda: one.ran["y"], f"no work after {loop} {answer}")
        done = 2 if loop in ("exchange", "settle") else 1
        await until_done(one.server, one.queue, done)
        assert one.leases == first, "it has lost its lease over it"
    assert one.ran["x"] == {"exchange": 1, "settle": 2}.get(loop, 0)
    assert one.ran["y"] == 1
    assert_drained(one.server, one.queue, done=done)


@pytest.mark.usefixtures("quick_renewals")
@pytest.mark.parametrize("answer", FAULTS)
async def test_each_loop_outlives_each_answer(
    server: Server,
    queue_name: str,
    faulty: Break,
    answer: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All loops at the same time, each in a queue of its own."""
    caplog.set_level(logging.WARNING, "rota")

    async def one(loop: str) -> None:
        proxy = faulty(server)
        async with open_queue(proxy.url, f"{queue_name}-{loop.lower()}", beat=BEAT) as queue:
            await trouble(Worked(server, queue, proxy), loop, answer)

    loops = [loop for loop in LOOPS if loop != "BLPOP" or answer not in ("NOSCRIPT", STRANGE)]
    await asyncio.gather(*(one(loop) for loop in loops))
    said = Counter(record.getMessage() for record in caplog.records)
    # Where the server stood still that is another kind of trouble, and said as well.
    kinds = Counter(
        record.msg
        for record in caplog.records
        if answer == SILENT or "Timeout" not in record.getMessage()
    )
    assert all(count <= 2 for count in kinds.values()), said
    assert not any(record.exc_info for record in caplog.records), said


@pytest.mark.usefixtures("quick_renewals")
@pytest.mark.parametrize("raised", [ValueError, SystemExit])
async def test_no_loop_ends_with_a_log_that_raises(
    server: Server, queue_name: str, faulty: Break, raised: type[BaseException]
) -> None:
    """As a filter of the application may."""

    def fail(record: logging.LogRecord) -> bool:
        raise raised(record.name)

    async def one(loop: str) -> None:
        proxy = faulty(server)
        async with open_queue(proxy.url, f"{queue_name}-{loop.lower()}", beat=BEAT) as queue:
            await trouble(Worked(server, queue, proxy), loop, "READONLY")

    loggers = [logging.getLogger(name) for name in ("rota.lease", "rota.doorbell")]
    for logger in loggers:
        logger.addFilter(fail)
    try:
        await asyncio.gather(*(one(loop) for loop in ("beat", "heartbeat", "BLPOP", "pass_on")))
    finally:
        for logger in loggers:
            logger.removeFilter(fail)


async def test_trouble_is_logged_once_per_kind(
    server: Server, queue_name: str, faulty: Break, caplog: pytest.LogCaptureFixture
) -> None:
    """Beats that fail in two ways, some times each: two lines. So for the bell and for claims."""
    caplog.set_level(logging.WARNING, "rota")
    proxy = faulty(server)

    async def fail_twice(loop: str, answer: str) -> None:
        wanted = proxy.failed.get(loop, 0) + 2
        proxy.plant(loop, answer, times=2)
        await eventually_async(lambda: proxy.failed.get(loop, 0) == wanted, "it gives up")
        proxy.heal()

    async with open_queue(proxy.url, queue_name, beat=0.1) as queue, working(queue, lease=LEASE):
        for loop in ("beat", "BLPOP"):
            for answer in ("BUSY", "MISCONF", "BUSY"):
                await fail_twice(loop, answer)
    for logger in ("rota.lease", "rota.doorbell"):
        said = [record.getMessage() for record in caplog.records if record.name == logger]
        assert ["BUSY" in text for text in said] == [True, False], said
        assert ["MISCONF" in text for text in said] == [False, True], said


async def test_a_passing_answer_to_a_new_connection_is_waited_for(
    server: Server, queue_name: str, faulty: Break
) -> None:
    """A busy server refuses the choice of a database, which opens a connection."""
    proxy = faulty(server)
    async with open_queue(f"{proxy.url}/1", queue_name) as queue:
        assert (await queue.enqueue(jobs("a")[0])).outcome == "created"
        assert queue.sync.enqueue(jobs("a")[0]).outcome == "duplicate"
        proxy.plant("SELECT", "BUSY", times=4)
        proxy.cut()
        assert (await queue.enqueue(jobs("b")[0])).outcome == "created"
        assert proxy.failed == {"SELECT": 4}
        proxy.plant("SELECT", "BUSY", times=4)
        proxy.cut()
        assert queue.sync.enqueue(jobs("b")[0]).outcome == "duplicate"
        assert proxy.failed == {"SELECT": 8}
        queue.sync.close()


# ── what servers really say ─────────────────────────────────────────────────────────────────────


@contextmanager
def replica(server: Server, raw: redis.Redis) -> Iterator[None]:
    raw.replicaof("127.0.0.1", 1)
    yield
    raw.replicaof("NO", "ONE")


@contextmanager
def too_few_replicas(server: Server, raw: redis.Redis) -> Iterator[None]:
    raw.config_set("min-replicas-to-write", 1)
    yield
    raw.config_set("min-replicas-to-write", 0)


@contextmanager
def busy_script(server: Server, raw: redis.Redis) -> Iterator[None]:
    raw.config_set("busy-reply-threshold", 50)
    killer = server.nodes[0].client()
    killer.ping()  # connects: a busy server may refuse that too

    def hog() -> None:
        with server.nodes[0].client(timeout=30) as other, contextlib.suppress(redis.RedisError):
            other.eval("while true do end", 0)

    thread = threading.Thread(target=hog)
    thread.start()
    time.sleep(0.2)
    try:
        yield
    finally:
        killer.script_kill()
        killer.close()
        thread.join()


@contextmanager
def full_memory(server: Server, raw: redis.Redis) -> Iterator[None]:
    raw.config_set("maxmemory", 1)
    yield
    raw.config_set("maxmemory", 0)


@contextmanager
def paused_clients(server: Server, raw: redis.Redis) -> Iterator[None]:
    raw.execute_command("CLIENT PAUSE 700 ALL")
    yield


@contextmanager
def killed_clients(server: Server, raw: redis.Redis) -> Iterator[None]:
    for _ in range(3):
        raw.execute_command("CLIENT KILL TYPE normal SKIPME yes")
        time.sleep(0.1)
    yield


@contextmanager
def failed_snapshot(server: Server, raw: redis.Redis) -> Iterator[None]:
    """A folder stands where the snapshot should go."""
    in_its_way = Path(server.nodes[0].folder) / "dump.rdb"
    in_its_way.mkdir()
    raw.config_set("save", "3600 1000000")

    def save() -> str:
        with contextlib.suppress(redis.RedisError):
            raw.bgsave()
        time.sleep(0.3)
        return str(raw.info("persistence")["rdb_last_bgsave_status"])

    assert save() == "err"
    yield
    in_its_way.rmdir()
    assert save() == "ok"
    raw.config_set("save", "")


@contextmanager
def forgotten_scripts(server: Server, raw: redis.Redis) -> Iterator[None]:
    raw.script_flush()
    yield
    raw.script_flush()


def refused(server: Server) -> str:
    """What the server says to a write."""
    try:
        with server.nodes[0].client() as other:
            other.set("none", 1)
    except redis.RedisError as error:
        return str(error)
    return "nothing"


STATES = {
    "a role change": (replica, "read only replica"),
    "too few replicas": (too_few_replicas, "good replicas"),
    "a busy script": (busy_script, "busy"),
    "full memory": (full_memory, ""),
    "paused clients": (paused_clients, ""),
    "killed clients": (killed_clients, ""),
    "a failed snapshot": (failed_snapshot, "snapshot"),
    "forgotten scripts": (forgotten_scripts, ""),
}


@pytest.mark.usefixtures("quick_renewals")
@pytest.mark.parametrize("kind", ["valkey", "redis7"])
@pytest.mark.parametrize("state", STATES)
async def test_a_worker_outlives_the_states_of_real_servers(
    private_server: PrivateServer, queue_name: str, kind: Kind, state: str
) -> None:
    """Jobs that run, that are delayed, and that come during it are done in time after it."""
    server = private_server(kind)
    enter, refusal = STATES[state]
    raw = server.raw()
    async with (
        open_queue(server, queue_name, beat=BEAT) as queue,
        open_queue(server, queue_name, beat=BEAT) as outside,
    ):
        ran: Counter[str] = Counter()
        going = asyncio.Event()

        @queue.task(name="work")
        async def work() -> None:
            ran[rota.current_job().id] += 1
            if rota.current_job().id == "runs":
                going.set()
                await asyncio.sleep(0.5)

        async with working(queue, lease=LEASE, slots=4):
            await outside.enqueue_many(
                jobs(["runs"], payload=b"{}") + jobs(["due"], payload=b"{}", delay_ms=300)
            )
            await going.wait()
            (lease,) = dump(server, queue).get("consumers")
            with enter(server, raw):
                if refusal:
                    assert refusal in refused(server)
                if state == "full memory":
                    with pytest.raises(ServerFull):
                        await outside.enqueue(jobs(["no"])[0])
                    coming = None
                else:
                    coming = asyncio.create_task(outside.enqueue(jobs(["c"], payload=b"{}")[0]))
                await asyncio.sleep(0.8)
            expected = 2 if coming is None else 3
            await until_done(server, queue, expected)
            if coming is not None:
                assert (await coming).outcome == "created"
            assert dump(server, queue).get("consumers").keys() == {lease}, "lost its lease over it"
            await outside.enqueue(jobs(["after"], payload=b"{}")[0])
            await until_done(server, queue, expected + 1)
        assert set(ran.values()) == {1}
        assert_drained(server, queue, done=expected + 1)
        raw.close()


# ── the ack itself ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", FAULTS)
async def test_an_ending_that_failed_is_sent_again_as_it_was(
    server: Server, queue_name: str, faulty: Break, answer: str
) -> None:
    """C07: of a job done and of one given back, twice each. Neither runs again for it, a lost
    reply is no second ending, and the worker takes the next job."""
    proxy = faulty(server)
    async with open_queue(proxy.url, queue_name, beat=BEAT) as queue:
        one = Worked(server, queue, proxy)

        @queue.task(name="arm")
        async def arm() -> None:
            one.ran["arm"] += 1
            proxy.plant("exchange", answer, 1 if answer in (CUT_AFTER, SILENT) else 2)

        @queue.task(name="arm_back")
        async def arm_back() -> None:
            one.ran["back"] += 1
            if one.ran["back"] == 1:
                proxy.plant("settle", answer, 1 if answer in (CUT_AFTER, SILENT) else 2)
                raise rota.Retry(0.05)

        async with working(queue, lease=LEASE, slots=1) as worker:
            one.put("1", "arm")
            if answer == SILENT:
                await eventually_async(lambda: proxy.failed, "not silent")
                await asyncio.sleep(0.3)
                proxy.heal()
            await until_done(server, queue, 1)
            one.put("2", "arm_back")
            if answer == SILENT:
                await eventually_async(lambda: len(proxy.failed) == 2, "not silent")
                await asyncio.sleep(0.3)
                proxy.heal()
            await until_done(server, queue, 2)
            one.put("3")
            await until_done(server, queue, 3)
            await eventually_async(
                lambda: worker._fetchers[0].tally.done == 3, "an ending is not known here"
            )
        assert one.ran == {"arm": 1, "back": 2, "3": 1}
        assert stats(server, queue)["retried"] == 1
        assert dump(server, queue).get("attempts") == {}
        assert_drained(server, queue, done=3)


async def test_endings_are_dropped_with_the_lease(
    server: Server, queue_name: str, faulty: Break
) -> None:
    """C07: nothing gets through for longer than the lease: the ending is dropped, the job runs
    again elsewhere, and its ending there is the one. The worker then takes other jobs."""
    proxy = faulty(server)
    async with (
        open_queue(proxy.url, queue_name, beat=BEAT) as queue,
        open_queue(server, queue_name, beat=BEAT) as elsewhere,
    ):
        one, other = Worked(server, queue, proxy), Worked(server, elsewhere, proxy)

        @queue.task(name="arm")
        async def arm() -> None:
            one.ran["arm"] += 1
            for name in ("exchange", "settle", "heartbeat", "join"):
                proxy.plant(name, "NOREPLICAS")

        @elsewhere.task(name="arm")
        async def arm_elsewhere() -> None:
            other.ran["arm"] += 1

        async with working(queue, lease=1, slots=1):
            one.put("1", "arm")
            await eventually_async(lambda: one.ran["arm"], "it does not run")
            async with working(elsewhere, lease=LEASE, slots=1):
                await until_done(server, queue, 1)
                assert other.ran["arm"] == 1
            proxy.heal()
            one.put("2")
            await until_done(server, queue, 2)
        assert one.ran == {"arm": 1, "2": 1}
        assert_drained(server, queue, done=2)


# ── reconciling ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [CUT, CUT_AFTER, SILENT])
async def test_nothing_stays_claimed_that_its_consumer_does_not_know(
    server: Server, queue_name: str, faulty: Break, answer: str
) -> None:
    """The claim's fate is unknown: what it took goes back in order, uncounted, and comes again.
    With silence the claim arrives after the consumer has reconciled: it bounces off its number."""
    proxy = faulty(server)
    async with open_queue(proxy.url, queue_name, beat=BEAT) as queue:
        await queue.enqueue_many(jobs("abcdef", lane="!o") + jobs("xyz"))
        async with queue.consumer(prefetch=3) as consumer:
            await consumer.claim(1)
            held = consumer.held
            proxy.plant("exchange", answer, 1)
            if answer == SILENT:
                waiting = asyncio.create_task(consumer.claim(2))
                await eventually_async(lambda: proxy.failed, "not silent")
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
                taken = await consumer.claim(2)
                proxy.heal()
                await eventually_async(
                    lambda: len(proxy.passed["exchange"]) >= 3, "the late claim never arrives"
                )
            else:
                taken = await consumer.claim(2)
            on_server = dump(server, queue).deliveries(consumer.id)
            assert on_server.keys() == {job.id for job in consumer.held}
            assert {job.id for job in held} | {job.id for job in taken} == on_server.keys()
            assert dump(server, queue).get("attempts") == {}
            await consumer.complete(consumer.held)
            assert_sound(server, queue)


@pytest.fixture(autouse=True)
async def let_go() -> AsyncIterator[None]:
    yield
    await asyncio.sleep(0)  # connections that were cut are closed in the loop's next turn
