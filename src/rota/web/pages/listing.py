"""What pages with lists share: the lane they are of, and the way to the next page."""

from __future__ import annotations

from dataclasses import dataclass

from rota import names
from rota.listing import JobsPage
from rota.model import JobState
from rota.web.view import View

ROWS = 50


@dataclass(frozen=True, slots=True)
class Filter:
    """What the address asks for; `lanes`: those to choose from, for who sees only some."""

    lane: str | None
    task: str | None
    cursor: str | None
    lanes: tuple[str, ...]


def asked(view: View) -> Filter:
    """Raises Refused for a lane out of scope, ConfigError for names that cannot be."""
    lane = view.text("lane") or None
    lanes = tuple(sorted(view.scope or ()))
    if view.scope is not None:
        lane = lane or (lanes[0] if lanes else "")
        view.must_see(lane, "lane")
    task = view.text("task") or None
    return Filter(
        lane if lane is None else names.lane_name(lane),
        task if task is None else names.task_name(task),
        view.text("cursor") or None,
        lanes,
    )


async def jobs_of(view: View, state: JobState, wanted: Filter) -> JobsPage:
    """One page, without asking where there is no lane to ask for."""
    if state == "waiting" and wanted.lane is None:
        return JobsPage([], None)
    return await view.queue.jobs(
        state, lane=wanted.lane, task=wanted.task, cursor=wanted.cursor, limit=ROWS
    )
