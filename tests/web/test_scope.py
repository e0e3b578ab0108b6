"""A tenant sees and changes its own lanes only."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.requests import Request

import rota
from rota.web import Subject
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
    return ["mine", "!mine"]


def visiting_as_tenant(queue: rota.Queue) -> object:
    return visiting(queue, lane_scope=scope)


async def job_of(queue: rota.Queue, lane: str, state: str) -> str:
    return (await queue.jobs(state, lane=lane)).jobs[0].id  # type: ignore[arg-type]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ("workers", "system")])
async def test_pages_tell_nothing_of_other_lanes(shared: rota.Queue, page: str) -> None:
    async with visiting(shared, lane_scope=scope) as visit:
        text = await visit.read(page)
    assert SECRET not in text
    assert "You see 2 lanes." in visible(text)


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


async def same_answer(
    visit: Visit, page: str, of_others: dict[str, str], of_nobody: dict[str, str]
) -> None:
    """Status, headers and body, the name that was asked for apart."""
    told = []
    for given in (of_others, of_nobody):
        answer = await visit.get(page, **given)
        words = str((answer.status_code, sorted(answer.headers.items()), answer.text))
        for name in given.values():
            words = words.replace(name, "NAME")
        told.append(words)
    assert told[0] == told[1]


async def test_what_is_of_others_is_as_what_nobody_has(
    shared: rota.Queue,
) -> None:
    async with visiting(shared, lane_scope=scope) as visit:
        for state in ("waiting", "delayed", "dead"):
            id = await job_of(shared, SECRET, state)
            nobody = id[:-1] + ("y" if id[-1] == "x" else "x")
            await same_answer(visit, "job", {"id": id}, {"id": nobody})
            for action in ("job.retry", "job.cancel", "job.discard"):
                told = {
                    (answer.status_code, answer.text.replace(one, "ID"))
                    for one in (id, nobody)
                    for answer in [await visit.do(action, id=one, sure="yes")]
                }
                assert len(told) == 1, told
        for page in ("lane", "lanes"):
            await same_answer(visit, page, {"name": SECRET}, {"name": "rival-x"})
        for page in ("jobs", "dead", "scheduled", "sequences"):
            await same_answer(visit, page, {"lane": SECRET}, {"lane": "rival-x"})


async def test_why_it_waits_tells_no_figures_of_others(queue: rota.Queue) -> None:
    for lane in ("a", "b", "c"):
        await queue.enqueue_many([spec(lane) for _ in range(7)])
    await queue.enqueue(spec("mine", id="m"))
    figures = re.compile(
        r"behind \d+ lane|\d+ are handed out before|permits? of|consumers? may|turn \d"
    )
    async with queue.consumer() as consumer:
        for ceiling in (None, 2):
            await queue.set(ceiling=ceiling)
            await consumer.claim(2)
            async with visiting(queue) as all, visiting(queue, lane_scope=scope) as some:
                for page, given in (("lane", {"name": "mine"}), ("job", {"id": "m"})):
                    assert figures.search(visible(await all.read(page, **given)))
                    told = visible(await some.read(page, **given))
                    assert not figures.search(told), told
                    assert "waits for its turn" in told or "at its ceiling" in told


async def test_the_way_to_the_next_page_names_no_job_of_others(
    shared: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of a lane's dead jobs ends where it has looked at enough of all of them."""
    others, own = [await job_of(shared, lane, "dead") for lane in (SECRET, "mine")]
    monkeypatch.setattr("rota.store.jobs.LOOKS", 1)
    monkeypatch.setattr("rota.store.jobs.CALLS", 1)
    async with visiting(shared, lane_scope=scope) as visit:
        seen, cursor = [], None
        for _ in range(9):
            given = {"state": "dead", "lane": "mine", **({"cursor": cursor} if cursor else {})}
            text = await visit.read("jobs", **given)
            seen += re.findall(r"job\?id=([\w-]+)", text)
            found = re.search(r"cursor=([^&\"]+)", text)
            if found is None:
                break
            cursor = unquote(found[1])
            padded = cursor + "=" * (-len(cursor) % 4)
            assert others.encode() not in base64.urlsafe_b64decode(padded)
        assert seen == [own]
        assert cursor is not None
        for word in ("x", (await shared.jobs("dead", limit=1)).cursor):
            assert (await visit.get("jobs", state="dead", cursor=word)).status_code == 400


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
    answer = await visit.do(action, None, sure="yes", **fields)
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
            await refused(visit, action, id=dead, ids=mine)
            await refused(visit, action, id=delayed, ids=mine)
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
        assert "do/lane." not in await visit.read("lane", name="mine")
        assert "do/lane." not in await visit.read("lanes")
        await visit.done("dead.replay", ids=dead)
        said = await visit.done("dead.replay_all", lane="mine", sure="yes")
        await visit.done("job.cancel", id=await job_of(shared, "mine", "delayed"), sure="yes")
        await visit.done("sequence.skip", name="!mine", sure="yes")
    assert said.startswith("0 jobs")


LIMITS = ({"ceiling": ""}, {"weight": 100}, {"rate": ""}, {"backlog": ""}, {"template": ""})


@pytest.mark.parametrize("options", [{}, {"read_only": False}, {"auth": ("mine", "x")}])
async def test_what_operators_have_set_stands(shared: rota.Queue, options: dict[str, Any]) -> None:
    lane = shared.lane("mine")
    await lane.set(ceiling=1, weight=0.5, rate=rota.Rate(1, per=60), backlog=9)
    await lane.pause(reason="abuse", by="ops")
    await lane.block(600, by="ops")
    before = await lane.info()
    http = {"auth": options["auth"]} if "auth" in options else {}
    async with visiting(shared, lane_scope=scope, http=http, **options) as visit:
        for limit in LIMITS:
            await refused(visit, "lane.set", name="mine", **limit)
        for action in ("resume", "unblock", "pause", "block", "cancel"):
            await refused(visit, f"lane.{action}", name="mine", seconds=1)
    after = await lane.info()
    assert after.paused_by == "ops"
    assert (after.ceiling, after.weight, after.rate, after.backlog, after.blocked_until) == (
        before.ceiling, before.weight, before.rate, before.backlog, before.blocked_until
    )  # fmt: skip


async def test_lanes_of_their_own_where_authorize_says_so(shared: rota.Queue) -> None:
    def authorize(request: Request, action: str, target: Subject) -> bool:
        return action in ("read", "lane.pause", "queue.pause")

    async with visiting(shared, lane_scope=scope, authorize=authorize) as visit:
        assert "do/lane.pause" in await visit.read("lane", name="mine")
        await visit.done("lane.pause", name="mine")
        await refused(visit, "lane.resume", name="mine")
        await refused(visit, "lane.pause", name=SECRET)
        await refused(visit, "queue.pause")
        await refused(visit, "job.cancel", id="x")
    assert (await shared.lane("mine").info()).paused


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
