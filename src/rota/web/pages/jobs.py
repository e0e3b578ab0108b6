"""Lists of jobs and sequences, one job and why it waits, dead jobs by their error."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from rota.explain import Explanation, Reason
from rota.explain.words import headline_of
from rota.values import names
from rota.values.failure import headline
from rota.values.listing import JobsPage, SequenceInfo, SequencesPage, job_state
from rota.values.model import JobInfo, JobState
from rota.web.access import HttpError
from rota.web.payload import (
    SHOWN_CHARS,
    Redact,
    one_line,
    shown_error,
    shown_payload,
    with_shown_error,
)
from rota.web.site import View

ROWS = 50
STATES = get_args(JobState)
LOOKED_AT = 1000
DEAD_PAGE = 200
TIME_S = 0.08
"""A page looks no longer than this before it shows what it has found."""
_VARIES = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F-]{16,}|\d+")
OTHERS = {
    "turn": ("It waits for its turn.", "Its turn, which comes with more free slots"),
    "queue_at_ceiling": ("The whole queue is at its ceiling.", "The end of any job that runs"),
}
"""What is told, without their figures, of reasons that lie with other lanes."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What the address asks for."""

    lane: str | None
    task: str | None
    cursor: str | None


def asked(view: View) -> Filter:
    """Raises HttpError for a lane out of scope, ConfigError for names that cannot be."""
    lane, task, cursor = (view.text(name) or None for name in ("lane", "task", "cursor"))
    if view.scope is not None:
        lane = lane or min(view.scope, default="")
        view.must_see(lane, "lane")
        cursor = cursor and view.site.unseal(cursor)
    return Filter(lane and names.lane_name(lane), task and names.task_name(task), cursor)


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
        "arguments": shown_payload(info.task, info.payload, view.site.redact),
        "size": len(info.payload),
        "most": SHOWN_CHARS,
    }


# ── why something waits ─────────────────────────────────────────────────────────────────────────


def as_seen(view: View, explained: Explanation, job: JobInfo | None = None) -> Explanation:
    """The error of `job` is masked as the hook says; who is kept to some lanes learns no figures of
    the others."""
    if job is not None and (redact := view.site.redact) is not None:
        reasons = tuple(_masked(reason, job, redact) for reason in explained.reasons)
        explained = replace(explained, reasons=reasons)
    if view.scope is not None:
        reasons = tuple(_without_others(reason) for reason in explained.reasons)
        explained = replace(explained, reasons=reasons, expected_turn=None)
    return explained


def _masked(reason: Reason, job: JobInfo, redact: Redact) -> Reason:
    error = reason.detail.get("error")
    said = headline_of(error or "")
    if not said:
        return reason
    shown = headline_of(shown_error(job.task, job.payload, str(error), redact))
    text = reason.text.replace(said, shown) if said in reason.text else shown
    return replace(reason, text=text, detail={})


def _without_others(reason: Reason) -> Reason:
    if reason.kind not in OTHERS:
        return reason
    text, frees = OTHERS[reason.kind]
    return replace(reason, text=text, frees=frees, detail={})


# ── dead jobs, grouped by their error ───────────────────────────────────────────────────────────


@dataclass(slots=True)
class Group:
    """Jobs of one task that died of the same error, numbers and ids apart."""

    task: str
    error: str
    jobs: list[JobInfo] = field(default_factory=list)
    lanes: set[str] = field(default_factory=set)

    @property
    def ids(self) -> str:
        return "\n".join(job.id for job in self.jobs)


async def dead(view: View) -> dict[str, Any]:
    wanted = asked(view)
    jobs, cursor = await _dead_jobs(view, wanted)
    groups: dict[tuple[str, str], Group] = {}
    for job in jobs:
        error = one_line(job.error)
        key = job.task, _VARIES.sub("#", error)
        group = groups.setdefault(key, Group(job.task, error))
        group.jobs.append(job)
        group.lanes.add(job.lane)
    info = await view.queue.info() if view.scope is None else None
    return {
        "wanted": wanted,
        "groups": sorted(groups.values(), key=lambda group: -len(group.jobs)),
        "looked_at": len(jobs),
        "all": info.dead if info else None,
        "following": following(view, cursor),
    }


async def _dead_jobs(view: View, wanted: Filter) -> tuple[list[JobInfo], str | None]:
    """The next dead jobs, without their arguments; a bounded number of them, for a bounded time."""
    found: list[JobInfo] = []
    cursor, began = wanted.cursor, time.monotonic()
    while True:
        page = await view.queue.jobs(
            "dead", lane=wanted.lane, task=wanted.task, cursor=cursor, limit=DEAD_PAGE
        )
        found += [
            replace(with_shown_error(job, view.site.redact, brief=True), payload=b"")
            for job in page.jobs
        ]
        cursor = page.cursor
        late = time.monotonic() - began > TIME_S
        if cursor is None or len(found) >= LOOKED_AT or late:
            return found, cursor
