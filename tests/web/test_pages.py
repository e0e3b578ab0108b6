"""Every page says what the queue's own figures say."""

from __future__ import annotations

import json
import re

import pytest

import rota
from tests.support.queues import spec
from tests.support.waiting import eventually_async
from tests.web.visits import PAGES, visible, visiting


@pytest.mark.parametrize("page", PAGES)
async def test_every_page_is_there(busy: rota.Queue, page: str) -> None:
    async with visiting(busy) as visit:
        text = await visit.read(page)
        assert busy.name in visible(text)
        assert "<main" in text
        assert 'lang="en"' in text
        assert "<h1>" in text


@pytest.mark.parametrize("page", PAGES)
async def test_every_page_of_an_empty_queue_is_there(queue: rota.Queue, page: str) -> None:
    async with visiting(queue) as visit:
        assert await visit.read(page)


async def test_the_overview_has_the_figures_of_the_queue(busy: rota.Queue) -> None:
    info = await busy.info()
    async with visiting(busy) as visit:
        text = visible(await visit.read())
    for name in ("waiting", "running", "delayed", "dead"):
        assert f"{name.capitalize()} {getattr(info, name)}" in text


async def test_work_that_waits_without_a_worker_is_told(queue: rota.Queue) -> None:
    async with visiting(queue) as visit:
        assert "no worker is there" not in visible(await visit.read())
    await queue.enqueue(spec("a"))
    async with visiting(queue) as visit:
        assert "Work waits but no worker is there: 1 lane with 1 waiting job" in visible(
            await visit.read()
        )


