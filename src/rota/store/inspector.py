"""What reads a queue, bounded. Each method is an operation without I/O."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import cast, get_args

from rota.errors import ConfigError, Unavailable
from rota.script import stubs
from rota.script.keys import ANY_CONFIG, CATALOGUE, Keys, of_config
from rota.script.loader import Ask, Call, Operation, Reply, Scan, packed_names, together
from rota.values import config
from rota.values.listing import (
    JobsPage,
    Place,
    SequenceInfo,
    SequencesPage,
    cursor_place,
    cursor_text,
    job_info,
    job_state,
)
from rota.values.model import ConsumerInfo, JobInfo, JobState, LaneInfo, LaneOrder, QueueInfo
from rota.values.names import shown, text_of

PAGE = 200
LANES_PAGE = 100
"""Lanes in a call, each with all its figures: some milliseconds of the server's time."""
MAX_LANES = 1_000_000
MAX_LISTED = 200
"""Jobs or sequences on a page of theirs."""
LOOKS = 500
"""What one call for such a page looks at: some milliseconds of the server's time."""
CALLS = 10
"""How many calls a page may take where a filter lets little pass."""
PLACE_PARTS = {"waiting": 5, "running": 4, "delayed": 2, "dead": 2}
SEQUENCE_PLACE_PARTS = 5
PAGE_BYTES = 1 << 21


@dataclass(frozen=True, slots=True)
class Pulse:
    """Signs of life: what could be done now, and whether anyone does it. Times in seconds.

    `served`: jobs handed out so far in the running minute and the one before; `beat_age`: since
    someone kept the queue's time, None: nobody ever did; `overdue`: for how long something has
    been due, 0: nothing is.
    """

    ready: int
    permits: int
    consumers: int
    paused: bool
    served: int
    beat_age: float | None
    overdue: float

    @property
    def could_work(self) -> bool:
        """Work is ready, nothing runs, and there are consumers to do it."""
        return bool(self.ready and self.consumers and not self.permits and not self.paused)


