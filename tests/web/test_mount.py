"""In applications of others: under any prefix, twice in one process, without a lifespan."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from urllib.parse import quote, urljoin

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import rota
from rota.web import dashboard
from tests.support.queues import open_queue, spec
from tests.support.servers import Server
from tests.web.visits import PAGES, Visit, at, visible

LINKS = re.compile(r'(?:href|action|src|sse-connect)="([^"#]+)"')


@asynccontextmanager
async def mounted(prefix: str, *queues: rota.Queue) -> AsyncIterator[Visit]:
    inner = dashboard(*queues)
    try:
        async with at(Starlette(routes=[Mount(prefix, inner)])) as browser:
            yield Visit(browser, queues[0].name, quote(prefix))
    finally:
        await inner.state.site.close()


@pytest.mark.parametrize("prefix", ["/jobs", "/ops/queue dash/v1"])
async def test_every_link_stays_below_the_prefix(busy: rota.Queue, prefix: str) -> None:
    async with mounted(prefix, busy) as visit:
        found: set[str] = set()
        for page in PAGES:
            found |= {unescape(link) for link in LINKS.findall(await visit.read(page))}
        assert all(link.startswith(f"{quote(prefix)}/") for link in found), found
        for link in found:
            if "events" not in link and not link.endswith(("/job", "/lane")):
                assert (await visit.http.get(link)).status_code in (200, 307, 405), link


async def test_actions_lead_back_below_the_prefix(busy: rota.Queue) -> None:
    async with mounted("/ops", busy) as visit:
        said = await visit.done("lane.pause", name="big", back=visit.url("lanes"))
        assert "paused" in said
        assert (await visit.http.get("/ops/")).headers["location"] == visit.url()


async def test_a_prefix_told_by_the_server(busy: rota.Queue) -> None:
    """As uvicorn's root_path does, with a proxy that takes the prefix off."""
    app = dashboard(busy)

    async def behind_proxy(scope, receive, send):  # type: ignore[no-untyped-def]
        await app({**scope, "root_path": "/jobs"}, receive, send)

    async with at(behind_proxy) as browser:
        page = await browser.get(f"/q/{busy.name}/lanes")
        assert page.status_code == 200
        assert all(link.startswith("/jobs/") for link in LINKS.findall(page.text))
    await app.state.site.close()


async def test_two_dashboards_in_one_process(valkey: Server) -> None:
    async with open_queue(valkey, "one") as one, open_queue(valkey, "two") as two:
        await one.enqueue_many([spec("a") for _ in range(3)])
        first = dashboard(one)
        second = dashboard(two, read_only=True)
        app = Starlette(routes=[Mount("/first", first), Mount("/second", second)])
        async with at(app) as browser:
            visit, other = Visit(browser, "one", "/first"), Visit(browser, "two", "/second")
            assert "Waiting 3" in visible(await visit.read())
            assert "Waiting 0" in visible(await other.read())
            await visit.done("lane.pause", name="a")
            assert (await other.do("lane.pause", name="a")).status_code == 403
        await first.state.site.close()
        await second.state.site.close()


async def test_several_queues_in_one_dashboard(valkey: Server) -> None:
    async with open_queue(valkey, "one") as one, open_queue(valkey, "two") as two:
        await two.enqueue_many([spec("a") for _ in range(4)])
        app = dashboard(one, two)
        async with at(app) as browser:
            home = await browser.get("/")
            assert "two 4 0 0 0 work waits, no worker" in visible(home.text)
            for link in re.findall(r'href="(/q/[^"]+)"', home.text):
                assert (await browser.get(urljoin("/", link))).status_code == 200
        await app.state.site.close()


def test_a_dashboard_needs_queues() -> None:
    with pytest.raises(rota.ConfigError, match=r"expected a rota.Queue"):
        dashboard("orders")  # type: ignore[arg-type]
