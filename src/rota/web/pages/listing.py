"""What pages with lists share: the lane they are of, and the way to the next page."""

from __future__ import annotations

from dataclasses import dataclass

from rota.values import names
from rota.values.listing import JobsPage
from rota.values.model import JobState
from rota.web.payload import with_shown_error
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
    cursor = view.text("cursor") or None
    if cursor is not None and view.scope is not None:
        cursor = view.site.unseal(cursor)
    return Filter(
        lane if lane is None else names.lane_name(lane),
        task if task is None else names.task_name(task),
        cursor,
        lanes,
    )


def following(view: View, cursor: str | None) -> str | None:
    """The cursor of the next page, as this visitor may see it."""
    return cursor if cursor is None or view.scope is None else view.site.seal(cursor)


async def jobs_of(view: View, state: JobState, wanted: Filter) -> JobsPage:
    """One page, without asking where there is no lane to ask for."""
    if state == "waiting" and wanted.lane is None:
        return JobsPage([], None)
    page = await view.queue.jobs(
        state, lane=wanted.lane, task=wanted.task, cursor=wanted.cursor, limit=ROWS
    )
    jobs = [with_shown_error(job, view.site.redact, brief=True) for job in page.jobs]
    return JobsPage(jobs, following(view, page.cursor))
