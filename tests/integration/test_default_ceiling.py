"""A default ceiling in code and one set by hand: the last word that was new holds."""

from __future__ import annotations

import pytest

import rota
from tests.support.queues import open_queue
from tests.support.servers import Server


async def _use(server: Server, name: str, ceiling: int | None) -> int | None:
    """A process that starts with this in its code; what holds then."""
    queue = rota.Queue(name, url=server.url, default_ceiling=ceiling)
    try:
        return (await queue.info()).default_ceiling
    finally:
        await queue.close()


async def test_what_is_set_by_hand_outlives_a_restart(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as by_hand:
        assert await _use(server, queue_name, 3) == 3
        await by_hand.set(default_ceiling=50)
        assert await _use(server, queue_name, 3) == 50
        assert await _use(server, queue_name, None) == 50
        assert await _use(server, queue_name, 4) == 4, "code says something new"
        await by_hand.set(default_ceiling=None)
        assert await _use(server, queue_name, 4) is None


@pytest.mark.parametrize("given", [0, 7])
async def test_both_faces_tell_it(server: Server, queue_name: str, given: int) -> None:
    queue = rota.Queue(queue_name, url=server.url, default_ceiling=given)
    assert queue.sync.info().default_ceiling == given
    await queue.close()


async def test_bad_input_is_refused_before_it_is_told(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url, default_ceiling=3)
    lane, bad = queue.lane("a"), -1
    spec = rota.JobSpec(task="t", lane="a")
    for act in (
        lambda: lane.set(ceiling=bad),
        lambda: lane.reprioritize(5000),
        lambda: queue.set_lanes({"a": {"weight": 1}, "b": {"weight": bad}}),
        lambda: queue.jobs("dead", limit=bad),
        lambda: queue.enqueue_many([spec], wait=bad),
        lambda: queue.enqueue_many([spec] * 1001, atomic=True),
    ):
        with pytest.raises(rota.ConfigError):
            await act()
    with pytest.raises(rota.ConfigError):
        queue.sync.lane("a").pause(until=bad)
    assert not await queue.exists()
    assert (await queue.enqueue_many([spec]))[0].outcome == "created"
    assert (await lane.info()).ceiling == 3
    await queue.close()
