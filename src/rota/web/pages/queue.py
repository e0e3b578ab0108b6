"""The queue: how it is doing, its workers, its server and settings, what the doctor found."""

from __future__ import annotations

from typing import Any

import rota
from rota.web.looks import Snapshot
from rota.web.site import View

NEEDIEST = 8
SHOWN_FINDINGS = 200
SHOWN_TEMPLATES = 100
SHOWN_CONSUMERS = 200


async def overview(view: View) -> dict[str, Any]:
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


async def system(view: View) -> dict[str, Any]:
    queue = view.queue
    report = view.board.checkup.report
    templates = await queue.templates()
    return {
        "version": rota.__version__,
        "server": queue.server,
        "advice": await queue.advice(),
        "info": await queue.info(),
        "templates": dict(sorted(templates.items())[:SHOWN_TEMPLATES]),
        "all_templates": len(templates),
        "checkup": view.board.checkup,
        "findings": report.findings[:SHOWN_FINDINGS] if report else [],
        "all_findings": len(report.findings) if report else 0,
    }


async def workers(view: View) -> dict[str, Any]:
    """Consumers that have a lease, and what they hold."""
    info = await view.queue.info()
    found = await view.queue.consumers(SHOWN_CONSUMERS)
    return {
        "info": info,
        "consumers": sorted(found, key=lambda one: (one.name, one.id)),
        "limit": SHOWN_CONSUMERS,
    }
