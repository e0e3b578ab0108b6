"""rediss://: both faces, a worker, its doorbell and its lease over TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
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
    metronome = queue.station.metronome()
    await eventually_async(lambda: metronome._parked_at is not None, "it waits at the doorbell")
