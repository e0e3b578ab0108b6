"""Sequences: what each waits behind."""

from __future__ import annotations

from typing import Any

from rota.web.pages.listing import ROWS, asked
from rota.web.view import View


async def facts(view: View) -> dict[str, Any]:
    wanted = asked(view)
    page = await view.queue.sequences(lane=wanted.lane, cursor=wanted.cursor, limit=ROWS)
    return {"wanted": wanted, "page_of": page, "limit": ROWS}
