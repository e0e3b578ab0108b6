"""Lists of jobs and sequences, in pages of bounded work, and single ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rota.errors import ConfigError
from rota.script import replies, stubs
from rota.script.keys import Keys
from rota.script.loader import Call, Operation, packed_names
from rota.script.replies import JobsReply
from rota.values import config
from rota.values.listing import (
    JobsPage,
    Place,
    SequenceInfo,
    SequencesPage,
    cursor_place,
    cursor_text,
    job_state,
)
from rota.values.model import JobInfo, JobState

LOOKS = 500
"""What one call for such a page looks at: some milliseconds of the server's time."""
CALLS = 10
"""How many calls a page may take where a filter lets little pass."""
PAGE_BYTES = 1 << 21

_PAGES: dict[JobState, Callable[..., Call[JobsReply]]] = {
    "waiting": stubs.waiting_page,
    "running": stubs.running_page,
    "delayed": partial(stubs.timed_page, kind="delayed"),
    "dead": partial(stubs.timed_page, kind="dead"),
}


def jobs_page(
    keys: Keys, state: JobState, place: Place, *, lane: str | None, task: str | None, limit: int
) -> Call[JobsReply]:
    """One call for jobs in a state, of a lane and task or any."""
    return _PAGES[state](
        keys,
        lane=lane or "",
        task=task or "",
        cursor=packed_names(place),
        limit=limit,
        looks=LOOKS,
    )


class Jobs:
    """The part of the inspector that looks at jobs and sequences."""

    keys: Keys

    def job(self, id: str) -> Operation[JobInfo | None]:
        """A job as it stands, or None where there is none: unknown, or done."""
        return (yield from stubs.job_info(self.keys, id=id))

    def jobs(
        self, state: object, *, lane: str | None, task: str | None, cursor: str | None, limit: int
    ) -> Operation[JobsPage]:
        """A page of the jobs in a state, of a lane and task or any; those waiting need a lane."""
        known = job_state(state)
        config.whole(limit, 1, config.MAX_LISTED, "limit")
        if known == "waiting" and lane is None:
            raise ConfigError("lane: expected the lane whose waiting jobs to list, given None")
        place, found = cursor_place(known, cursor), list[JobInfo]()
        for _ in range(CALLS):
            page = yield from jobs_page(
                self.keys, known, place, lane=lane, task=task, limit=limit - len(found)
            )
            place = page.place
            found += [replies.job(known, row) for row in page.jobs]
            if not place or len(found) >= limit or sum(len(j.payload) for j in found) > PAGE_BYTES:
                break
        return JobsPage(found, cursor_text(known, place))

    def first_dead(
        self, *, lane: str | None, task: str | None, limit: int
    ) -> Operation[list[JobInfo]]:
        """The first `limit` dead jobs of a lane and task, or of any."""
        found: list[JobInfo] = []
        cursor = None
        while True:
            most = min(config.MAX_LISTED, limit - len(found))
            page = yield from self.jobs("dead", lane=lane, task=task, cursor=cursor, limit=most)
            found += page.jobs
            cursor = page.cursor
            if cursor is None or len(found) >= limit:
                return found

    def sequence(self, lane: str, key: str) -> Operation[SequenceInfo | None]:
        """A sequence as it stands; None where there is nothing of it."""
        return (yield from stubs.sequence_info(self.keys, lane=lane, key=key))

    def sequences(
        self, *, lane: str | None, cursor: str | None, limit: int
    ) -> Operation[SequencesPage]:
        """A page of the sequences of a lane, or of all, those that are out first."""
        config.whole(limit, 1, config.MAX_LISTED, "limit")
        place, found = cursor_place("sequences", cursor), list[SequenceInfo]()
        for _ in range(CALLS):
            place, rows = yield from stubs.sequences_page(
                self.keys,
                lane=lane or "",
                cursor=packed_names(place),
                limit=limit - len(found),
                looks=LOOKS,
            )
            found += rows
            if not place or len(found) >= limit:
                break
        return SequencesPage(found, cursor_text("sequences", place))
