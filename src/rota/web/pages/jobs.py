"""Jobs by state."""

from __future__ import annotations

from typing import Any, get_args

from rota.values.listing import job_state
from rota.values.model import JobState
from rota.web.pages.listing import ROWS, asked, jobs_of
from rota.web.view import View

STATES = get_args(JobState)


async def facts(view: View) -> dict[str, Any]:
    state = job_state(view.text("state") or "running")
    wanted = asked(view)
    counts = {}
    if view.scope is None:
        info = await view.queue.info()
        counts = {name: getattr(info, name) for name in STATES}
    return {
        "state": state,
        "states": STATES,
        "counts": counts,
        "wanted": wanted,
        "page_of": await jobs_of(view, state, wanted),
        "limit": ROWS,
    }