class Inspector:
    """The read side of one queue."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def queue(self) -> Operation[QueueInfo]:
        return (yield from stubs.queue_info(self._keys))

    def exists(self) -> Operation[bool]:
        """Whether anything of the queue is on the server: settings, workers, a job at any time."""
        names = [kind.name for kind in CATALOGUE if kind.parameter is None]
        (count,) = yield Ask(self._keys, (("EXISTS", *map(self._keys.key, names)),))
        if isinstance(count, Exception):
            raise Unavailable(f"the server refused to look for the queue: {count}") from count
        return bool(count)

    def pulse(self) -> Operation[Pulse]:
        """Signs of life, of two moments close together."""
        info = yield from stubs.queue_info(self._keys)
        key = self._keys.key
        now, beat, due, *figures = yield Ask(
            self._keys,
            (
                ("TIME",),
                ("HGET", self._keys.config, "beat"),
                ("ZRANGE", key("scheduled"), "0", "0", "WITHSCORES"),
                *(("HGET", key("figures", str(minute)), "") for minute in _last_minutes()),
            ),
        )
        at = int(now[0]) + int(now[1]) / 1e6
        return Pulse(
            ready=info.lanes_ready,
            permits=info.permits,
            consumers=info.consumers,
            paused=info.paused or info.ceiling == 0,
            served=sum(_jobs_in(text) for text in figures),
            beat_age=None if beat is None else max(0.0, at - int(beat) / 1000),
            overdue=max(0.0, at - float(due[1]) / 1000) if due else 0.0,
        )

    def lane(self, lane: str) -> Operation[LaneInfo]:
        return (yield from stubs.lane_info(self._keys, lane=lane))

    def lanes_named(self, names: Sequence[str]) -> Operation[list[LaneInfo]]:
        """These lanes as they stand, in the order given."""
        found: list[LaneInfo] = []
        for start in range(0, len(names), PAGE):
            part = names[start : start + PAGE]
            calls = [stubs.lane_info(self._keys, lane=lane) for lane in part]
            found += yield from together(calls)
        return found

    def lanes_page(self, cursor: str) -> Operation[tuple[str, list[LaneInfo]]]:
        """One page of lanes; the cursor is '' at the start and after the last page."""
        return (yield from stubs.lanes_page(self._keys, cursor=cursor, limit=LANES_PAGE))

    def lanes(self, limit: int, by: LaneOrder | None = None) -> Operation[list[LaneInfo]]:
        """The first `limit` lanes found, those with work first; or the highest `by` of all."""
        config.whole(limit, 1, MAX_LANES, "limit")
        if by is not None:
            return (yield from self._highest(limit, by))
        found: dict[str, LaneInfo] = {}
        cursor = ""
        while True:
            cursor, rows = yield from self.lanes_page(cursor)
            found.update((row.name, row) for row in rows)
            if not cursor or len(found) >= limit:
                return list(found.values())[:limit]

    def _highest(self, limit: int, by: LaneOrder) -> Operation[list[LaneInfo]]:
        """Keeps at most twice as many lanes as are asked for, whatever their number."""
        if by not in get_args(LaneOrder):
            known = ", ".join(get_args(LaneOrder))
            raise ConfigError(f"by: expected None or one of {known}, given {shown(by)}")
        found: dict[str, LaneInfo] = {}
        cursor = ""
        while True:
            if by == "served":
                cursor, _, rows = yield from stubs.turns_page(
                    self._keys, cursor=cursor, limit=LANES_PAGE
                )
            else:
                cursor, rows = yield from self.lanes_page(cursor)
            found.update((row.name, row) for row in rows)
            if not cursor or len(found) >= 2 * limit + PAGE:
                best = nsmallest(limit, found.values(), key=lambda row: (-row.rank(by), row.name))
                found = {row.name: row for row in best}
            if not cursor:
                return list(found.values())

    def consumers(self, limit: int) -> Operation[list[ConsumerInfo]]:
        """The first `limit` consumers found, those whose jobs are being taken back included."""
        config.whole(limit, 1, MAX_LANES, "limit")
        found: dict[str, ConsumerInfo] = {}
        cursor = "0"
        while True:
            now, after, rows = yield from stubs.consumers_page(
                self._keys, cursor=cursor, limit=PAGE
            )
            cursor = after.decode()
            for id, deadline, name, held, asked in rows:
                found[text_of(id)] = ConsumerInfo(
                    id=text_of(id),
                    name=text_of(name),
                    lease_left=max(0, deadline - now) / 1000,
                    held=held,
                    asked=text_of(asked) or None,
                )
            if cursor == "0" or len(found) >= limit:
                return list(found.values())[:limit]

    def job(self, id: str) -> Operation[JobInfo | None]:
        """A job as it stands, or None where there is none: unknown, or done."""
        _, state, record, attempts, deaths, error, due = yield from stubs.job_info(
            self._keys, id=id
        )
        if state == b"none":
            return None
        known = cast(JobState, state.decode())
        return job_info(id, known, record, attempts, deaths, error, due)

    def jobs(
        self,
        state: object,
        *,
        lane: str | None,
        task: str | None,
        cursor: str | None,
        limit: int,
    ) -> Operation[JobsPage]:
        """A page of the jobs in a state, of a lane and task or any; those waiting need a lane."""
        known = job_state(state)
        config.whole(limit, 1, MAX_LISTED, "limit")
        if known == "waiting" and lane is None:
            raise ConfigError("lane: expected the lane whose waiting jobs to list, given None")
        place, found = cursor_place(cursor, PLACE_PARTS[known]), list[JobInfo]()
        for _ in range(CALLS):
            call = self._jobs_call(known, lane or "", task or "", place, limit - len(found))
            place, rows = yield from call
            found += [_job(known, row) for row in rows]
            if not place or len(found) >= limit or sum(len(j.payload) for j in found) > PAGE_BYTES:
                break
        return JobsPage(found, cursor_text(place))

    def _jobs_call(
        self, state: JobState, lane: str, task: str, place: Place, limit: int
    ) -> Call[tuple[Place, list[Reply]]]:
        if state in ("waiting", "running"):
            page = stubs.waiting_page if state == "waiting" else stubs.running_page
            return page(
                self._keys,
                lane=lane,
                task=task,
                cursor=packed_names(place),
                limit=limit,
                looks=LOOKS,
            )
        at, member = place or (b"", b"")
        return stubs.timed_page(
            self._keys,
            kind=state,
            after_at=at,
            after_member=member,
            lane=lane,
            task=task,
            limit=limit,
            looks=LOOKS,
        )

    def sequence(self, lane: str, key: str) -> Operation[SequenceInfo | None]:
        """A sequence as it stands; None where there is nothing of it."""
        return (yield from stubs.sequence_info(self._keys, lane=lane, key=key))

    def sequences(
        self, *, lane: str | None, cursor: str | None, limit: int
    ) -> Operation[SequencesPage]:
        """A page of the sequences of a lane, or of all, those that are out first."""
        config.whole(limit, 1, MAX_LISTED, "limit")
        place, found = cursor_place(cursor, SEQUENCE_PLACE_PARTS), list[SequenceInfo]()
        for _ in range(CALLS):
            place, rows = yield from stubs.sequences_page(
                self._keys,
                lane=lane or "",
                cursor=packed_names(place),
                limit=limit - len(found),
                looks=LOOKS,
            )
            found += rows
            if not place or len(found) >= limit:
                break
        return SequencesPage(found, cursor_text(place))


def find_queues(cursor: str) -> Operation[tuple[str, list[Keys]]]:
    """A page of a look through all keys of a server for queues; each comes once or more often.

    The cursor is '' at the start and after the last page.
    """
    after, keys = yield Scan(ANY_CONFIG, cursor)
    found = (of_config(text_of(key)) for key in keys)
    return after, [queue for queue in found if queue is not None]


def _jobs_in(figures: bytes | None) -> int:
    """The first of the doubles that `lua/lib/figures.lua` keeps; damage counts as nothing."""
    if figures is None or len(figures) < 8:
        return 0
    (jobs,) = struct.unpack_from("<d", figures)
    return int(jobs) if math.isfinite(jobs) else 0


def _last_minutes() -> tuple[int, ...]:
    """By this machine's clock, with one more for a server's that goes before."""
    minute = int(time.time() // 60)
    return minute - 1, minute, minute + 1


def _job(state: JobState, row: Reply) -> JobInfo:
    id, record, attempts, deaths, note, due, worker = row
    return job_info(text_of(id), state, record, attempts, deaths, note, due, worker)
