"""Lists of jobs and sequences, and one job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, get_args

from rota.values import names
from rota.values.failure import headline
from rota.values.listing import JobsPage, SequenceInfo, SequencesPage, job_state
from rota.values.model import JobState
from rota.web.access import HttpError
from rota.web.pages.explained import as_seen
from rota.web.payload import shown_error, shown_payload, with_shown_error
from rota.web.view import View

ROWS = 50
STATES = get_args(JobState)


@dataclass(frozen=True, slots=True)
class Filter:
    """What the address asks for; `lanes`: those to choose from, for who sees only some."""

    lane: str | None
    task: str | None
    cursor: str | None
    lanes: tuple[str, ...]


def asked(view: View) -> Filter:
    """Raises HttpError for a lane out of scope, ConfigError for names that cannot be."""
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


async def by_state(view: View) -> dict[str, Any]:
    """The jobs of one state."""
    state = job_state(view.text("state") or "running")
    counts = {}
    if view.scope is None:
        info = await view.queue.info()
        counts = {name: getattr(info, name) for name in STATES}
    return {"state": state, "states": STATES, "counts": counts, **await _listed(view, state)}


async def scheduled(view: View) -> dict[str, Any]:
    """Delayed jobs, the next to fall due first."""
    return await _listed(view, "delayed")


async def _listed(view: View, state: JobState) -> dict[str, Any]:
    """One page; the server is not asked where there is no lane to ask for."""
    wanted = asked(view)
    page = JobsPage([], None)
    if state != "waiting" or wanted.lane is not None:
        page = await view.queue.jobs(
            state, lane=wanted.lane, task=wanted.task, cursor=wanted.cursor, limit=ROWS
        )
    jobs = [with_shown_error(job, view.site.redact, brief=True) for job in page.jobs]
    page = JobsPage(jobs, following(view, page.cursor))
    return {"wanted": wanted, "page_of": page, "limit": ROWS}


async def sequences(view: View) -> dict[str, Any]:
    """Sequences: what each waits behind."""
    wanted = asked(view)
    page = await view.queue.sequences(lane=wanted.lane, cursor=wanted.cursor, limit=ROWS)
    shown = await asyncio.gather(*(_as_seen(view, one) for one in page.sequences))
    page = SequencesPage(shown, following(view, page.cursor))
    return {"wanted": wanted, "page_of": page, "limit": ROWS}


async def _as_seen(view: View, sequence: SequenceInfo) -> SequenceInfo:
    """Why it is out may be the error of the job that stops it."""
    redact = view.site.redact
    if redact is None or not sequence.reason:
        return sequence
    head = await view.queue.job(sequence.head).info() if sequence.head else None
    task, payload = (head.task, head.payload) if head else ("", b"")
    return replace(sequence, reason=shown_error(task, payload, headline(sequence.reason), redact))


async def one(view: View) -> dict[str, Any]:
    """One job: its life in times, its errors, its arguments, and why it is not running."""
    id = names.job_id(view.text("id"))
    handle = view.queue.job(id)
    info = await handle.info()
    if info is None or not view.sees(info.lane):  # the same answer: whether it exists is others'
        raise HttpError(404, f"There is no job {id}: never enqueued, done, or deleted.")
    explained = await handle.explain()
    return {
        "job": with_shown_error(info, view.site.redact),
        "explained": explained and as_seen(view, explained, info),
        "payload": shown_payload(info.task, info.payload, view.site.redact),
    }
