"""Sequences: what each waits behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rota.web.pages.listing import ROWS, asked, following
from rota.web.view import View


async def facts(view: View) -> dict[str, Any]:
    wanted = asked(view)
    page = await view.queue.sequences(lane=wanted.lane, cursor=wanted.cursor, limit=ROWS)
    page = replace(page, cursor=following(view, page.cursor))
    return {"wanted": wanted, "page_of": page, "limit": ROWS}
