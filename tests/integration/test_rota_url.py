"""`rota_url`: a test's jobs go to the test's server, whatever server the program's code names."""

from __future__ import annotations

import pytest

import rota
from rota.errors import Unavailable
from rota.testing import drain, embedded_server, every_queue_on, rota_url

__all__ = ["rota_url"]

NOWHERE = "redis://127.0.0.1:1"
"""No server: a test that reached for it would fail."""

queue = rota.Queue("elsewhere", url=NOWHERE)


@queue.task
async def work() -> None: ...


@pytest.mark.usefixtures("rota_url")
@pytest.mark.parametrize("time", ["first", "again"])
async def test_a_queue_that_names_its_server_uses_the_tests(time: str) -> None:
    await work.enqueue()
    work.sync.enqueue()
    drained = await drain(queue)
    assert (drained.done, drained.left) == (2, 0), time
    await queue.close()


async def test_without_it_the_queue_uses_its_own() -> None:
    with pytest.raises(Unavailable, match="127.0.0.1:1"):
        await queue.info()
    with pytest.raises(Unavailable, match="127.0.0.1:1"):
        queue.sync.info()
    await queue.close()


async def test_every_queue_on_a_server_for_a_block() -> None:
    """One inside the other, too; afterwards each queue is where it was."""
    with embedded_server() as url, every_queue_on(url):
        assert queue.server == url
        await work.enqueue()
        with embedded_server() as other, every_queue_on(other):
            assert (await queue.info()).waiting == 0
            await queue.close()
        assert (await queue.info()).waiting == 1
        await queue.close()
    assert queue.server == NOWHERE
