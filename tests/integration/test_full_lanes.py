"""What a bulk enqueue with `on_full="raise"` tells of the jobs it has stored."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import rota
from tests.support.queues import spec, specs
from tests.support.servers import Server


@pytest.fixture
async def queue(server: Server, queue_name: str) -> AsyncIterator[rota.Queue]:
    async with rota.Queue(queue_name, url=server.url) as queue:
        await queue.lane("small").set(backlog=1)
        yield queue


def batch() -> list[rota.JobSpec]:
    """Twelve jobs of which the seventh finds its lane full."""
    return [*specs(5, "big"), *specs(2, "small"), *specs(5, "big")]


def told(error: rota.LaneFull) -> list[tuple[str, str]]:
    return [(done.id, done.outcome) for done in error.outcomes]


async def test_the_error_has_the_outcomes_and_the_others_are_stored(queue: rota.Queue) -> None:
    given = batch()
    with pytest.raises(rota.LaneFull, match="lane 'small' is full") as caught:
        await queue.enqueue_many(given, on_full="raise")
    assert told(caught.value) == [
        (one.id, "lane_full" if number == 6 else "created") for number, one in enumerate(given)
    ]
    assert (await queue.info()).waiting == 11
    with pytest.raises(rota.LaneFull) as caught:
        queue.sync.enqueue_many(given, on_full="raise")
    assert [outcome for _, outcome in told(caught.value)] == [
        "lane_full" if number == 6 else "duplicate" for number in range(12)
    ]


async def test_the_outcomes_of_earlier_calls_are_told_and_later_ones_not_sent(
    queue: rota.Queue,
) -> None:
    given = [*specs(1000, "big"), *batch(), *specs(1000, "big")]
    with pytest.raises(rota.LaneFull) as first:
        await queue.enqueue_many(given, on_full="raise")
    with pytest.raises(rota.LaneFull) as second:
        queue.sync.enqueue_many(given, on_full="raise")
    for error, outcome in ((first.value, "created"), (second.value, "duplicate")):
        assert told(error) == [
            (one.id, "lane_full" if number == 1006 else outcome)
            for number, one in enumerate(given[:2000])
        ]
    assert (await queue.info()).waiting == 1999


async def test_a_stream_has_yielded_the_outcomes_of_earlier_calls(queue: rota.Queue) -> None:
    given = [*specs(1000, "big"), *batch()]
    seen: list[str] = []

    async def enqueue() -> None:
        async for done in queue.enqueue_stream(given, on_full="raise"):
            seen.append(done.id)  # noqa: PERF401 – a comprehension would lose them

    with pytest.raises(rota.LaneFull) as caught:
        await enqueue()
    assert seen + [id for id, _ in told(caught.value)] == [one.id for one in given]
    with pytest.raises(rota.LaneFull) as caught:
        list(queue.sync.enqueue_stream(given, on_full="raise"))
    assert len(caught.value.outcomes) == 12


async def test_where_nothing_is_stored_there_are_no_outcomes(queue: rota.Queue) -> None:
    with pytest.raises(rota.LaneFull) as caught:
        await queue.enqueue_many(batch(), atomic=True)
    assert caught.value.outcomes == []
    await queue.enqueue(spec("small"))
    with pytest.raises(rota.LaneFull) as caught:
        await queue.enqueue(spec("small"))
    assert caught.value.outcomes == []
    with pytest.raises(rota.LaneFull) as caught:
        queue.sync.enqueue(spec("small"))
    assert caught.value.outcomes == []
    assert (await queue.info()).waiting == 1
