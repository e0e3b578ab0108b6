"""The proxy breaks what it says it breaks, and nothing else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.proxy import Proxy
from tests.support.servers import Server
from tests.support.times import IN_TIME
from tests.support.waiting import eventually

pytestmark = pytest.mark.foreign_keys


@pytest.fixture
def net(valkey: Server, proxy: Callable[[Server], Proxy]) -> Proxy:
    return proxy(valkey)


@pytest.fixture
def client(net: Proxy) -> Iterator[redis.Redis]:
    with redis.Redis(
        port=net.port,
        socket_timeout=IN_TIME,
        socket_connect_timeout=IN_TIME,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    ) as client:
        yield client


def hurry(client: redis.Redis) -> None:
    """Its open connection waits only for a moment from now on."""
    for connection in client.connection_pool._available_connections:
        connection._sock.settimeout(0.3)


def test_passes_requests_and_replies_and_counts(net: Proxy, client: redis.Redis) -> None:
    big = "x" * 1_000_000
    assert client.set("a", big)
    assert client.get("a") == big
    assert (net.accepted, net.open) == (1, 1)
    assert net.url == f"redis://127.0.0.1:{net.port}"
    client.close()
    eventually(lambda: net.open == 0, "the closed connection is forgotten")


def test_delays_replies(net: Proxy, client: redis.Redis) -> None:
    client.ping()
    net.delay(0.1)
    began = time.monotonic()
    client.ping()
    assert time.monotonic() - began >= 0.1
    net.pass_through()
    assert client.ping()


def test_a_swallowed_reply_belongs_to_a_command_that_was_carried_out(
    net: Proxy, client: redis.Redis, valkey: Server
) -> None:
    client.ping()
    net.drop_reply_then_cut(after=b"INCR")
    assert client.ping()
    with pytest.raises(redis.ConnectionError):
        client.incr("n")
    assert valkey.raw().get("n") == "1"
    assert net.dropped == 1
    assert client.incr("n") == 2


def test_silence_holds_everything_back_until_it_ends(
    net: Proxy, client: redis.Redis, valkey: Server
) -> None:
    client.ping()
    hurry(client)
    net.silent()
    with pytest.raises(redis.TimeoutError):
        client.incr("n")
    assert valkey.raw().get("n") is None
    net.pass_through()
    eventually(lambda: valkey.raw().get("n") == "1", "the held request arrives late")


def test_silent_replies_let_the_server_work(
    net: Proxy, client: redis.Redis, valkey: Server
) -> None:
    client.ping()
    hurry(client)
    net.silent(replies_only=True)
    with pytest.raises(redis.TimeoutError):
        client.incr("n")
    assert valkey.raw().get("n") == "1"


def test_refuses_and_listens_again_on_the_same_port(net: Proxy, client: redis.Redis) -> None:
    client.ping()
    net.refuse()
    with pytest.raises(redis.ConnectionError):
        client.ping()
    with pytest.raises(redis.ConnectionError, match="refused"):
        client.ping()
    net.pass_through()
    assert client.ping()


def test_a_cut_connection_is_replaced(net: Proxy, client: redis.Redis) -> None:
    client.ping()
    net.cut()
    assert net.open == 0
    with contextlib.suppress(redis.ConnectionError):  # some versions notice before they send
        client.ping()
    assert client.ping()
    assert net.accepted == 2


def test_stands_before_a_port_too(
    private_server: Callable[..., Server], proxy: Callable[[Server], Proxy]
) -> None:
    net = proxy(private_server(tcp=True))
    with redis.Redis(
        port=net.port, socket_timeout=IN_TIME, socket_connect_timeout=IN_TIME
    ) as client:
        assert client.ping()


@pytest.mark.legs("cluster")
def test_no_proxy_before_a_cluster(server: Server, proxy: Callable[[Server], Proxy]) -> None:
    with pytest.raises(ValueError, match="announces its own addresses"):
        proxy(server)
