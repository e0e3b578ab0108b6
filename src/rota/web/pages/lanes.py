"""Who waits because of whom: lanes, what they were given and what was due to them; one lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from rota.values import names
from rota.values.model import LaneSort
from rota.values.names import visible
from rota.web.looks import SERIES, LaneRow, Slice, Snapshot
from rota.web.pages.jobs import as_seen
from rota.web.site import View

ROWS = 100
ORDER_NAMES = {
    "hurt": "who hurts most",
    "oldest_wait": "oldest wait",
    "waiting": "waiting",
    "running": "running",
    "served": "served of late",
    "all": "all, page by page",
}


async def one(view: View) -> dict[str, Any]:
    """One lane: its figures, its limits, and why it is not served now."""
    name = names.lane_name(view.text("name"))
    view.must_see(name, "lane")
    lane = view.queue.lane(name)
    info, explained = await lane.info(), await lane.explain()
    seen = await view.watch.now(patience=0)
    rows = seen.lanes.rows if seen.lanes else ()
    share = next((row.share for row in rows if row.info.name == name), None)
    return {"lane": LaneRow(info, share), "explained": as_seen(view, explained)}


async def facts(view: View) -> dict[str, Any]:
    order, name = order_of(view), view.text("name")
    if name:
        view.must_see(names.lane_name(name), "lane")
        rows = [LaneRow(await view.queue.lane(name).info())]
        return _told(await view.watch.now(patience=1), rows, "named", name=name)
    if order == "all" and view.scope is None:
        page = await view.queue.lanes_page(view.text("cursor") or None)
        rows = [LaneRow(info) for info in page.lanes]
        return _told(await view.watch.now(), rows, order, following=page.cursor)
    seen = await view.watch.now()
    if seen.lanes is not None:
        return told(seen, order)
    # Before the first look has ended: some lanes with work, in one call.
    lanes = (await view.queue.lanes_page()).lanes if view.scope is None else []
    rows = sorted(map(LaneRow, lanes), key=lambda row: row.hurt)
    return _told(seen, rows, order, note="first")


def order_of(view: View) -> str:
    order = view.text("order")
    return order if order in ORDER_NAMES else "hurt"


def told(seen: Snapshot, order: str) -> dict[str, Any]:
    """From the last look, without asking anybody."""
    look = seen.lanes
    assert look is not None
    if order == "hurt" or look.complete:
        rows = list(look.rows)
        figure = next((by for by in get_args(LaneSort) if by == order), None)
        if figure is not None:
            rows.sort(key=lambda row: (-row.info.rank(figure), row.info.name))
    else:
        rows = list(look.orders.get(order, ()))
    note = "" if rows or look.complete else "waiting"
    return _told(seen, rows, order, complete=look.complete and len(rows) <= ROWS, note=note)


def _told(seen: Snapshot, rows: Sequence[LaneRow], order: str, **more: object) -> dict[str, Any]:
    return {
        "seen": seen,
        "series": series(seen.slices),
        "rows": rows[:ROWS],
        "more": len(rows) > ROWS,
        "complete": False,
        "order": order,
        "orders": ORDER_NAMES,
        "following": None,
        "name": "",
        "note": "",
        **more,
    }


# ── the picture ─────────────────────────────────────────────────────────────────────────────────


def series(slices: Sequence[Slice]) -> dict[str, Any] | None:
    """Times, and for each of the lanes served most of late, then for the rest, its parts."""
    if not slices:
        return None
    given: dict[str, float] = {}
    for one in slices[-30:]:
        for name, part in one.given.items():
            given[name] = given.get(name, 0.0) + part
    top = sorted(given, key=lambda name: (-given[name], name))[:SERIES]
    parts = [[one.given.get(name, 0.0) for one in slices] for name in top]
    rest = [
        max(0.0, 1 - sum(line[i] for line in parts)) if any(one.given.values()) else 0.0
        for i, one in enumerate(slices)
    ]
    return {
        "times": [round(one.at, 1) for one in slices],
        "names": [*map(visible, top), "others"],
        "parts": [[round(part, 4) for part in line] for line in (*parts, rest)],
    }
