"""The dashboard in a real browser: live figures, every kind of action, keyboard, phone, no script.

Needs Chromium (apt-get install chromium); skipped where there is none. With ROTA_SCREENSHOTS=1 the
pictures of the docs are made anew.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright

import rota
from tests.support.queues import open_queue, spec
from tests.support.servers import Server
from tests.support.times import IN_TIME, PATIENCE
from tests.support.waiting import eventually_async
from tests.web.serving import served
from tests.web.test_hostile import EVIL, evil
from tests.web.visits import PAGES

__all__ = ["evil"]  # a fixture

DOCS = Path(__file__).parents[2] / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
EVERY_PAGE = (*PAGES, "lane?name=big", "jobs?state=waiting&lane=big", "lanes?order=all")
PATIENCE_MS = 1000 * PATIENCE
POINTS = "Number(document.querySelector('#chart').dataset.points)"

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="no browser here: apt-get install chromium"),
    pytest.mark.timeout(120),
]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield started
        await started.close()


@asynccontextmanager
async def page_of(browser: Browser, **options: object) -> AsyncIterator[Page]:
    """A page that must not complain: no error, no blocked script or style, no dialog."""
    complaints: list[str] = []
    context = await browser.new_context(**options)  # type: ignore[arg-type]
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    yield page
    await context.close()
    assert complaints == []


async def text_of(page: Page, selector: str) -> str:
    return await page.inner_text(selector)


async def wait_for(page: Page, selector: str, text: str) -> None:
    await page.locator(selector, has_text=text).first.wait_for()


async def becomes_true(page: Page, condition: str, timeout: float = IN_TIME) -> None:
    """Asked from outside: the page's policy lets nothing be evaluated within."""
    await eventually_async(lambda: page.evaluate(condition), f"not so: {condition}", timeout)


async def test_figures_change_without_a_reload(queue: rota.Queue, browser: Browser) -> None:
    async with served(queue) as (base, _), page_of(browser) as page:
        await page.goto(base)
        await page.evaluate("window.mark = 1")
        await queue.enqueue_many([spec("acme") for _ in range(1234)])
        await wait_for(page, "#figures", "1,234")
        await wait_for(page, "#neediest", "acme")
        await wait_for(page, "#status", "Work waits, no worker")
        await page.click("#pause-live")
        await queue.enqueue_many([spec("acme") for _ in range(6)])
        await asyncio.sleep(2.2)  # two looks
        assert "1,240" not in await text_of(page, "#figures")
        await page.click("#pause-live")
        await wait_for(page, "#figures", "1,240")
        assert await page.evaluate("window.mark") == 1


async def test_the_picture_is_drawn_and_grows(busy: rota.Queue, browser: Browser) -> None:
    async with served(busy) as (base, _), page_of(browser) as page:
        await page.goto(f"{base}lanes")
        await page.locator("#chart canvas").wait_for()
        await becomes_true(page, f"{POINTS} > 2")
        await wait_for(page, "#stack .legend", "failing")


async def test_a_lane_is_changed_from_its_pages(busy: rota.Queue, browser: Browser) -> None:
    lane = busy.lane("big")
    async with served(busy) as (base, _), page_of(browser) as page:
        await page.goto(f"{base}lanes")
        await page.click("#pause-big")
        await wait_for(page, ".said", "Lane big is paused")
        assert (await lane.info()).paused
        await wait_for(page, "#lanes", "paused")
        await page.click("#resume-big")
        await wait_for(page, ".said", "goes on")
        await page.click("text=More >> nth=0")
        await page.goto(f"{base}lane?name=big")
        for field, value, button in (
            ("ceiling", "7", "Set ceiling"),
            ("weight", "3", "Set weight"),
            ("rate", "50", "Set rate"),
            ("backlog", "999", "Set backlog limit"),
        ):
            await page.fill(f"input[name={field}]", value)
            await page.click(f"text={button}")
            await wait_for(page, ".said", "limits of lane big are changed")
        info = await lane.info()
        assert (info.ceiling, info.weight, info.backlog) == (7, 3, 999)
        assert info.rate is not None
        assert info.rate.n == 50
        await page.click("text=Cancel its jobs")  # the browser asks for the tick first
        assert (await lane.info()).waiting
        await page.check("form[action$='lane.cancel'] input[name=sure]")
        await page.click("text=Cancel its jobs")
        await wait_for(page, ".said", "deleted")
    assert (await lane.info()).waiting == 0


