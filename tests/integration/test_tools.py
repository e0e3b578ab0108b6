"""What tools ask of a queue: whether it is there and where, its lanes page by page, its server."""

from __future__ import annotations

from pathlib import Path

import pytest

import rota
from rota.embedded import acquire
from tests.support.queues import open_queue, specs
from tests.support.servers import Server


async def test_to_ask_whether_a_queue_exists_leaves_nothing(
    server: Server, queue_name: str
) -> None:
    """Nor do the doctor and its advice tell the default ceiling, as other verbs do."""
    queue = rota.Queue(queue_name, url=server.url, default_ceiling=3)
    assert not await queue.exists()
    assert not queue.sync.exists()
    assert await queue.advice() == (await queue.doctor()).advice
    assert server.keys() == []
    assert (await queue.info()).default_ceiling == 3
    assert await queue.exists()
    await queue.close()


async def test_lanes_come_page_by_page_and_by_name(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        names = [f"lane {n}" for n in range(250)]
        await queue.enqueue_many([spec for name in names for spec in specs(1, name)])
        found: set[str] = set()
        page, pages = await queue.lanes_page(), 1
        while page.cursor is not None:
            found |= {lane.name for lane in page.lanes}
            page, pages = await queue.lanes_page(page.cursor), pages + 1
        assert found | {lane.name for lane in page.lanes} == set(names)
        assert pages > 2
        for wrong in ("lane 7", 5, None, [b"lane 7"], ["\ud800"]):
            with pytest.raises(rota.ConfigError):
                await queue.lanes_named(wrong)  # type: ignore[arg-type]
        asked = await queue.lanes_named(["lane 7", "nobody", "lane 3"])
        assert [(lane.name, lane.waiting) for lane in asked] == [
            ("lane 7", 1), ("nobody", 0), ("lane 3", 1)
        ]  # fmt: skip
        assert [lane.name for lane in queue.sync.lanes_named(iter(["lane 7"]))] == ["lane 7"]
        for cursor in ("x", 3):
            with pytest.raises(rota.ConfigError, match="cursor: expected one that a page gave"):
                await queue.lanes_page(cursor)  # type: ignore[arg-type]


async def test_the_doctor_tells_how_far_it_is(valkey: Server, queue_name: str) -> None:
    told: list[tuple[str, int, int]] = []
    async with open_queue(valkey, queue_name) as queue:
        await queue.doctor(progress=lambda *step: told.append(step))
    assert [number for _, number, _ in told] == list(range(len(told)))
    assert {of for _, _, of in told} == {len(told)}


async def test_a_server_is_named_before_the_first_use_only(valkey: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url="redis://ops:s3cret@127.0.0.1:1")
    assert queue.server == "redis://ops:***@127.0.0.1:1"
    assert queue.use_server(valkey.url)
    await queue.info()
    assert queue.use_server(valkey.url)
    assert not queue.use_server("redis://127.0.0.1:1")
    assert (await queue.info()).waiting == 0
    await queue.close()


async def test_an_embedded_server_that_has_never_run_is_told(tmp_path: Path) -> None:
    place = tmp_path / "new"
    queue = rota.Queue("orders", url=f"embedded:{place}")
    seen = [queue.unstarted_server]
    assert not place.exists()
    with acquire(place):
        seen.append(queue.unstarted_server)
    seen.append(queue.unstarted_server)  # it has left its data
    assert seen == [place, None, None]


async def test_a_queue_apart_has_connections_of_its_own(valkey: Server, queue_name: str) -> None:
    async with open_queue(valkey, queue_name) as queue:
        await queue.enqueue_many(specs(2))
        apart = queue.apart(timeout=1)
        assert apart.name == queue.name
        assert apart.info().waiting == 2
        assert apart.census().lanes == queue.sync.census().lanes
        apart.close()
        assert queue.sync.info().waiting == 2
    with pytest.raises(rota.ConfigError, match="timeout: expected"):
        queue.apart(timeout=0)
