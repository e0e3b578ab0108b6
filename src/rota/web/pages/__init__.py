"""What is shown: a function gives the facts of each page, the template of its name the form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rota.web.pages import jobs, lanes, queue
from rota.web.site import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`parts`: templates that are pushed anew with each look. `actions`: what it offers, with the
    kind of what they change; `subject`: the parameter that names what the page is about.
    `whole_queue`: who is kept to some lanes does not see it."""

    title: str
    facts: Callable[[View], Awaitable[dict[str, Any]]]
    parts: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    subject: str | None = None
    whole_queue: bool = False
    hidden: bool = False


def _verbs(noun: str, *verbs: str) -> tuple[str, ...]:
    return tuple(f"{noun}.{verb}" for verb in verbs)


PAGES: dict[str, Page] = {
    "": Page(
        title="Overview",
        facts=queue.overview,
        parts=("figures", "neediest"),
        actions=_verbs("queue", "pause", "resume", "set"),
    ),
    "lanes": Page(
        title="Lanes",
        facts=lanes.facts,
        parts=("lanes", "stack"),
        actions=_verbs("lane", "pause", "resume"),
    ),
    "lane": Page(
        title="Lane",
        facts=lanes.one,
        actions=_verbs("lane", "pause", "resume", "set", "block", "unblock", "cancel"),
        subject="name",
        hidden=True,
    ),
    "sequences": Page(
        title="Sequences",
        facts=jobs.sequences,
        actions=("sequence.skip", "job.retry", "job.cancel"),
    ),
    "jobs": Page(title="Jobs", facts=jobs.by_state),
    "job": Page(
        title="Job",
        facts=jobs.one,
        actions=_verbs("job", "retry", "cancel", "discard"),
        subject="id",
        hidden=True,
    ),
    "dead": Page(
        title="Dead",
        facts=jobs.dead,
        actions=_verbs("dead", "replay", "discard", "replay_all", "discard_all"),
    ),
    "scheduled": Page(
        title="Scheduled", facts=jobs.scheduled, actions=_verbs("job", "retry", "cancel")
    ),
    "workers": Page(
        title="Workers",
        facts=queue.workers,
        actions=_verbs("worker", "quiet", "stop", "evict"),
        whole_queue=True,
    ),
    "system": Page(
        title="System",
        facts=queue.system,
        actions=_verbs("doctor", "examine", "repair"),
        whole_queue=True,
    ),
}
