"""Connections: unreachable, full, read-only, flushed, silent and forked; pools that stay small."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.consume.deliveries import Deliveries
from rota.script.loader import Operation
from rota.worker import Worker
from tests.conftest import PrivateServer
from tests.support.proxy import Proxy
from tests.support.queues import assert_drained, assert_sound, dump, open_queue, spec, specs
from tests.support.servers import Server
from tests.support.times import FAR_BEAT, IN_TIME, LEASE, PATIENCE
from tests.support.waiting import eventually_async

ROOT = Path(__file__).parents[2]

# ── out of reach ────────────────────────────────────────────────────────────────────────────────

NOBODY = "redis://127.0.0.1:1/3"


@pytest.mark.parametrize(
    "url", [NOBODY, "unix:///nonexistent/socket", "redis+cluster://127.0.0.1:1"]
)
async def test_a_server_never_reached_fails_at_once_and_by_name(url: str) -> None:
    queue = rota.Queue("q", url=url)
    calls: list[Callable[[], Any]] = [
        lambda: queue.enqueue(spec()),
        lambda: queue.enqueue_many(specs(1)),
        queue.info,
        queue.consumer().__aenter__,
        lambda: Worker(queue).run(burst=True),
        lambda: asyncio.to_thread(queue.sync.enqueue, spec()),
        lambda: asyncio.to_thread(queue.sync.info),
        lambda: asyncio.to_thread(queue.sync.consumer().__enter__),
    ]
    began = time.monotonic()
    for call in calls:
        with pytest.raises(rota.Unavailable) as caught:
            await call()
        assert url in str(caught.value)
    assert time.monotonic() - began < IN_TIME
    await queue.close()


async def test_a_refused_login_is_told_without_the_password(private_server: PrivateServer) -> None:
    server = private_server(tcp=True)
    server.raw().config_set("requirepass", "right")
    port = server.url.rpartition(":")[2]
    for login in ("", ":wrong@"):
        queue = rota.Queue("q", url=f"redis://{login}127.0.0.1:{port}")
        for call in (queue.info, lambda queue=queue: asyncio.to_thread(queue.sync.info)):
            with pytest.raises(rota.Unavailable) as caught:
                await call()
            assert "wrong@" not in str(caught.value)
            assert f"127.0.0.1:{port}" in str(caught.value)
        await queue.close()


async def test_calls_outlive_a_restart(private_server: PrivateServer, queue_name: str) -> None:
    """Idle connections died with the server: nobody gets to see that, whatever he calls next."""
    server = private_server(appendonly="yes", appendfsync="always")
    async with open_queue(server, queue_name) as queue:
        await asyncio.gather(*(queue.enqueue(spec()) for _ in range(12)))
        async with queue.consumer(lease=LEASE) as consumer:
            held = await consumer.claim(2)
            await asyncio.to_thread(queue.sync.info)
            await asyncio.to_thread(server.restart)
            jobs = await consumer.exchange(done=held, n=2)
            assert len(jobs) == 2
            assert await consumer.complete(jobs) == ["ok", "ok"]
            assert (await queue.info()).waiting == 8
            assert (await asyncio.to_thread(queue.sync.info)).waiting == 8
            assert (await asyncio.to_thread(queue.sync.enqueue, spec())).outcome == "created"
        assert_sound(server, queue)


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_connection_closed_while_idle_leaves_no_outcome_unknown(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciled: list[str] = []
    original = Deliveries.reconcile

    def reconcile(self: Deliveries) -> Operation[list[rota.Job]]:
        reconciled.append(self.id)
        return original(self)

    monkeypatch.setattr(Deliveries, "reconcile", reconcile)
    async with open_queue(server, queue_name) as queue, queue.consumer(lease=LEASE) as consumer:
        await queue.enqueue_many(specs(2))
        assert len(await consumer.claim()) == 1
        for node in server.nodes:
            with node.client() as client:
                client.client_kill_filter(_type="normal", skipme=True)
        await asyncio.sleep(0.05)  # the loop hears of it
        assert len(await consumer.claim()) == 1
        assert not reconciled


async def test_a_call_waits_out_a_short_outage(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server(appendonly="yes", appendfsync="always")
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue(spec())
        await asyncio.to_thread(queue.sync.enqueue, spec())
        await asyncio.to_thread(server.kill)
        calls = [
            asyncio.create_task(queue.enqueue(spec())),
            asyncio.create_task(queue.enqueue_many(specs(3))),
            asyncio.create_task(asyncio.to_thread(queue.sync.enqueue, spec())),
        ]
        await asyncio.sleep(0.3)
        assert not any(call.done() for call in calls)
        await asyncio.to_thread(server.restart)
        await asyncio.gather(*calls)
        assert dump(server, queue).counts("stats")["waiting"] == 7


# ── a server that refuses ───────────────────────────────────────────────────────────────────────


BIG = b'"%s"' % (b"x" * 100_000)


async def test_a_full_server_refuses_jobs_and_drains_itself(
    private_server: PrivateServer, queue_name: str
) -> None:
    """C68 for noeviction. Claiming, settling, renewing and pausing go on at full memory."""
    server = private_server(maxmemory="6mb", maxmemory_policy="noeviction")
    async with open_queue(server, queue_name) as queue:
        stored = 0
        refused: rota.ServerFull | None = None
        while refused is None and stored < 200:
            try:
                await queue.enqueue(spec(f"l{stored % 5}", payload=BIG))
                stored += 1
            except rota.ServerFull as error:
                refused = error
        assert server.url in str(refused)
        with pytest.raises((rota.ServerFull, rota.BatchInterrupted)):
            await queue.enqueue_many(specs(30, payload=BIG))
        with pytest.raises(rota.ServerFull):
            await asyncio.to_thread(queue.sync.enqueue_many, specs(1, payload=BIG))
        assert dump(server, queue).counts("stats")["waiting"] == stored
        async with queue.consumer(lease=LEASE) as consumer:
            await queue.lane("l1").pause()
            (job,) = await consumer.claim(1)
            await consumer.retry(job, delay=0)
            (job,) = await consumer.claim(1)
            await consumer.bury(job, "bad")
            await queue.lane("l1").resume()
            done = 0
            while jobs := await consumer.claim(10):
                done += len(await consumer.complete(jobs))
            assert done == stored - 1
            await queue.enqueue(spec())
        assert_sound(server, queue)


@pytest.mark.usefixtures("quick_renewals")
@pytest.mark.parametrize("trouble", ["READONLY", "NOREPLICAS", "PAUSE"])
async def test_a_passing_refusal_is_waited_out_by_every_loop(
    private_server: PrivateServer, queue_name: str, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C23: claiming, settling, parking, renewing, publishing go on soon after its end."""
    server = private_server()
    begin, end = {
        "READONLY": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
        "NOREPLICAS": (
            ("CONFIG", "SET", "min-replicas-to-write", "1"),
            ("CONFIG", "SET", "min-replicas-to-write", "0"),
        ),
        "PAUSE": (("CLIENT", "PAUSE", "60000", "WRITE"), ("CLIENT", "UNPAUSE")),
    }[trouble]
    raw = server.raw()
    async with open_queue(server, queue_name) as queue:
        ran: list[int] = []

        @queue.task
        async def work(n: int) -> None:
            ran.append(n)
            await asyncio.sleep(0.2 if n < 4 else 0)

        worker = Worker(queue, concurrency=4, lease=LEASE)
        run = asyncio.create_task(worker.run())
        await queue.enqueue_many(work.spec(n) for n in range(8))
        await eventually_async(lambda: len(ran) == 4, "nothing runs")
        raw.execute_command(*begin)
        publish = asyncio.create_task(work.enqueue(8))
        await asyncio.sleep(0.5)
        assert not publish.done()
        raw.execute_command(*end)
        before = queue.consuming.keeper.renewals
        await publish
        await eventually_async(lambda: len(ran) == 9, "it does not go on")
        await work.options(delay=0.2).enqueue(9)
        await eventually_async(lambda: len(ran) == 10, "it does not go on")
        await eventually_async(lambda: queue.consuming.keeper.renewals > before, "nothing renews")
        assert queue.consuming.keeper.is_alive(next(iter(dump(server, queue).get("consumers"))))
        worker.stop()
        await run
        assert sorted(ran) == list(range(10))
        assert_drained(server, queue, done=10)


