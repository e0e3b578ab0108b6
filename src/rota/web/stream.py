"""What changed, pushed to browsers as server-sent events: one look, many readers."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rota.web.access import HttpError
from rota.web.looks import Snapshot
from rota.web.pages import PAGES, lanes, queue
from rota.web.render import render
from rota.web.site import MAX_STREAMS, MAX_STREAMS_EACH, View

SILENCE_S = 15.0
"""A comment is sent after so long without news: proxies close what is silent."""
SPOKEN_EVERY_S = 15.0
"""Screen readers are told the figures no more often."""
LIFE_S = 900.0
"""A stream ends after so long; browsers ask again, and are checked again."""
_LINE_ENDS = re.compile(r"\r\n|\r|\n")


async def stream(view: View) -> StreamingResponse:
    """The parts of a page, each when it has changed. Raises HttpError when too many listen."""
    streams = view.site.streams
    if len(streams) >= MAX_STREAMS:
        raise HttpError(503, f"{MAX_STREAMS} pages are live already; this one is not.")
    if streams.of(view.visitor.key) >= MAX_STREAMS_EACH:
        raise HttpError(
            503, f"{MAX_STREAMS_EACH} pages of yours are live already; this one is not."
        )
    return _Live(view)


class _Live(StreamingResponse):
    """Counted from its beginning to its end, however it ends."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._events = _events(view)
        headers = {"x-accel-buffering": "no"}
        super().__init__(self._events, media_type="text/event-stream", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._view.site.streams.one_more(self._view.visitor.key):
            try:
                await super().__call__(scope, receive, send)
            finally:
                await self._events.aclose()


async def _events(view: View) -> AsyncGenerator[str, None]:
    sent: dict[str, str] = {}
    changes = view.watch.changes()
    upcoming: asyncio.Future[Snapshot] | None = None
    began = time.monotonic()
    spoke = began  # the page itself has just been read
    try:
        yield "retry: 3000\n\n"
        while time.monotonic() - began < LIFE_S:
            upcoming = upcoming or asyncio.ensure_future(anext(changes))
            done, _ = await asyncio.wait([upcoming], timeout=SILENCE_S)
            if not done:
                yield ": still here\n\n"
                continue
            seen, upcoming = upcoming.result(), None
            for name, text in _parts(view, seen).items():
                if sent.get(name) != text:
                    sent[name] = text
                    yield event(name, text)
            if time.monotonic() - spoke > SPOKEN_EVERY_S:
                spoke = time.monotonic()
                yield event("spoken", render("parts/spoken.html", _facts(view, seen)))
    except StopAsyncIteration:
        return
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        await changes.aclose()


def event(name: str, text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(text))
    return f"event: {name}\n{lines}\n"


def _parts(view: View, seen: Snapshot) -> dict[str, str]:
    facts = _facts(view, seen)
    early = view.page == "lanes" and seen.lanes is None
    names = ("status", *(() if early else PAGES[view.page].parts))
    made = {name: render(f"parts/{name}.html", {"view": view, **facts}) for name in names}
    if view.page == "lanes" and facts.get("series"):
        made["chart"] = json.dumps(facts["series"], ensure_ascii=False)
    return made


def _facts(view: View, seen: Snapshot) -> dict[str, Any]:
    facts = queue.told(seen)
    if view.page == "lanes" and seen.lanes:
        facts |= lanes.told(seen, lanes.order_of(view))
    return facts
