"""Consumers that have a lease, and what they hold."""

from __future__ import annotations

from typing import Any

from rota.web.view import View

ROWS = 200


async def facts(view: View) -> dict[str, Any]:
    info = await view.queue.info()
    found = await view.queue.consumers(ROWS)
    return {
        "info": info,
        "consumers": sorted(found, key=lambda one: (one.name, one.id)),
        "limit": ROWS,
    }
