"""How the queue is doing: its figures, and the lanes that need someone."""

from __future__ import annotations

from typing import Any

from rota.web.looks import Snapshot
from rota.web.view import View

NEEDIEST = 8


async def facts(view: View) -> dict[str, Any]:
    return told(await view.watch.now())


def told(seen: Snapshot) -> dict[str, Any]:
    rows = seen.lanes.rows if seen.lanes else ()
    needy = [row for row in rows if row.info.waiting and (row.hurt[0] or row.info.oldest_wait)]
    return {"seen": seen, "sums": _sums(seen), "neediest": needy[:NEEDIEST]}


def _sums(seen: Snapshot) -> dict[str, int | None]:
    """The queue's figures, or for who sees some lanes only, those of these lanes."""
    names = ("waiting", "running", "delayed")
    if seen.info is not None:
        return {name: getattr(seen.info, name) for name in (*names, "dead")}
    none: dict[str, int | None] = dict.fromkeys((*names, "dead"))
    if seen.lanes is None:
        return none
    return none | {name: sum(getattr(r.info, name) for r in seen.lanes.rows) for name in names}