async def test_lanes_are_told_with_limits_and_shares(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:

        async def told() -> str:
            text = await visit.read("lanes")
            assert "All 4 lanes" in visible(text)
            return text

        text = visible(await eventually_async(told, "the lanes were not looked at"))
        big = await busy.lane("big").info()
        assert f"big {big.running} / 2 {big.waiting}" in text
        assert "%" in text.partition("failing")[2]


@pytest.mark.parametrize("order", ["hurt", "oldest_wait", "waiting", "running", "served", "all"])
async def test_lanes_in_every_order(busy: rota.Queue, order: str) -> None:
    async with visiting(busy) as visit:
        text = visible(await visit.read("lanes", order=order))
        assert "big" in text
        assert "orders" in text


async def test_the_lane_with_most_waiting_comes_first(queue: rota.Queue) -> None:
    for n in range(1, 4):
        await queue.enqueue_many([spec(f"lane-{n}") for _ in range(n)])
    async with visiting(queue) as visit:

        async def order() -> list[str]:
            text = await visit.read("lanes", order="waiting")
            assert "All 3 lanes" in visible(text)
            return re.findall(r"lane\?name=(lane-\d)\">", text)

        found = await eventually_async(order, "the lanes were not looked at")
        assert found == ["lane-3", "lane-2", "lane-1"]


async def test_a_lane_is_found_by_its_name(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        text = await visit.read("lanes", name="big")
        assert re.findall(r"lane\?name=(\w+)\">", text) == ["big"]


async def test_a_lane_says_why_it_is_not_served(busy: rota.Queue) -> None:
    await busy.lane("big").pause(reason="too loud", by="ops")
    async with visiting(busy) as visit:
        text = visible(await visit.read("lane", name="big"))
    assert "Lane big is paused" in text
    assert "too loud" in text
    assert "100 per 60 s, burst 20" in text


async def test_jobs_of_each_state(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        for state, lane in (("waiting", "big"), ("delayed", ""), ("running", ""), ("dead", "")):
            page = await busy.jobs(state, lane=lane or None)  # type: ignore[arg-type]
            given = {"lane": lane} if lane else {}
            text = await visit.read("jobs", state=state, **given)
            assert page.jobs
            for job in page.jobs:
                assert f"job?id={job.id}" in text


async def test_waiting_jobs_ask_for_a_lane(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        assert "name one" in visible(await visit.read("jobs", state="waiting"))


async def test_pages_of_jobs_lead_to_each_other_and_miss_none(queue: rota.Queue) -> None:
    made = [spec("a", delay_ms=600_000 + n) for n in range(120)]
    await queue.enqueue_many(made)
    seen: list[str] = []
    async with visiting(queue) as visit:
        address = visit.url("jobs", state="delayed")
        for _ in range(5):
            text = (await visit.http.get(address)).text
            seen += re.findall(r'job\?id=(\w+)"', text)
            following = re.search(r'rel="next" href="([^"]+)"', text)
            if following is None:
                break
            address = following[1].replace("&amp;", "&")
    assert seen == [one.id for one in made]


async def test_a_job_tells_its_life(busy: rota.Queue) -> None:
    dead = (await busy.jobs("dead")).jobs
    job = next(one for one in dead if "4711" in (one.error or ""))
    async with visiting(busy) as visit:
        text = visible(await visit.read("job", id=job.id))
    assert "State dead" in text
    assert "Task charge" in text
    assert "Lane failing" in text
    assert "card 4711 refused" in text
    assert f'"n": {json.loads(job.payload)["n"]}' in text
    assert "Why it is not running now" in text
    assert "It gave up" in text


async def test_a_job_that_is_not_there(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        answer = await visit.get("job", id="nobody")
    assert answer.status_code == 404
    assert "There is no job nobody" in visible(answer.text)


async def test_dead_jobs_are_grouped_by_error(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        text = visible(await visit.read("dead"))
    assert "All 4 dead jobs" in text
    assert "3 ValueError: card 4711 refused" in text
    assert "1 OSError: no route" in text


async def test_errors_that_differ_in_numbers_are_one_group(queue: rota.Queue) -> None:
    await queue.enqueue_many([spec("a") for _ in range(3)])
    async with queue.consumer() as consumer:
        for n, job in enumerate(await consumer.claim(3)):
            await consumer.bury([job], f"ValueError: order {n * 1000} at 0x7f{n:04x}")
    async with visiting(queue) as visit:
        assert "3 ValueError: order " in visible(await visit.read("dead"))


async def test_sequences_tell_who_holds_them(busy: rota.Queue) -> None:
    (sequence, *_) = (await busy.sequences()).sequences
    async with visiting(busy) as visit:
        text = visible(await visit.read("sequences"))
    assert sequence.ordering_key in text
    assert sequence.state in text
    assert sequence.held_by
    assert sequence.held_by in text


async def test_workers_and_what_they_hold(busy: rota.Queue) -> None:
    (one,) = await busy.consumers()
    async with visiting(busy) as visit:
        text = visible(await visit.read("workers"))
    assert f"{one.name} {one.id} {one.held}" in text


async def test_the_system_page_has_server_totals_and_templates(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        text = visible(await visit.read("system"))
    assert busy.link.target.display in text
    assert "enqueued 21" in text
    assert "gold 7" in text


@pytest.mark.parametrize(
    ("page", "given"),
    [
        ("jobs", {"state": "gone"}),
        ("jobs", {"state": "dead", "cursor": "nonsense"}),
        ("sequences", {"cursor": "bm9uc2Vuc2U"}),
        ("lanes", {"order": "all", "cursor": "99999999999999999999999:1"}),
        ("lanes", {"order": "all", "cursor": "1:999999999999999999999999"}),
        ("lane", {"name": "x" * 300}),
        ("job", {"id": "!bad"}),
        ("dead", {"lane": "\x00"}),
    ],
)
async def test_an_address_that_makes_no_sense_is_refused(
    busy: rota.Queue, page: str, given: dict[str, str]
) -> None:
    async with visiting(busy) as visit:
        assert (await visit.get(page, **given)).status_code == 400


async def test_pages_and_queues_that_are_not_there(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        for address in ("/nothing", "/q/nobody/", visit.url("nothing"), visit.url("do/lane.pause")):
            assert (await visit.http.get(address)).status_code in (404, 405)


async def test_a_server_that_is_away_is_told(queue: rota.Queue) -> None:
    away = rota.Queue("away", url="redis://127.0.0.1:1")
    async with visiting(away) as visit:
        for page in ("jobs", "workers"):
            answer = await visit.get(page)
            assert answer.status_code == 503, page
        text = visible(await visit.read())
        assert "No answer" in text
        assert (await visit.http.get("/healthz")).status_code == 200
        assert (await visit.http.get("/readyz")).status_code == 503
    await away.close()


async def test_probes_and_metrics(busy: rota.Queue) -> None:
    async with visiting(busy) as visit:
        for probe in ("/healthz", "/readyz"):
            assert (await visit.http.get(probe)).text == "ok\n"
        answer = await visit.http.get("/metrics")
        assert answer.status_code == 200
        assert "rota_queue_up" in answer.text
