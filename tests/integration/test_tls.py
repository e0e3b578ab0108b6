"""rediss://: both faces, a worker, its doorbell and its lease over TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

import rota
from rota.errors import ConfigError, Unavailable
from tests.support.proxy import Proxy
from tests.support.servers import Server
from tests.support.times import FAR_BEAT, LEASE, PATIENCE
from tests.support.waiting import eventually_async

LARGE = "x" * 900_000
"""More than one TLS record, and more than a socket takes at once."""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def front(valkey: Server, authority: trustme.CA) -> Iterator[Proxy]:
    """The server behind TLS, with a certificate for `localhost`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with Proxy(valkey.nodes[0].address, context) as proxy:
        yield proxy


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system trusts the authority: what a user without it sets, too."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


@pytest.mark.usefixtures("trusted")
async def test_jobs_travel_over_tls(front: Proxy, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=front.url)
    seen: asyncio.Queue[int] = asyncio.Queue()

    @queue.task
    async def note(text: str) -> None:
        seen.put_nowait(len(text))

    async with asyncio.timeout(PATIENCE), rota.Worker(queue):
        await note.enqueue("awake")
        assert await seen.get() == 5
        await asyncio.to_thread(note.sync.enqueue, LARGE)
        await note.enqueue(LARGE)
        assert [await seen.get(), await seen.get()] == [len(LARGE)] * 2
    info = await queue.info()
    assert (info.waiting, info.running) == (0, 0)
    await queue.close()


@pytest.mark.usefixtures("trusted")
async def test_a_connection_cut_under_tls_is_made_again(front: Proxy, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=front.url)

    @queue.task
    async def noop() -> None: ...

    await noop.enqueue()
    front.cut()
    await noop.enqueue()
    drained = await rota.Worker(queue).run(burst=True)
    assert drained.done == 2
    await queue.close()


async def test_a_certificate_nobody_vouches_for_is_refused(front: Proxy, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=front.url)
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        await queue.info()
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        await asyncio.to_thread(lambda: queue.sync.info())
    await queue.close()


@pytest.fixture
def strict(valkey: Server, authority: trustme.CA) -> Iterator[Proxy]:
    """A front that asks its clients for a certificate of the authority."""
    with Proxy(valkey.nodes[0].address, _asking(authority)) as proxy:
        yield proxy


def _asking(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> str:
    """The options of a URL: an authority the system does not know, and a certificate of it."""
    own = authority.issue_cert("client@test")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own.cert_chain_pems[0].write_to_path(tmp_path / "own.pem")
    own.private_key_pem.write_to_path(tmp_path / "own.key")
    return (
        f"ssl_ca_certs={tmp_path}/ca.pem"
        f"&ssl_certfile={tmp_path}/own.pem&ssl_keyfile={tmp_path}/own.key"
    )


async def test_a_private_authority_and_a_client_certificate_come_with_the_url(
    strict: Proxy, queue_name: str, files: str
) -> None:
    queue = rota.Queue(queue_name, url=f"{strict.url}?{files}")

    @queue.task
    async def noop() -> None: ...

    await noop.enqueue()
    await asyncio.to_thread(noop.sync.enqueue)
    drained = await rota.Worker(queue).run(burst=True)
    assert drained.done == 2
    await queue.close()


@pytest.mark.parametrize("face", ["loop", "threads"])
async def test_who_brings_no_certificate_is_told_so_at_once(
    authority: trustme.CA, files: str, face: str
) -> None:
    """Under TLS 1.3 the server says so when the first call is on its way; the front of the other
    tests hangs up without a word."""
    context = _asking(authority)
    refused: list[ssl.SSLSocket] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):  # until it is closed
            while True:
                plain, _ = listener.accept()
                wrapped = context.wrap_socket(plain, True, do_handshake_on_connect=False)
                refused.append(wrapped)
                with suppress(ssl.SSLError):
                    wrapped.do_handshake()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        options = files.partition("&")[0]
        queue = rota.Queue("q", url=f"rediss://localhost:{listener.getsockname()[1]}?{options}")
        with pytest.raises(Unavailable, match="alert certificate required"):
            await (queue.info() if face == "loop" else asyncio.to_thread(queue.sync.info))
        assert len(refused) == 1
        await queue.close()
        listener.shutdown(socket.SHUT_RDWR)
        serving.join(PATIENCE)
    for one in refused:
        one.close()


@pytest.mark.parametrize("face", ["loop", "threads"])
async def test_files_that_are_no_certificates_are_told(
    strict: Proxy, queue_name: str, tmp_path: Path, face: str
) -> None:
    (tmp_path / "empty.pem").touch()
    queue = rota.Queue(queue_name, url=f"{strict.url}?ssl_certfile={tmp_path}/empty.pem")
    with pytest.raises(Unavailable, match=r"\[SSL\]"):
        await (queue.info() if face == "loop" else asyncio.to_thread(queue.sync.info))
    await queue.close()


@pytest.mark.usefixtures("trusted")
async def test_who_leaves_over_tls_waits_for_no_beat(
    front: Proxy, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A wait at the doorbell cannot be ended from outside over TLS: it is short, and none fails."""
    queue = rota.Queue(queue_name, url=front.url, beat=FAR_BEAT)
    async with asyncio.timeout(PATIENCE):
        async with rota.Worker(queue, lease=LEASE):
            await _parked(queue)
        async with queue.consumer(lease=LEASE) as consumer:
            claim = asyncio.create_task(consumer.claim(wait=LEASE))
            await _parked(queue)
        with pytest.raises(ConfigError, match="with"):
            await claim
        assert await queue.consumers() == []
    assert [record.getMessage() for record in caplog.records] == []
    await queue.close()


async def _parked(queue: rota.Queue) -> None:
    bell = queue.consuming.bell()
    await eventually_async(lambda: bell._parked_at is not None, "it waits at the doorbell")
