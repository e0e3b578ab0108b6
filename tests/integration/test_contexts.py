"""`async with queue` and `with queue.sync`: their end closes connections, and spoils nothing."""

from __future__ import annotations

import pytest

import rota
from tests.support.queues import spec
from tests.support.servers import Server


@pytest.mark.legs("valkey", "cluster")
async def test_the_block_of_a_queue_closes_its_connections(server: Server, queue_name: str) -> None:
    async with rota.Queue(queue_name, url=server.url) as queue:
        await queue.enqueue(spec())
        queue.sync.enqueue(spec())
        assert len(server.strangers()) >= 2
    assert not server.strangers()


@pytest.mark.legs("valkey", "cluster")
def test_the_block_of_the_blocking_face_closes_its_connections(
    server: Server, queue_name: str
) -> None:
    with rota.Queue(queue_name, url=server.url).sync as queue:
        assert queue.enqueue(spec()).outcome == "created"
        assert server.strangers()
    assert not server.strangers()


async def test_an_error_passes_through_and_connections_are_closed(
    server: Server, queue_name: str
) -> None:
    queue = rota.Queue(queue_name, url=server.url)

    async def fail() -> None:
        async with queue:
            await queue.enqueue(spec())
            raise LookupError("its own")

    def fail_blocking() -> None:
        with queue.sync as face:
            face.enqueue(spec())
            raise LookupError("its own")

    with pytest.raises(LookupError, match="its own"):
        await fail()
    assert not server.strangers()
    with pytest.raises(LookupError, match="its own"):
        fail_blocking()
    assert not server.strangers()


async def test_a_queue_is_used_again_after_its_block(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url)
    for _ in range(2):
        async with queue as same:
            assert same is queue
            await queue.enqueue(spec())
        with queue.sync as face:
            face.enqueue(spec())
    async with queue:
        assert (await queue.info()).waiting == 4


async def test_a_block_in_which_nothing_is_done_needs_no_server() -> None:
    queue = rota.Queue("nowhere", url="redis://127.0.0.1:1")
    async with queue:
        pass
    with queue.sync:
        pass
