"""What reads a queue, bounded. Each method is an operation without I/O."""

from __future__ import annotations

from typing import cast

from rota import config, scripts
from rota.errors import PayloadError
from rota.keys import Keys
from rota.model import (
    ConsumerInfo,
    Header,
    JobInfo,
    JobState,
    LaneInfo,
    QueueInfo,
    Record,
    parse_record,
    read_note,
)
from rota.scripting import Operation

PAGE = 200
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
        return (yield from scripts.lanes_page(self._keys, cursor=cursor, limit=PAGE))

    def lanes(self, limit: int) -> Operation[list[LaneInfo]]:
        """The first `limit` lanes found, those with work first."""
        config.whole(limit, 1, MAX_LANES, "limit")
        found: dict[str, LaneInfo] = {}
        cursor = ""
        while True:
            cursor, rows = yield from self.lanes_page(cursor)
            found.update((row.name, row) for row in rows)
            if not cursor or len(found) >= limit:
                return list(found.values())[:limit]

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
