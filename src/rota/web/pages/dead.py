"""Dead jobs, grouped by their error."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import Any

from rota.values.model import JobInfo
from rota.web.pages.jobs import Filter, asked, following
from rota.web.payload import one_line, with_shown_error
from rota.web.view import View

LOOKED_AT = 1000
PAGE = 200
TIME_S = 0.08
"""A page looks no longer than this before it shows what it has found."""
SHOWN_OF_GROUP = 5
_VARIES = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F-]{16,}|\d+")


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

    @property
    def shown(self) -> list[JobInfo]:
        return self.jobs[-SHOWN_OF_GROUP:]


async def facts(view: View) -> dict[str, Any]:
    wanted = asked(view)
    jobs, cursor = await _look(view, wanted)
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


async def _look(view: View, wanted: Filter) -> tuple[list[JobInfo], str | None]:
    """The next dead jobs, without their arguments; a bounded number of them, for a bounded time."""
    found: list[JobInfo] = []
    cursor, began = wanted.cursor, time.monotonic()
    while True:
        page = await view.queue.jobs(
            "dead", lane=wanted.lane, task=wanted.task, cursor=cursor, limit=PAGE
        )
        found += [
            replace(with_shown_error(job, view.site.redact, brief=True), payload=b"")
            for job in page.jobs
        ]
        cursor = page.cursor
        late = time.monotonic() - began > TIME_S
        if cursor is None or len(found) >= LOOKED_AT or late:
            return found, cursor
