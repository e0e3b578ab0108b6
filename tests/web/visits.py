"""Visiting a dashboard in this process, over HTTP without a socket."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx2
from starlette.types import ASGIApp

import rota
from rota.web import dashboard

LOCAL = ("127.0.0.1", 50_000)
AFAR = ("203.0.113.9", 50_000)
SAME = {"sec-fetch-site": "same-origin"}

PAGES = ("", "lanes", "sequences", "jobs", "dead", "scheduled", "workers", "system")


@dataclass(frozen=True, slots=True)
class Visit:
    """A browser without JavaScript, at one queue of a dashboard mounted at `base`."""

    http: httpx2.AsyncClient
    queue: str
    base: str = ""

    def url(self, page: str = "", /, **given: object) -> str:
        query = urlencode(given)
        return f"{self.base}/q/{self.queue}/{page}" + (f"?{query}" if query else "")

    async def get(self, page: str = "", /, **given: object) -> httpx2.Response:
        return await self.http.get(self.url(page, **given))

    async def read(self, page: str = "", /, **given: object) -> str:
        """The page's HTML; it has to be there."""
        answer = await self.get(page, **given)
        assert answer.status_code == 200, (answer.status_code, visible(answer.text))
        return answer.text

    async def do(
        self, action: str, headers: dict[str, str] | None = None, **fields: object
    ) -> httpx2.Response:
        """Sends a form and follows to the page that tells what it did."""
        return await self.http.post(
            self.url(f"do/{action}"),
            data={"back": "", **{name: str(value) for name, value in fields.items()}},
            headers=SAME if headers is None else headers,
            follow_redirects=True,
        )

    async def done(self, action: str, **fields: object) -> str:
        """What the page says an action did."""
        answer = await self.do(action, None, **fields)
        assert answer.status_code == 200, (answer.status_code, visible(answer.text))
        said = re.search(r'class="said"[^>]*>(.*?)</p>', answer.text)
        assert said, visible(answer.text)
        return html.unescape(said[1])


@asynccontextmanager
async def visiting(
    *queues: rota.Queue,
    client: tuple[str, int] | None = LOCAL,
    host: str = "localhost",
    http: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Visit]:
    """Makes a dashboard of the queues and visits the first of them."""
    app = dashboard(*queues, **options)
    try:
        async with at(app, client=client, host=host, **(http or {})) as browser:
            yield Visit(browser, queues[0].name)
    finally:
        await app.state.site.close()


@asynccontextmanager
async def at(
    app: ASGIApp, *, client: tuple[str, int] | None = LOCAL, host: str = "localhost", **more: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app, client=client)  # type: ignore[arg-type]  # None: a Unix socket
    async with httpx2.AsyncClient(
        transport=transport, base_url=f"http://{host}", **more
    ) as browser:
        yield browser


def visible(text: str) -> str:
    """A page's text, one line."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))).strip()
