"""Every action does what its button says, and what destroys asks first."""

from __future__ import annotations

import pytest

import rota
from rota.web.actions import ACTIONS
from tests.support.queues import spec
from tests.support.waiting import eventually_async
from tests.web.visits import visible, visiting

LIMITS = [
    ({"ceiling": "3"}, "ceiling", 3),
    ({"ceiling": ""}, "ceiling", None),
    ({"ceiling": "0"}, "ceiling", 0),
    ({"weight": "2.5"}, "weight", 2.5),
    ({"rate": "10", "per": "60", "burst": "5"}, "rate", rota.Rate(10, per=60, burst=5)),
    ({"rate": ""}, "rate", None),
    ({"backlog": "123456789"}, "backlog", 123456789),
    ({"template": "gold"}, "template", "gold"),
]


async def test_pausing_and_resuming_the_queue(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        await visit.done("queue.pause", reason="deploy", minutes="5")
        info = await busy.info()
        assert info.paused
        assert info.pause_reason == "deploy"
        assert info.paused_until
        assert "The queue is paused by 127.0.0.1: deploy" in visible(await visit.read())
        await visit.done("queue.resume")
    assert not (await busy.info()).paused


async def test_the_queues_limits(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        await visit.done("queue.set", ceiling="9")
        await visit.done("queue.set", default_ceiling="4")
        info = await busy.info()
        assert (info.ceiling, info.default_ceiling) == (9, 4)
        await visit.done("queue.set", ceiling="")
    assert (await busy.info()).ceiling is None


async def test_pausing_and_resuming_a_lane(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        await visit.done("lane.pause", name="big", reason="abuse")
        info = await busy.lane("big").info()
        assert info.paused
        assert info.pause_reason == "abuse"
        assert info.paused_by == "127.0.0.1"
        await visit.done("lane.resume", name="big")
    assert not (await busy.lane("big").info()).paused


@pytest.mark.parametrize(("fields", "limit", "value"), LIMITS)
async def test_the_limits_of_a_lane(
    busy: rota.Queue, fields: dict[str, str], limit: str, value: object
) -> None:
    before = await busy.lane("big").info()
    async with visiting(busy) as visit:
        await visit.done("lane.set", name="big", **fields)
    after = await busy.lane("big").info()
    assert getattr(after, limit) == value
    others = {"ceiling", "weight", "backlog"} - {limit}
    if limit != "template":
        assert all(getattr(after, name) == getattr(before, name) for name in others)


@pytest.mark.parametrize(
    "fields",
    [
        {"ceiling": "-1"},
        {"ceiling": "1e3"},
        {"weight": "nan"},
        {"rate": "inf"},
        {"weight": "x"},
        {},
    ],
)
async def test_limits_that_cannot_be_are_refused_and_change_nothing(
    busy: rota.Queue, fields: dict[str, str]
) -> None:
    before = await busy.lane("orders").info()
    async with visiting(busy) as visit:
        answer = await visit.do("lane.set", None, name="orders", **fields)
        assert answer.status_code == 400
        assert "expected" in visible(answer.text)
    after = await busy.lane("orders").info()
    assert (after.ceiling, after.weight, after.rate) == (before.ceiling, before.weight, before.rate)


async def test_blocking_a_lane(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        await visit.done("lane.block", name="big", seconds="60")
        assert (await busy.lane("big").info()).blocked_until
        await visit.done("lane.unblock", name="big")
    assert not (await busy.lane("big").info()).blocked_until


async def test_cancelling_a_lane_asks_first(busy: rota.Queue) -> None:
    waiting = (await busy.lane("big").info()).waiting
    async with visiting(busy) as visit:
        answer = await visit.do("lane.cancel", name="big")
        assert answer.status_code == 400
        assert (await busy.lane("big").info()).waiting == waiting
        said = await visit.done("lane.cancel", name="big", sure="yes")
    assert f"{waiting} jobs deleted" in said
    assert (await busy.lane("big").info()).waiting == 0


async def test_a_dead_job_is_replayed_and_discarded(busy: rota.Queue) -> None:
    first, second, *_ = (await busy.jobs("dead")).jobs
    async with visiting(busy) as visit:
        assert "may run now" in await visit.done("job.retry", id=first.id)
        assert (await visit.do("job.discard", id=second.id)).status_code == 400
        await visit.done("job.discard", id=second.id, sure="yes")
    again = await busy.job(first.id).info()
    assert again is not None
    assert again.state == "waiting"
    assert await busy.job(second.id).info() is None


async def test_a_delayed_job_is_run_now_and_cancelled(busy: rota.Queue) -> None:
    first, second = (await busy.jobs("delayed")).jobs
    async with visiting(busy) as visit:
        await visit.done("job.retry", id=first.id)
        await visit.done("job.cancel", id=second.id, sure="yes")
    again = await busy.job(first.id).info()
    assert again is not None
    assert again.state != "delayed"
    assert await busy.job(second.id).info() is None


async def test_a_group_of_dead_jobs(busy: rota.Queue) -> None:
    dead = [job.id for job in (await busy.jobs("dead")).jobs]
    async with visiting(busy) as visit:
        said = await visit.done("dead.replay", ids="\n".join(dead[:3]))
        assert said.startswith("3 jobs")
        assert (await visit.do("dead.discard", ids=dead[3])).status_code == 400
        await visit.done("dead.discard", ids=dead[3], sure="yes")
        assert (await visit.do("dead.replay", ids="")).status_code == 400
    assert (await busy.info()).dead == 0


async def test_all_dead_jobs_of_a_lane(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        assert (await visit.do("dead.replay_all", lane="failing")).status_code == 400
        said = await visit.done("dead.replay_all", lane="failing", sure="yes")
        assert said.startswith("4 jobs")
        said = await visit.done("dead.discard_all", lane="failing", sure="yes")
    assert said.startswith("0 jobs")
    assert (await busy.info()).dead == 0


async def test_skipping_what_stops_a_sequence(queue: rota.Queue) -> None:
    await queue.enqueue_many([spec("a", ordering_key="k", on_dead="hold") for _ in range(2)])
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim(1)
        await consumer.bury([job], "broken")
        async with visiting(queue) as visit:
            text = await visit.read("sequences")
            assert "do/sequence.skip" in text
            assert "Replay" in visible(text)
            said = await visit.done("sequence.skip", name="a", key="k", sure="yes")
            assert job.id in said
        assert len(await consumer.claim(1)) == 1


async def test_workers_are_quieted_stopped_and_evicted(queue: rota.Queue) -> None:
    await queue.enqueue(spec("a"))
    async with queue.consumer() as consumer:
        await consumer.claim(1)
        (one,) = await queue.consumers()
        async with visiting(queue) as visit:
            await visit.done("worker.quiet", id=one.id)
            assert "asked to quiet" in visible(await visit.read("workers"))
            await visit.done("worker.stop", id=one.id, sure="yes")
            assert (await visit.do("worker.evict", id=one.id)).status_code == 400
            said = await visit.done("worker.evict", id=one.id, sure="yes")
    assert "1 job given back" in said
    assert await queue.consumers() == []


async def test_the_doctor_looks_and_repairs(queue: rota.Queue) -> None:
    await queue.enqueue(spec("a"))
    async with visiting(queue) as visit:
        await visit.done("doctor.examine")

        async def looked() -> bool:
            return "0 findings" in visible(await visit.read("system"))

        await eventually_async(looked, "the doctor has not looked")
        await visit.done("doctor.repair", sure="yes")
        await eventually_async(looked, "the doctor has not looked again")


async def test_an_action_that_is_not_there(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        for name in ("lane.explode", "read", "lane"):
            assert (await visit.do(name, name="big")).status_code == 404


def test_every_action_is_offered_by_a_page() -> None:
    from rota.web.pages import PAGES

    assert {action for page in PAGES.values() for action in page.actions} == set(ACTIONS)