async def test_jobs_are_replayed_run_and_cancelled(busy: rota.Queue, browser: Browser) -> None:
    async with served(busy) as (base, _), page_of(browser) as page:
        await page.goto(f"{base}dead")
        await page.click("text=Replay these 3")
        await wait_for(page, ".said", "3 jobs put back")
        await page.click("summary:has-text('Discard these 1')")
        await page.check(".fold[open] input[name=sure]")
        await page.click(".fold[open] button")
        await wait_for(page, ".said", "1 job deleted")
        await page.goto(f"{base}scheduled")
        await page.click("text=Run now >> nth=0")
        await wait_for(page, ".said", "may run now")
        await page.click("main tbody th a")
        await page.check("input[name=sure]")
        await page.click("button:has-text('Cancel')")
        await wait_for(page, ".said", "is deleted")


async def test_the_queue_is_paused_and_the_doctor_asked(busy: rota.Queue, browser: Browser) -> None:
    async with served(busy) as (base, _), page_of(browser) as page:
        await page.goto(base)
        await page.fill("input[name=reason]", "deploy")
        await page.click("text=Pause the queue")
        await wait_for(page, "#figures", "The queue is paused by 127.0.0.1: deploy")
        await page.click("text=Resume the queue")
        await wait_for(page, ".said", "goes on")
        await page.goto(f"{base}system")
        await page.click("text=Look at everything")
        await wait_for(page, ".said", "The doctor is looking")


async def test_the_keyboard_is_enough(busy: rota.Queue, browser: Browser) -> None:
    async with served(busy) as (base, _), page_of(browser) as page:
        await page.goto(f"{base}lanes?order=all")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.id") == "pause-big":
                break
        assert await page.evaluate("document.activeElement.matches(':focus-visible')")
        await page.keyboard.press("Enter")
        await wait_for(page, ".said", "Lane big is paused")


async def test_focus_survives_live_figures(busy: rota.Queue, browser: Browser) -> None:
    async with served(busy) as (base, _), page_of(browser) as page:
        await page.goto(f"{base}lanes")
        await page.focus("#pause-big")
        await page.evaluate("document.getElementById('pause-big').mark = 1")
        await becomes_true(page, "!document.getElementById('pause-big').mark")
        assert await page.evaluate("document.activeElement.id") == "pause-big"


async def test_a_hundred_thousand_lanes(queue: rota.Queue, browser: Browser) -> None:
    await queue.enqueue_many(spec(f"tenant-{n:06}") for n in range(100_000))
    async with served(queue) as (base, _), page_of(browser) as page:
        for address in ("", "lanes", "lanes?order=all", "lane?name=tenant-099999"):
            began = time.monotonic()
            await page.goto(base + address)
            await page.locator("#figures, #lanes tbody tr, .reasons li").first.wait_for()
            assert time.monotonic() - began < IN_TIME, address
            assert len(await page.content()) < 300_000, address
        await page.goto(f"{base}lanes?order=all")
        await page.click("text=Next page")
        assert await page.locator("#lanes tbody tr").count() > 0
        await page.goto(f"{base}lanes")
        await page.locator("#lanes", has_text="The first 100;").wait_for(timeout=50_000)
        assert await page.locator("#lanes tbody tr").count() == 100


NAMELESS = """() => [...document.querySelectorAll('input:not([type=hidden]), select, button, a')]
    .filter(e => !(e.labels && e.labels.length) && !e.textContent.trim()
                 && !e.getAttribute('aria-label')).map(e => e.outerHTML)"""