# ── lost scripts (C43) ──────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("quick_renewals")
@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_a_flushed_script_cache_is_never_seen(
    server: Server, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """20 flushes a second for two seconds under load: single, batch, piped calls, renewals."""
    stop = time.monotonic() + 2
    async with open_queue(server, queue_name) as queue:
        ran: list[int] = []

        @queue.task
        async def work(n: int) -> None:
            ran.append(n)

        async def flush() -> None:
            while time.monotonic() < stop:
                for node in server.nodes:
                    with node.client() as client:
                        client.script_flush()
                await asyncio.sleep(random.uniform(0, 0.1))

        sent = 0
        worker = Worker(queue, concurrency=5, lease=LEASE)
        run = asyncio.create_task(worker.run())
        flushing = asyncio.create_task(flush())
        while time.monotonic() < stop:
            outcomes = await queue.enqueue_many(work.spec(sent + n) for n in range(5))
            assert {done.outcome for done in outcomes} == {"created"}
            await work.enqueue(sent + 5)
            sent += 6
            await queue.set_lanes({f"l{n}": {"ceiling": n + 1} for n in range(10)})
            assert (await queue.lane("l3").info()).ceiling == 4
        await flushing
        await eventually_async(lambda: len(ran) == sent, "not all ran")
        worker.stop()
        await run
        assert sorted(ran) == list(range(sent))
        assert_drained(server, queue, done=sent)
    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [said for said in warned if "cannot be reached" not in said] == []


@pytest.mark.legs("valkey", "redis7")
async def test_a_claim_costs_few_bytes(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue, queue.consumer(lease=LEASE) as consumer:
        await consumer.claim(1)
        before = server.raw().info("stats")["total_net_input_bytes"]
        for _ in range(50):
            await consumer.claim(1)
        used = server.raw().info("stats")["total_net_input_bytes"] - before
        assert used / 50 < 400


# ── waiting on the line (C65) ───────────────────────────────────────────────────────────────────


async def test_a_silent_link_is_noticed_and_quiet_idling_is_no_error(
    valkey: Server,
    proxy: Callable[[Server], Proxy],
    queue_name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The beats are scaled to 0.5 s; the 5 s a blocked read may take beyond them too, where the
    silence is to be noticed."""
    between = proxy(valkey)
    async with (
        open_queue(between.url, queue_name, beat=0.5) as queue,
        queue.consumer(lease=LEASE) as consumer,
    ):
        waiting = asyncio.create_task(consumer.claim(1, wait=FAR_BEAT))
        woken = queue.consuming.bell().wakeups
        await eventually_async(lambda: woken.get("beat") == 3, "it does not beat")
        assert caplog.records == []
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    monkeypatch.setattr("rota.consume.bell.SPARE_S", 0.5)
    async with (
        open_queue(between.url, queue_name, beat=0.5) as queue,
        queue.consumer(lease=LEASE) as consumer,
    ):
        waiting = asyncio.create_task(consumer.claim(1, wait=FAR_BEAT))
        await eventually_async(lambda: valkey.raw().info("clients")["blocked_clients"], "no bell")
        between.silent()
        accepted = between.accepted
        await eventually_async(lambda: between.accepted > accepted, "nobody notices")
        between.pass_through()
        await asyncio.wait_for(queue.enqueue(spec()), IN_TIME)
        (job,) = await asyncio.wait_for(waiting, IN_TIME)
        await consumer.complete(job)


# ── pools (C66) ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("quick_renewals")
async def test_many_consumers_and_a_burst_share_few_connections(
    private_server: PrivateServer, queue_name: str
) -> None:
    """500 consumers and 2,000 publishes scaled to 200 and 400; the server takes 50 clients."""
    server = private_server(maxclients="50")
    most = 0

    def count() -> int:
        nonlocal most
        most = max(most, len(server.strangers()))
        return most

    async with open_queue(server, queue_name) as queue:
        consumers = [queue.consumer(lease=LEASE) for _ in range(200)]
        await asyncio.gather(*(one.__aenter__() for one in consumers))
        waiting = [asyncio.create_task(one.claim(2, wait=20)) for one in consumers]
        await asyncio.sleep(0.1)
        await asyncio.gather(*(queue.enqueue(spec(f"l{n % 7}")) for n in range(400)))
        count()
        got = 0
        while got < 400:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            count()
            for claim in done:
                at = waiting.index(claim)
                got += len(claim.result())
                await consumers[at].complete(claim.result())
                waiting[at] = asyncio.create_task(consumers[at].claim(2, wait=20))
        keeper = queue.consuming.keeper
        renewals = keeper.renewals + 200
        await eventually_async(lambda: keeper.renewals >= renewals, "not all are renewed")
        assert all(keeper.is_alive(one.id) for one in consumers)
        for claim in waiting:
            claim.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*(one.__aexit__(None, None, None) for one in consumers))
        assert_drained(server, queue, done=400)
    assert most <= 16 + 1 + 2, "calls, what is enqueued one by one, bell and lease"


def test_threads_share_few_connections(private_server: PrivateServer, queue_name: str) -> None:
    server = private_server(maxclients="50")
    queue = rota.Queue(queue_name, url=server.url)
    failures: list[BaseException] = []

    def publish() -> None:
        try:
            for _ in range(10):
                queue.sync.enqueue(spec())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=publish) for _ in range(60)]
    for thread in threads:
        thread.start()
    most = max(len(server.strangers()) for _ in range(5))
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    assert most <= 16
    assert queue.sync.info().waiting == 600
    queue.sync.close()


@pytest.mark.parametrize("face", ["loop", "threads"])
async def test_the_queues_of_a_process_share_connections_and_idle_ones_close(
    valkey: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    monkeypatch.setattr("rota.connection.sharing.IDLE_S", 2.0, raising=False)
    queues = [rota.Queue(f"{queue_name}-{n}", url=valkey.url) for n in range(30)]
    most = 0

    async def use(queue: rota.Queue) -> None:
        await asyncio.gather(*(queue.enqueue_many(specs(2)) for _ in range(10)))
        await asyncio.gather(*(queue.info() for _ in range(10)))

    def use_blocking(queue: rota.Queue) -> None:
        for _ in range(3):
            queue.sync.enqueue_many(specs(2))
            queue.sync.info()

    if face == "loop":
        await asyncio.gather(*map(use, queues))
        most = len(valkey.strangers())
    else:
        threads = [threading.Thread(target=use_blocking, args=(queue,)) for queue in queues]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, len(valkey.strangers()))
    assert 1 < most <= 16 + 8
    await eventually_async(lambda: len(valkey.strangers()) <= 1, "idle ones do not close")
    for queue in queues:
        await queue.close()
    await eventually_async(lambda: not valkey.strangers(), "they outlive the last queue")


@pytest.mark.parametrize("face", ["loop", "threads"])
async def test_the_end_of_one_queue_is_not_that_of_anothers_connections(
    valkey: Server, queue_name: str, face: str
) -> None:
    """The second one uses those that the first one has opened, also after that has closed."""

    async def use(queue: rota.Queue) -> set[str]:
        await (queue.info() if face == "loop" else asyncio.to_thread(queue.sync.info))
        return {line.partition(" ")[0] for line in valkey.strangers()}

    async def close(queue: rota.Queue) -> None:
        await (queue.close() if face == "loop" else asyncio.to_thread(queue.sync.close))

    first, second = (rota.Queue(queue_name + end, url=valkey.url) for end in "ab")
    opened = await use(first)
    assert await use(second) == opened
    await close(first)
    assert await use(second) == opened
    assert await use(first) == opened, "it may be used again"
    await close(second)
    assert await use(first) == opened
    await close(first)
    await eventually_async(lambda: not valkey.strangers(), "nobody's are closed")


# ── fork (C63) ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.legs("valkey", "cluster", "redis7")
def test_forked_children_and_their_parent_share_nothing_but_the_queue(
    server: Server, queue_name: str
) -> None:
    """C63, 8 children with 1,000 jobs each scaled to 4 with 100."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.support.forking", server.url, queue_name]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=40, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert told["codes"] == [0] * 4
    taken = [id for row in told["rows"] for id in row["taken"]]
    assert len(taken) == len(set(taken))
    assert len(taken) + told["left"] == 500
    assert (
        len({row["pid"] for row in told["rows"]}) == len({row["id"] for row in told["rows"]}) == 5
    )
    queue = rota.Queue(queue_name, url=server.url)
    found = assert_sound(server, queue)
    assert found.counts("stats")["completed"] == len(taken)
