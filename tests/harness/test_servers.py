"""The harness itself: each server leg serves, survives what tests do to it, and goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.conftest import PrivateServer
from tests.support.servers import Kind, Server
from tests.support.times import IN_TIME
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.legs("valkey", "cluster", "redis7")
@pytest.mark.foreign_keys
def test_every_leg_serves_the_kind_it_is_named_after(server: Server, leg: Kind) -> None:
    info = server.raw().info("server") if leg != "cluster" else _first_info(server)
    assert server.kind == leg
    assert ("valkey_version" in info) == (leg != "redis7")
    assert server.raw().ping()
    assert server.url.startswith("redis+cluster://127.0.0.1:" if leg == "cluster" else "unix:///")


@pytest.mark.legs("valkey", "cluster", "redis7")
@pytest.mark.foreign_keys
def test_keys_of_every_slot_are_written_seen_and_flushed(server: Server) -> None:
    names = sorted(f"key{i}" for i in range(100))
    for name in names:
        server.raw().set(name, f"value of {name}")
    assert [server.raw().get(name) for name in names] == [f"value of {name}" for name in names]
    assert server.raw(decode=False).get("key0") == b"value of key0"
    assert server.keys() == names
    server.flush()
    assert server.keys() == []


@pytest.mark.legs("cluster")
def test_the_cluster_spreads_keys_and_refuses_a_foreign_slot(server: Server) -> None:
    for i in range(100):
        server.raw().set(f"key{i}", "x")
    for node in server.nodes:
        with node.client() as client:
            assert client.dbsize() > 0
    with server.nodes[0].client() as client, pytest.raises(redis.exceptions.MovedError):
        client.set("foo", "x")  # slot 12182, of the third
    server.flush()


@pytest.mark.legs("valkey", "cluster", "redis7")
def test_a_test_begins_on_an_empty_server(server: Server) -> None:
    assert server.keys() == []
    assert server.strangers() == []


def test_strangers_are_the_connections_of_others(valkey: Server) -> None:
    with redis.Redis(
        unix_socket_path=str(valkey.nodes[0].address), client_name="guest", socket_timeout=IN_TIME
    ) as guest:
        guest.ping()
        assert ["guest" in one for one in valkey.strangers()] == [True]
    eventually(lambda: not valkey.strangers(), "the guest has left")


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
def test_what_is_kept_survives_kill_and_restart(private_server: PrivateServer, kind: Kind) -> None:
    server = private_server(kind, appendonly="yes", appendfsync="no")
    server.raw().set("a", "1")
    server.kill()
    assert not server.alive
    with pytest.raises(redis.ConnectionError):
        server.raw().ping()
    server.restart()
    assert server.raw().get("a") == "1"


def test_a_cluster_restarts_with_its_slots(private_server: PrivateServer) -> None:
    server = private_server("cluster")
    server.raw().set("a", "1")
    server.restart()
    assert server.raw().get("a") is None
    server.raw().set("a", "2")
    assert server.raw().get("a") == "2"


def test_a_private_server_takes_settings_and_a_port(private_server: PrivateServer) -> None:
    server = private_server(tcp=True, maxmemory="20mb", maxmemory_policy="noeviction")
    assert server.raw().config_get("maxmemory") == {"maxmemory": str(20 * 1024 * 1024)}
    assert server.url.startswith("redis://127.0.0.1:")


def test_a_frozen_server_accepts_and_does_not_answer(private_server: PrivateServer) -> None:
    server = private_server()
    with server.nodes[0].client(timeout=0.1) as client:
        server.freeze()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.thaw()
    assert server.raw().ping()


def test_reset_revives_a_dead_server(private_server: PrivateServer) -> None:
    server = private_server()
    server.raw().set("a", "1")
    server.kill()
    server.reset()
    assert server.keys() == []


_STARTS_ONE_AND_HANGS = """
import signal
from tests.support.servers import Fleet
server = Fleet().shared("valkey")
node = server.nodes[0]
print(node.process.pid, node.folder.parent, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_leaves_nothing(how: signal.Signals) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", _STARTS_ONE_AND_HANGS],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        assert Path(folder).is_dir()
        os.kill(int(pid), 0)
        run.send_signal(how)
    eventually(lambda: not Path(folder).exists(), f"{folder} is removed")
    eventually(lambda: _is_gone(int(pid)), f"the server {pid} has ended")


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def _first_info(server: Server) -> dict[str, object]:
    with server.nodes[0].client() as client:
        answer: dict[str, object] = client.info("server")
        return answer
