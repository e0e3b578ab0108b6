"""What is shown: each module gives the facts of one page, its template of that name the form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rota.web.pages import (
    dead,
    job,
    jobs,
    lane,
    lanes,
    overview,
    scheduled,
    sequences,
    system,
    workers,
)
from rota.web.view import View


@dataclass(frozen=True, slots=True)
class Page:
    """`parts`: templates that are pushed anew with each look. `actions`: what it offers, with the
    kind of what they change; `subject`: the parameter that names what the page is about.
    `whole_queue`: who is kept to some lanes does not see it."""

    facts: Callable[[View], Awaitable[dict[str, Any]]]
    title: str
    parts: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    subject: str | None = None
    whole_queue: bool = False
    hidden: bool = False


LANE_VERBS = ("pause", "resume", "set", "block", "unblock", "cancel")

PAGES: dict[str, Page] = {
    "": Page(
        overview.facts,
        "Overview",
        ("figures", "neediest"),
        ("queue.pause", "queue.resume", "queue.set"),
    ),
    "lanes": Page(lanes.facts, "Lanes", ("lanes", "stack"), ("lane.pause", "lane.resume")),
    "lane": Page(
        lane.facts, "Lane", (), tuple(f"lane.{verb}" for verb in LANE_VERBS), "name", hidden=True
    ),
    "sequences": Page(
        sequences.facts, "Sequences", (), ("sequence.skip", "job.retry", "job.cancel")
    ),
    "jobs": Page(jobs.facts, "Jobs"),
    "job": Page(
        job.facts,
        "Job",
        (),
        ("job.retry", "job.cancel", "job.discard"),
        "id",
        hidden=True,
    ),
    "dead": Page(
        dead.facts,
        "Dead",
        (),
        ("dead.replay", "dead.discard", "dead.replay_all", "dead.discard_all"),
    ),
    "scheduled": Page(scheduled.facts, "Scheduled", (), ("job.retry", "job.cancel")),
    "workers": Page(
        workers.facts,
        "Workers",
        (),
        ("worker.quiet", "worker.stop", "worker.evict"),
        whole_queue=True,
    ),
    "system": Page(
        system.facts, "System", (), ("doctor.examine", "doctor.repair"), whole_queue=True
    ),
}
