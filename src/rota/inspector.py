"""What reads a queue, bounded. Each method is an operation without I/O."""

from __future__ import annotations

from heapq import nsmallest
from typing import cast, get_args

from rota import config, scripts
from rota.errors import ConfigError, PayloadError
from rota.keys import Keys
from rota.model import (
    ConsumerInfo,
    Header,
    JobInfo,
    JobState,
    LaneInfo,
    LaneOrder,
    QueueInfo,
    Record,
    parse_record,
    read_note,
)
from rota.names import shown
from rota.scripting import Operation

PAGE = 200
LANES_PAGE = 100
"""Lanes in a call, each with all its figures: some milliseconds of the server's time."""
MAX_LANES = 1_000_000


class Inspector:
    """The read side of one queue."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def queue(self) -> Operation[QueueInfo]:
        return (yield from scripts.queue_info(self._keys))

    def lane(self, lane: str) -> Operation[LaneInfo]:
        return (yield from scripts.lane_info(self._keys, lane=lane))

    def lanes_page(self, cursor: str) -> Operation[tuple[str, list[LaneInfo]]]:
        """One page of lanes; the cursor is '' at the start and after the last page."""
        return (yield from scripts.lanes_page(self._keys, cursor=cursor, limit=LANES_PAGE))

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
                cursor, _, rows = yield from scripts.turns_page(
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
            now, after, rows = yield from scripts.consumers_page(
                self._keys, cursor=cursor, limit=PAGE
            )
            cursor = after.decode()
            for id, deadline, name, held in rows:
                left = max(0, deadline - now) / 1000
                found[id.decode()] = ConsumerInfo(id.decode(), name.decode(), left, held)
            if cursor == "0" or len(found) >= limit:
                return list(found.values())[:limit]

    def job(self, id: str) -> Operation[JobInfo | None]:
        """A job as it stands, or None where there is none: unknown, or done."""
        _, state, record, attempts, deaths, error, due = yield from scripts.job_info(
            self._keys, id=id
        )
        if state == b"none":
            return None
        try:
            read = parse_record(record)
        except PayloadError:
            read = Record(Header("", ""), 0, 0.0, record)
        return JobInfo(
            id=id,
            state=cast(JobState, state.decode()),
            task=read.header.task,
            lane=read.header.lane,
            ordering_key=read.header.key,
            priority=read.header.priority,
            enqueued_at=read.enqueued_at,
            payload=read.payload,
            attempts=attempts,
            deaths=deaths,
            error=str(read_note(error).get("error") or "") or None,
            due=due / 1000 if due else None,
        )
