"""Dead jobs: read, put back, deleted. Each method is an operation without I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.errors import PayloadError
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Call, Operation, Packed, Reply
from rota.values.jobspec import Header
from rota.values.model import DeadAnswer, DeadJob, Record, parse_record, read_note
from rota.values.names import text_of

PAGE = 200

Cursor = tuple[bytes, bytes]
"""When a dead job died, and its id: where to go on. Both are empty at the start and the end."""
START: Cursor = (b"", b"")


class Dead:
    """The dead jobs of one queue."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def page(
        self, after: Cursor, *, lane: str | None, task: str | None, limit: int = PAGE
    ) -> Operation[tuple[Cursor, list[DeadJob]]]:
        """Looks at `limit` jobs, oldest first, and returns those of the lane and task.

        A page may be empty before the last; the cursor is START again after the last.
        """
        cursor, jobs, _ = yield from self._page(after, lane, task, limit)
        return cursor, jobs

    def _page(
        self, after: Cursor, lane: str | None, task: str | None, limit: int
    ) -> Operation[tuple[Cursor, list[DeadJob], float]]:
        """With the server's time, in Unix seconds."""
        at, id, rows, now = yield from stubs.dead_page(
            self._keys,
            after_at=after[0],
            after_id=after[1],
            limit=limit,
            lane=lane or "",
            task=task or "",
        )
        return (at, id), [_dead_job(row) for row in rows], now / 1000

    def first(self, *, lane: str | None, task: str | None, limit: int) -> Operation[list[DeadJob]]:
        """The first `limit` dead jobs of the lane and task, oldest first."""
        found: list[DeadJob] = []
        cursor = START
        while True:
            cursor, jobs = yield from self.page(cursor, lane=lane, task=task)
            found += jobs
            if cursor == START or len(found) >= limit:
                return found[:limit]

    def replay(self, ids: Sequence[str]) -> Operation[list[DeadAnswer]]:
        return (yield from self._each(stubs.replay, ids))

    def discard(self, ids: Sequence[str]) -> Operation[list[DeadAnswer]]:
        return (yield from self._each(stubs.discard, ids))

    def replay_where(self, *, lane: str | None, task: str | None) -> Operation[int]:
        """Page by page; each page is done when it is answered. Returns how many were replayed."""
        return (yield from self._where(stubs.replay, lane, task))

    def discard_where(self, *, lane: str | None, task: str | None) -> Operation[int]:
        return (yield from self._where(stubs.discard, lane, task))

    def _each(
        self, call: Callable[..., Call[list[DeadAnswer]]], ids: Sequence[str]
    ) -> Operation[list[DeadAnswer]]:
        answers: list[DeadAnswer] = []
        for start in range(0, len(ids), PAGE):
            answers += yield from call(self._keys, ids=Packed(list(ids[start : start + PAGE])))
        return answers

    def _where(
        self, call: Callable[..., Call[list[DeadAnswer]]], lane: str | None, task: str | None
    ) -> Operation[int]:
        """Those that were dead when it began: what a worker buries again meanwhile is left."""
        total, cursor, began = 0, START, 0.0
        while True:
            cursor, jobs, now = yield from self._page(cursor, lane, task, PAGE)
            began = began or now
            ids = [job.id for job in jobs if job.died_at <= began]
            if ids:
                answers = yield from self._each(call, ids)
                total += answers.count("ok")
            if cursor == START or float(cursor[0]) / 1000 > began:
                return total


def _dead_job(row: Reply) -> DeadJob:
    id, died_at, text, attempts, deaths, note = row
    try:
        record = parse_record(text)
    except PayloadError:
        record = Record(Header("", ""), 0, 0.0, text)
    what = read_note(note)
    return DeadJob(
        id=text_of(id),
        died_at=died_at / 1000,
        task=record.header.task,
        lane=record.header.lane,
        ordering_key=record.header.key,
        priority=record.header.priority,
        enqueued_at=record.enqueued_at,
        attempts=attempts,
        deaths=deaths,
        error=str(what.get("error", "")),
        worker=str(what.get("worker", "")),
        payload=record.payload,
    )
