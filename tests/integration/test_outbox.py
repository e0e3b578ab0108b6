"""Single jobs enqueued at the same time on one event loop travel together, and fail apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rota
from rota.errors import LaneFull, PayloadError, Unavailable
from tests.conftest import PrivateServer
from tests.support.queues import assert_sound, calls, dump, open_queue, spec
from tests.support.servers import Server
from tests.support.times import IN_TIME, PATIENCE


def records(server: Server, queue: rota.Queue) -> set[str]:
    return {id for id, _ in dump(server, queue).each("job:")}


@pytest.mark.legs("valkey", "cluster")
async def test_calls_made_during_a_call_share_the_next(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.info()  # connected
        before = calls(server, "evalsha")
        done = await asyncio.gather(*(queue.enqueue(spec(id=f"j{n}")) for n in range(50)))
        assert [one.id for one in done] == [f"j{n}" for n in range(50)]
        assert {one.outcome for one in done} == {"created"}
        assert calls(server, "evalsha") - before <= 4, "one, then all the others"
        assert_sound(server, queue)


async def test_more_than_one_call_may_carry_go_in_several(valkey: Server, queue_name: str) -> None:
    async with open_queue(valkey, queue_name) as queue:
        done = await asyncio.gather(*(queue.enqueue(spec()) for _ in range(2500)))
        assert len({one.id for one in done}) == 2500
        assert (await queue.info()).waiting == 2500


async def test_a_lone_caller_waits_for_nobody(valkey: Server, queue_name: str) -> None:
    async with open_queue(valkey, queue_name) as queue:
        await queue.info()
        before = calls(valkey, "evalsha")
        for _ in range(10):
            await queue.enqueue(spec())
        assert calls(valkey, "evalsha") - before == 10


@pytest.mark.legs("valkey", "cluster")
async def test_a_full_lane_fails_its_own_callers_only(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        await queue.lane("full").set(backlog=2)
        lanes = ["a", "full"] * 10
        done = await asyncio.gather(
            *(queue.enqueue(spec(lane)) for lane in lanes), return_exceptions=True
        )
        failed = [one for one in done if isinstance(one, BaseException)]
        assert len(failed) == 8
        assert all(isinstance(one, LaneFull) and one.lane == "full" for one in failed)
        assert (await queue.info()).waiting == 12
        assert_sound(server, queue)


async def test_bad_input_reaches_its_own_caller_only(valkey: Server, queue_name: str) -> None:
    async with open_queue(valkey, queue_name) as queue:

        @queue.task
        def work(x: int) -> None: ...

        given: list[Any] = [1, "one", 2, object(), 3]
        done = await asyncio.gather(*map(work.enqueue, given), return_exceptions=True)
        assert [type(one) for one in done] == [
            rota.Enqueued,
            PayloadError,
            rota.Enqueued,
            PayloadError,
            rota.Enqueued,
        ]


async def test_one_id_from_many_callers_is_created_once(server: Server, queue_name: str) -> None:
    async with open_queue(server, queue_name) as queue:
        done = await asyncio.gather(*(queue.enqueue(spec(id="one")) for _ in range(20)))
        assert sorted(one.outcome for one in done) == ["created"] + ["duplicate"] * 19


@pytest.mark.parametrize("which", [0, 7])
async def test_a_cancelled_caller_touches_no_other(
    server: Server, queue_name: str, which: int
) -> None:
    """The first is the one whose call is in flight, the others wait for the next."""
    async with open_queue(server, queue_name) as queue:
        await queue.info()
        callers = [asyncio.create_task(queue.enqueue(spec(id=f"j{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        callers[which].cancel()
        done = await asyncio.gather(*callers, return_exceptions=True)
        others = [one for n, one in enumerate(done) if n != which]
        assert isinstance(done[which], asyncio.CancelledError)
        assert all(isinstance(one, rota.Enqueued) for one in others)
        stored = records(server, queue)
        assert stored >= {f"j{n}" for n in range(20) if n != which}
        if which:
            assert f"j{which}" not in stored, "it had not travelled"
        assert (await queue.enqueue(spec())).outcome == "created"


async def test_durable_calls_do_not_travel_with_the_others(valkey: Server, queue_name: str) -> None:
    async with open_queue(valkey, queue_name) as queue:
        await queue.info()
        durable = rota.Durable(fsync=False, replicas=1, timeout=0.05)
        done = await asyncio.gather(
            *(queue.enqueue(spec(id=f"plain{n}")) for n in range(9)),
            *(queue.enqueue(spec(id=f"sure{n}"), durable=durable) for n in range(2)),
            return_exceptions=True,
        )
        assert all(isinstance(one, rota.Enqueued) for one in done[:9])
        assert all(isinstance(one, rota.NotDurable) for one in done[9:])
        assert len(records(valkey, queue)) == 11


async def test_a_lost_server_fails_all_callers_and_none_hangs(
    private_server: PrivateServer, queue_name: str
) -> None:
    server = private_server()
    async with rota.Queue(queue_name, url=server.url, timeout=2) as queue:
        await queue.info()
        server.stop()
        async with asyncio.timeout(PATIENCE):
            done = await asyncio.gather(
                *(queue.enqueue(spec()) for _ in range(10)), return_exceptions=True
            )
        assert all(isinstance(one, Unavailable) for one in done), done
        assert len({id(one) for one in done}) == 10, "an error of one's own for each"


async def test_the_loops_end_leaves_no_caller_hanging(valkey: Server, queue_name: str) -> None:
    async with open_queue(valkey, queue_name) as queue:
        await queue.info()
        callers = [asyncio.create_task(queue.enqueue(spec())) for _ in range(20)]
        carrier = queue._producer.outbox
        async with asyncio.timeout(IN_TIME):
            while carrier._round is None:  # noqa: ASYNC110 (it lasts for one call)
                await asyncio.sleep(0)
        carrier._round.cancel()
        done = await asyncio.gather(*callers, return_exceptions=True)
        assert all(isinstance(one, rota.Enqueued | asyncio.CancelledError) for one in done)
        assert (await queue.enqueue(spec())).outcome == "created"
