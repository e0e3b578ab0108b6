"""A server behind a sentinel, with a password and a database of its own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import redis

import rota
from tests.conftest import PrivateServer
from tests.support.binaries import valkey_server
from tests.support.times import IN_TIME
from tests.support.waiting import eventually

LOGINS = {
    "": "",
    "sentinel_password=guarded": "requirepass guarded\n",
    "sentinel_username=ops&sentinel_password=own": (
        "user default off\nuser ops on >own ~* &* +@all\n"
    ),
}
"""What a URL says, and the settings of a sentinel that asks for it."""


@pytest.fixture(params=LOGINS)
def login(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sentinel(private_server: PrivateServer, tmp_path: Path, login: str) -> Iterator[str]:
    """The host and port of a sentinel that watches a private server, as `main`."""
    server = private_server(tcp=True)
    master = server.nodes[0].client()
    master.config_set("requirepass", "secret")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
        f"sentinel monitor main 127.0.0.1 {server.nodes[0].address} 1\n"
        f"sentinel auth-pass main secret\n{LOGINS[login]}"
    )
    process = subprocess.Popen(
        [valkey_server(), str(config), "--sentinel"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        words: dict[str, Any] = {key.partition("_")[2]: value for key, value in parse_qsl(login)}
        with redis.Redis(port=port, socket_timeout=IN_TIME, **words) as client:
            eventually(lambda: _knows(client), "the sentinel does not start")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        master.auth("secret")
        master.config_set("requirepass", "")
        master.close()


def _knows(client: redis.Redis) -> bool:
    try:
        return bool(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"))
    except redis.ConnectionError:
        return False


async def test_the_password_and_the_database_are_the_servers(sentinel: str, login: str) -> None:
    queue = rota.Queue("q", url=f"redis+sentinel://:secret@{sentinel}/main/1?{login}".rstrip("?"))

    @queue.task
    async def work() -> None: ...

    assert (await work.enqueue()).outcome == "created"
    assert queue.sync.info().waiting == 1
    assert await rota.Worker(queue).run(burst=True) == rota.Drained(1, 0, 0, 0)
    await queue.close()


async def test_an_unknown_service_is_named(sentinel: str, login: str) -> None:
    queue = rota.Queue("q", url=f"redis+sentinel://{sentinel}/other?{login}".rstrip("?"))
    with pytest.raises(rota.Unavailable, match="no such service"):
        await queue.info()
    await queue.close()


@pytest.mark.parametrize("login", ["sentinel_password=guarded"], indirect=True)
@pytest.mark.parametrize("given", ["", "?sentinel_password=SECRET"])
async def test_a_sentinel_that_refuses_the_login_is_told_at_once(sentinel: str, given: str) -> None:
    """The password of the server is not tried on it."""
    queue = rota.Queue("q", url=f"redis+sentinel://:secret@{sentinel}/main{given}")
    began = time.monotonic()
    for call in (queue.info, lambda: asyncio.to_thread(queue.sync.info)):
        with pytest.raises(rota.Unavailable, match=r"(?i)auth|password") as caught:
            await call()
        assert "SECRET" not in str(caught.value)
    assert time.monotonic() - began < IN_TIME
    await queue.close()
