"""The workers; the server, the queue's settings, what the doctor found."""

from __future__ import annotations

from typing import Any

import rota
from rota.web.view import View

SHOWN_FINDINGS = 200
SHOWN_TEMPLATES = 100
SHOWN_CONSUMERS = 200


async def facts(view: View) -> dict[str, Any]:
    queue = view.queue
    checkup = view.board.checkup
    report = checkup.report
    templates = await queue.templates()
    return {
        "version": rota.__version__,
        "server": queue.server,
        "advice": await queue.advice(),
        "info": await queue.info(),
        "templates": dict(sorted(templates.items())[:SHOWN_TEMPLATES]),
        "all_templates": len(templates),
        "checkup": checkup,
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