TOO_WIDE = "() => document.documentElement.scrollWidth - window.innerWidth"
TITLES = """() => [document.querySelectorAll('main').length, document.querySelectorAll('h1').length,
    document.querySelectorAll('th:not([scope])').length, document.documentElement.lang]"""


async def test_every_page_fits_a_phone_and_names_its_controls(
    busy: rota.Queue, browser: Browser
) -> None:
    phone = {"viewport": {"width": 360, "height": 740}}
    async with served(busy) as (base, _), page_of(browser, **phone) as page:
        for address in EVERY_PAGE:
            await page.goto(base + address)
            assert await page.evaluate(TOO_WIDE) <= 0, address
            assert await page.evaluate(NAMELESS) == [], address
            assert await page.evaluate(TITLES) == [1, 1, 0, "en"], address


async def test_without_scripts_pages_are_read_and_forms_work(
    busy: rota.Queue, browser: Browser
) -> None:
    async with served(busy) as (base, _), page_of(browser, java_script_enabled=False) as page:
        for address in EVERY_PAGE:
            answer = await page.goto(base + address)
            assert answer is not None
            assert answer.status == 200
        await page.goto(f"{base}lane?name=big")
        await page.fill("input[name=ceiling]", "5")
        await page.click("text=Set ceiling")
        await wait_for(page, ".said", "limits of lane big are changed")
    assert (await busy.lane("big").info()).ceiling == 5


async def test_hostile_text_runs_nothing(
    evil: tuple[rota.Queue, list[str]],
    browser: Browser,
) -> None:
    queue, ids = evil
    async with served(queue) as (base, _), page_of(browser) as page:
        for address in PAGES:
            await page.goto(base + address)
            assert EVIL[:20] in await text_of(page, "body") or address in ("", "workers")
        await page.goto(f"{base}lanes")
        await page.locator("#lanes tbody tr").first.wait_for()
        await page.wait_for_timeout(1500)  # a push or two
        for id in ids:
            await page.goto(f"{base}jobs?state=dead")
            await page.fill("input[name=id]", id)
            await page.click("text=Show job")
            assert id in await text_of(page, "h1")
        assert await page.locator("img").count() == 0


@pytest.mark.skipif(not os.environ.get("ROTA_SCREENSHOTS"), reason="ROTA_SCREENSHOTS is not set")
async def test_screenshots_for_the_docs(valkey: Server, browser: Browser) -> None:
    async with open_queue(valkey, "orders") as queue:
        await take_screenshots(queue, browser)


async def take_screenshots(queue: rota.Queue, browser: Browser) -> None:
    tenants = ("initech", "umbrella", "hooli", "stark", "wayne", "wonka", "soylent", "tyrell")

    @queue.task(lane_from="tenant")
    async def send(tenant: str, number: int) -> None:
        await asyncio.sleep(0.04)

    async def feed() -> None:
        for number in range(10_000):
            await queue.enqueue_many(send.spec(tenant, number) for tenant in tenants)
            await asyncio.sleep(0.08)

    await queue.lane("acme").set(ceiling=6)
    await queue.lane("umbrella").set(ceiling=1)
    await queue.enqueue_many(send.spec("acme", number) for number in range(9000))
    await queue.enqueue_many(send.spec("cyberdyne", number) for number in range(40))
    await queue.lane("cyberdyne").pause(reason="card declined", by="ops")
    async with served(queue) as (base, _), rota.Worker(queue, concurrency=12):
        feeding = asyncio.create_task(feed())
        for scheme in ("light", "dark"):
            size = {"width": 1100, "height": 820}
            async with page_of(browser, color_scheme=scheme, viewport=size) as page:
                await page.goto(f"{base}lanes")
                await becomes_true(page, f"{POINTS} > 12", timeout=60)
                await page.screenshot(path=DOCS / f"dashboard-{scheme}.png")
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
