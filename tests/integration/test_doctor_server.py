"""What the doctor says of a server, and of a queue that it has damaged."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

import rota
from rota.doctor import Report
from rota.doctor.server import ServerCheck
from rota.script.keys import Keys
from rota.script.loader import Call, Operation, Request
from tests.conftest import PrivateServer
from tests.failures.tools import Hand
from tests.support.queues import assert_sound, open_queue, spec
from tests.support.servers import Server

PERSISTENT = {"appendonly": "yes", "save": ""}


async def advice(server: Server, **queue: Any) -> dict[str, tuple[bool, str]]:
    async with open_queue(server, "q", **queue) as examined:
        report = await examined.doctor()
    return {one.setting: (one.danger, one.text) for one in report.advice}


async def test_a_good_server_needs_no_advice(private_server: PrivateServer) -> None:
    server = private_server(appendonly="yes")
    assert await advice(server) == {}


async def test_each_setting_has_its_sentence(private_server: PrivateServer) -> None:
    server = private_server(
        appendonly="no", save="", maxmemory="100mb", maxmemory_policy="allkeys-lru", timeout="3"
    )
    found = await advice(server, beat=5)
    assert set(found) == {"appendonly", "maxmemory-policy", "timeout"}
    assert all(danger for danger, _ in found.values())
    assert "allkeys-lru" in found["maxmemory-policy"][1]


async def test_a_snapshot_is_better_than_nothing(private_server: PrivateServer) -> None:
    found = await advice(private_server(save="3600 1"))
    assert [found[name][0] for name in found] == [False]
    assert "snapshot" in found["appendonly"][1]


async def test_memory_that_runs_out(private_server: PrivateServer) -> None:
    server = private_server(appendonly="yes")
    used: Any = server.raw().info("memory")
    server.raw().config_set("maxmemory", int(used["used_memory"] * 1.02))
    found = await advice(server)
    assert set(found) == {"maxmemory"}


async def test_a_replica_is_only_looked_at(private_server: PrivateServer) -> None:
    primary, replica = private_server(tcp=True), private_server(tcp=True)
    async with open_queue(primary, "q") as queue:
        await queue.enqueue(spec("a"))
    replica.raw().replicaof("127.0.0.1", int(primary.url.rpartition(":")[2]))
    async with open_queue(replica, "q") as queue:
        report = await queue.doctor(repair=True)
    assert "role" in {one.setting for one in report.advice if one.danger}
    assert report.left == report.findings


async def test_a_user_without_config_is_told_so(private_server: PrivateServer) -> None:
    server = private_server(appendonly="yes", tcp=True)
    server.raw().execute_command("ACL SETUSER bob on >pw ~* &* +@all -config -cluster")
    url = server.url.replace("redis://", "redis://bob:pw@")
    async with open_queue(url, "q") as queue:
        report = await queue.doctor()
        assert [(one.setting.split()[0], one.danger) for one in report.advice] == [
            ("CONFIG", False)
        ]
        server.raw().execute_command("ACL SETUSER bob -info")
        report = await queue.doctor()
    assert [one.setting.split()[0] for one in report.advice] == ["INFO", "CONFIG"]
    assert report.sound


@pytest.mark.legs("cluster")
async def test_a_cluster_is_looked_at(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        found = {one.setting for one in (await queue.doctor()).advice}
    assert found <= {"appendonly"}


def said(info: str, *, now: float | None = None, cluster: bytes = b"") -> Report:
    """What the doctor says where the server answers so."""
    operation: Operation[Any] = ServerCheck(Keys("q"), 5.0).examine()
    request: Request = next(operation)
    assert request

    seconds = time.time() if now is None else now
    replies = [
        info.encode(),
        [str(int(seconds)).encode(), b"0"],
        *([name, value] for name, value in ((b"maxmemory-policy", b"noeviction"),)),
        [b"appendonly", b"yes"],
        [b"save", b""],
        [b"timeout", b"0"],
        cluster,
    ]
    try:
        assert isinstance(operation.send(replies), Call)  # what its user may do
        operation.send([[], []])
    except StopIteration as stop:
        return Report([], [], stop.value)
    raise AssertionError("it asks for more")


GOOD = "valkey_version:9.0.0\r\naof_enabled:1\r\nrole:master\r\n"


def test_what_a_test_cannot_start() -> None:
    assert said(GOOD).sound
    for info in ("valkey_version:7.1.9\r\n", "redis_version:6.2.0\r\n"):
        assert [one.setting for one in said(info).advice] == ["version"]
    (late,) = said(GOOD, now=1_000_000_000).advice
    assert (late.setting, late.danger) == ("clock", True)
    state = b"cluster_state:fail\r\ncluster_slots_ok:5461\r\n"
    (torn,) = said(GOOD + "cluster_enabled:1\r\n", cluster=state).advice
    assert "5461 of 16384" in torn.text


# ── a server that evicts ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "allkeys-random"])
async def test_what_an_evicting_server_left_can_be_worked_off(
    private_server: PrivateServer, policy: str
) -> None:
    server = private_server(maxmemory_policy=policy)
    used: Any = server.raw().info("memory")
    server.raw().config_set("maxmemory", used["used_memory"] + 4_000_000)
    dice = random.Random(3)
    async with open_queue(server, "evicted") as queue:
        hand = await Hand(queue, lease=600).join()
        with_work = [
            spec(
                f"l{dice.randrange(20)}",
                ordering_key=dice.choice((None, "k")),
                payload=b'"' + b"x" * 1500 + b'"',
            )
            for _ in range(4000)
        ]
        for start in range(0, len(with_work), 500):
            try:
                await queue.enqueue_many(with_work[start : start + 500])
                await hand.claim(10, prefetch=3)
            except (rota.BatchInterrupted, rota.Unavailable):
                continue  # full, or damaged already
        server.raw().config_set("maxmemory", 0)
        server.raw().config_set("maxmemory-policy", "noeviction")
        report = await queue.doctor(repair=True)
        if policy != "volatile-lru":
            assert report.findings
        assert report.left == []
        assert_sound(server, queue)
        await hand.leave()
        other = await Hand(queue, lease=600).join()
        while taken := await other.claim(100):
            for id in taken:
                assert await other.settle(id, "complete") == "ok"
        await other.leave()
        assert (await queue.info()).waiting == 0
        assert_sound(server, queue)
