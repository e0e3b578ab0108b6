"""A tenant sees and changes its own lanes only."""

from __future__ import annotations

import pytest
from starlette.requests import Request

import rota
from tests.support.queues import spec
from tests.web.visits import PAGES, Visit, visible, visiting

SECRET = "rival-lane"


@pytest.fixture
async def shared(queue: rota.Queue) -> rota.Queue:
    """Two tenants with jobs in every state."""
    for lane in ("mine", SECRET):
        await queue.enqueue_many([spec(lane, f"{lane}-task") for _ in range(2)])
        await queue.enqueue_many([spec(lane, f"{lane}-task", delay_ms=600_000)])
        async with queue.consumer() as consumer:
            jobs = await consumer.claim(4)
            await consumer.bury([job for job in jobs if job.lane == lane][:1], f"{lane} failed")
    return queue


def scope(request: Request) -> list[str]:
    return ["mine"]


def visiting_as_tenant(queue: rota.Queue) -> object:
    return visiting(queue, lane_scope=scope)


async def job_of(queue: rota.Queue, lane: str, state: str) -> str:
    return (await queue.jobs(state, lane=lane)).jobs[0].id  # type: ignore[arg-type]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ("workers", "system")])
async def test_pages_tell_nothing_of_other_lanes(shared: rota.Queue, page: str) -> None:
    async with visiting(shared, lane_scope=scope) as visit:
        text = await visit.read(page)
    assert SECRET not in text
    assert "You see 1 lane." in visible(text)


async def test_the_figures_are_those_of_the_scope(shared: rota.Queue) -> None:
    info = await shared.lane("mine").info()
    async with visiting(shared, lane_scope=scope) as visit:
        text = visible(await visit.read())
    assert f"Waiting {info.waiting}" in text
    assert f"Delayed {info.delayed}" in text


async def test_whole_queue_pages_are_refused(shared: rota.Queue) -> None:
    async with visiting(shared, lane_scope=scope) as visit:
        for page in ("workers", "system"):
            assert (await visit.get(page)).status_code == 403
        assert (await visit.get("events", page="system")).status_code == 403
        assert (await visit.http.get("/metrics")).status_code == 403


async def test_what_is_of_others_is_not_there(shared: rota.Queue) -> None:
    id = await job_of(shared, SECRET, "dead")
    async with visiting(shared, lane_scope=scope) as visit:
        for page, given in (
            ("lane", {"name": SECRET}),
            ("lanes", {"name": SECRET}),
            ("job", {"id": id}),
            ("jobs", {"state": "dead", "lane": SECRET}),
            ("dead", {"lane": SECRET}),
            ("scheduled", {"lane": SECRET}),
            ("sequences", {"lane": SECRET}),
        ):
            answer = await visit.get(page, **given)
            assert answer.status_code == 404, page
            assert "failed" not in answer.text


async def test_all_lanes_page_by_page_are_those_of_the_scope(shared: rota.Queue) -> None:
    async with visiting(shared, lane_scope=scope) as visit:
        assert SECRET not in await visit.read("lanes", order="all")


async def refused(visit: Visit, action: str, **fields: object) -> None:
    answer = await visit.do(action, sure="yes", **fields)
    assert answer.status_code in (403, 404), (action, answer.status_code)


async def test_changes_of_others_are_refused(shared: rota.Queue) -> None:
    before = await shared.lane(SECRET).info()
    dead = await job_of(shared, SECRET, "dead")
    delayed = await job_of(shared, SECRET, "delayed")
    mine = await job_of(shared, "mine", "dead")
    async with visiting(shared, lane_scope=scope) as visit:
        for action in ("pause", "resume", "set", "block", "unblock", "cancel"):
            await refused(visit, f"lane.{action}", name=SECRET, ceiling=1, seconds=9)
        for action in ("job.retry", "job.cancel", "job.discard"):
            await refused(visit, action, id=dead)
            await refused(visit, action, id=delayed)
        await refused(visit, "dead.replay", ids=f"{mine}\n{dead}")
        await refused(visit, "dead.discard", ids=dead)
        for lane in ("", SECRET):
            await refused(visit, "dead.replay_all", lane=lane)
            await refused(visit, "dead.discard_all", lane=lane)
        await refused(visit, "sequence.skip", name=SECRET)
        for action in ("queue.pause", "queue.resume", "queue.set", "doctor.examine"):
            await refused(visit, action)
        for action in ("worker.quiet", "worker.stop", "worker.evict"):
            await refused(visit, action, id="x")
    after = await shared.lane(SECRET).info()
    assert (after.waiting, after.delayed, after.paused) == (before.waiting, before.delayed, False)
    assert (await shared.info()).dead == 2


async def test_changes_of_its_own_are_allowed(shared: rota.Queue) -> None:
    dead = await job_of(shared, "mine", "dead")
    async with visiting(shared, lane_scope=scope) as visit:
        await visit.done("lane.pause", name="mine")
        await visit.done("lane.set", name="mine", ceiling=2)
        await visit.done("dead.replay", ids=dead)
        said = await visit.done("dead.replay_all", lane="mine", sure="yes")
    info = await shared.lane("mine").info()
    assert info.paused
    assert info.ceiling == 2
    assert said.startswith("0 jobs")


async def test_a_scope_of_nothing_sees_nothing(shared: rota.Queue) -> None:
    async with visiting(shared, lane_scope=lambda _: []) as visit:
        for page in ("", "lanes"):
            text = await visit.read(page)
            assert "mine" not in text
            assert SECRET not in text
        assert (await visit.get("jobs", state="dead")).status_code == 404


async def test_none_is_everything_and_too_many_is_an_error(shared: rota.Queue) -> None:
    async with visiting(shared, lane_scope=lambda _: None) as visit:
        assert SECRET in await visit.read("lanes", order="all")
    async with visiting(shared, lane_scope=lambda _: [str(n) for n in range(101)]) as visit:
        assert (await visit.get()).status_code == 400
