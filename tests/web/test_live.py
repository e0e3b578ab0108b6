"""Figures are pushed: one look at the queue, however many browsers listen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

import rota
from tests.support.queues import spec
from tests.support.servers import Server
from tests.support.times import PATIENCE
from tests.support.waiting import eventually_async
from tests.web.serving import served
from tests.web.visits import visible


class Listener:
    """Reads a stream of events, as a browser would; the newest text of each name."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.newest: dict[str, str] = {}
        self.count = 0

    async def run(self) -> None:
        name, data = "", list[str]()
        async for line in self._lines:
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data.append(line[6:])
            elif not line and name:
                self.newest[name] = "\n".join(data)
                self.count += 1
                name, data = "", []


@asynccontextmanager
async def listening_to(address: str) -> AsyncIterator[Listener]:
    async with (
        httpx2.AsyncClient(timeout=PATIENCE) as http,
        http.stream("GET", address) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        listener = Listener(answer.aiter_lines())
        task = asyncio.create_task(listener.run())
        try:
            yield listener
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_overview_follows_the_queue(queue: rota.Queue) -> None:
    async with served(queue) as (base, _), listening_to(f"{base}events") as heard:

        async def shows(text: str) -> None:
            await eventually_async(
                lambda: text in visible(heard.newest.get("figures", "")), f"{text} is not pushed"
            )

        await shows("Waiting 0")
        await queue.enqueue_many([spec("a") for _ in range(5)])
        await shows("Waiting 5")
        assert "no worker is there" in visible(heard.newest["figures"])
        await eventually_async(
            lambda: "a 5" in visible(heard.newest.get("neediest", "")), "the lane is not pushed"
        )
        assert "5 waiting" in visible(heard.newest["status"])


async def test_lanes_and_the_picture_follow(busy: rota.Queue) -> None:
    async with served(busy) as (base, _), listening_to(f"{base}events?page=lanes") as heard:
        await eventually_async(lambda: "chart" in heard.newest, "no picture is pushed")
        assert '"names"' in heard.newest["chart"]
        assert "All 4 lanes" in visible(heard.newest["lanes"])
        await busy.lane("big").pause()
        await eventually_async(lambda: "paused" in heard.newest["lanes"], "the pause is not pushed")


async def test_many_browsers_cause_one_look(queue: rota.Queue, valkey: Server) -> None:
    raw = valkey.raw()

    def calls() -> int:
        return int(raw.info("commandstats")["cmdstat_evalsha"]["calls"])

    async def in_two_seconds() -> int:
        before = calls()
        await asyncio.sleep(2)
        return calls() - before

    async with served(queue) as (base, _), listening_to(f"{base}events") as heard:
        await eventually_async(lambda: "figures" in heard.newest, "nothing is pushed")
        alone = await in_two_seconds()
        async with (
            listening_to(f"{base}events") as second,
            listening_to(f"{base}events") as third,
            listening_to(f"{base}events?page=lanes"),
        ):
            await eventually_async(
                lambda: "figures" in second.newest and "figures" in third.newest,
                "nothing is pushed to the others",
            )
            together = await in_two_seconds()
    assert together <= alone + 3, (alone, together)


async def test_the_look_ends_when_nobody_looks(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.watch.LINGER_S", 0.2)
    async with served(queue) as (base, site):
        (board,) = site.boards.values()
        async with listening_to(f"{base}events") as heard:
            await eventually_async(lambda: "figures" in heard.newest, "nothing is pushed")
            assert board.watch.is_running
        await eventually_async(lambda: not site.streams, "the stream does not end")
        await eventually_async(lambda: not board.watch.is_running, "it looks on")


async def test_a_stop_does_not_wait_for_live_pages(queue: rota.Queue) -> None:
    loop = asyncio.get_running_loop()
    async with served(queue) as (base, _):
        stream = listening_to(f"{base}events")
        heard = await stream.__aenter__()
        await eventually_async(lambda: "figures" in heard.newest, "nothing is pushed")
        began = loop.time()
    assert loop.time() - began < 2
    await stream.__aexit__(None, None, None)


async def test_a_tenant_is_pushed_its_own_lanes_only(busy: rota.Queue) -> None:
    async with (
        served(busy, lane_scope=lambda _: ["big"]) as (base, _),
        listening_to(f"{base}events?page=lanes") as heard,
    ):
        await eventually_async(lambda: "lanes" in heard.newest, "nothing is pushed")
        text = "".join(heard.newest.values())
    assert "big" in text
    assert "failing" not in text
    assert "orders" not in visible(text)


async def test_too_many_live_pages_are_refused(
    queue: rota.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.stream.MAX_STREAMS", 1)
    async with served(queue) as (base, _), listening_to(f"{base}events") as heard:
        await eventually_async(lambda: "status" in heard.newest, "nothing is pushed")
        async with httpx2.AsyncClient() as http:
            assert (await http.get(f"{base}events")).status_code == 503
            assert (await http.get(base)).status_code == 200
