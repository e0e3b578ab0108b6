"""Delayed jobs, the next to fall due first."""

from __future__ import annotations

from typing import Any

from rota.web.pages.listing import ROWS, asked, jobs_of
from rota.web.view import View


async def facts(view: View) -> dict[str, Any]:
    wanted = asked(view)
    return {"wanted": wanted, "page_of": await jobs_of(view, "delayed", wanted), "limit": ROWS}
