"""How the queue is doing: its figures, and the lanes that need someone."""

from __future__ import annotations

from typing import Any

from rota.web.looks import Point, Snapshot
from rota.web.view import View

NEEDIEST = 8


async def facts(view: View) -> dict[str, Any]:
    return told(await view.watch.now())


def told(seen: Snapshot) -> dict[str, Any]:
    rows = seen.lanes.rows if seen.lanes else ()
    return {
        "seen": seen,
        "sums": _sums(seen),
        "into": _pace([point.enqueued for point in seen.history], seen.history),
        "out": _pace([point.completed for point in seen.history], seen.history),
        "depth": [float(point.waiting) for point in seen.history],
        "neediest": [
            row for row in rows if row.info.waiting and (row.hurt[0] or row.info.oldest_wait)
        ][:NEEDIEST],
    }


def _sums(seen: Snapshot) -> dict[str, int | None]:
    """The queue's figures, or for who sees some lanes only, those of these lanes."""
    info = seen.info
    if info is not None:
        return {
            "waiting": info.waiting,
            "running": info.running,
            "delayed": info.delayed,
            "dead": info.dead,
        }
    rows = [row.info for row in seen.lanes.rows] if seen.lanes else None
    return {
        "waiting": None if rows is None else sum(row.waiting for row in rows),
        "running": None if rows is None else sum(row.running for row in rows),
        "delayed": None if rows is None else sum(row.delayed for row in rows),
        "dead": None,
    }


def _pace(totals: list[int], history: tuple[Point, ...]) -> list[float]:
    """Jobs a second between one look and the next."""
    made = []
    for i in range(1, len(history)):
        seconds = max(history[i].at - history[i - 1].at, 0.001)
        made.append(max(0, totals[i] - totals[i - 1]) / seconds)
    return made
