"""One lane: its figures, its limits, and why it is not served now."""

from __future__ import annotations

from typing import Any

from rota.values import names
from rota.web.looks import LaneRow
from rota.web.pages.explained import as_seen
from rota.web.view import View


async def facts(view: View) -> dict[str, Any]:
    name = names.lane_name(view.text("name"))
    view.must_see(name, "lane")
    lane = view.queue.lane(name)
    info = await lane.info()
    explained = as_seen(view, await lane.explain())
    seen = await view.watch.now(patience=0)
    rows = seen.lanes.rows if seen.lanes else ()
    share = next((row.share for row in rows if row.info.name == name), None)
    return {
        "lane": LaneRow(info, share),
        "explained": explained,
        "is_ordered": names.is_ordered_lane(name),
    }
