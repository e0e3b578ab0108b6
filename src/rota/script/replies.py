"""What scripts answer, read into values: one function for each shape of a reply.

A reply of many fields is declared here once, by name and in order; its Lua says the same order in
a line `-- fields:`, and a test holds the two together.
"""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple, cast

from rota.errors import PayloadError
from rota.script.loader import Reply
from rota.values.failure import headline
from rota.values.jobspec import Header
from rota.values.limits import Rate, Template, stored
from rota.values.listing import Place, SequenceInfo, SequenceState
from rota.values.model import (
    Answer,
    Claimed,
    ConsumerInfo,
    DeadAnswer,
    Exchanged,
    JobInfo,
    JobState,
    LaneInfo,
    QueueInfo,
    Record,
    parse_record,
    read_note,
)
from rota.values.names import text_of

MINUTE_MS = 60_000
"""Figures of lanes are kept by the minute."""


def texts(reply: Reply) -> list[str]:
    return [text_of(item) for item in reply]


_ANSWERS: dict[bytes, Answer] = {
    b"ok": "ok",
    b"settled": "settled",
    b"lost": "lost",
    b"slowed": "slowed",
}


def answers(reply: Reply) -> list[Answer]:
    return [_ANSWERS[answer] for answer in reply]


def answers_of_dead(reply: Reply) -> list[DeadAnswer]:
    return cast("list[DeadAnswer]", texts(reply))


def number(reply: Reply) -> int:
    return int(reply)


def outcomes(reply: Reply) -> tuple[str, str]:
    return text_of(reply[0]), text_of(reply[1])


def _due(reply: Reply) -> float | None:
    return None if reply < 0 else reply / 1000


ExchangeReply = namedtuple(
    "ExchangeReply",
    "status now due left answers ids records sizes attempts suspects",
)


def exchanged(reply: Reply) -> Exchanged:
    said = ExchangeReply._make(reply)
    return Exchanged(
        status=said.status.decode(),
        now=said.now,
        due=_due(said.due),
        left=bool(said.left),
        answers=answers(said.answers),
        entries=_entries(said) if said.ids else [],
    )


def _entries(said: ExchangeReply) -> list[list[Claimed]]:
    if said.attempts:
        columns = zip(said.ids, said.records, said.attempts, said.suspects, strict=True)
        jobs = [
            Claimed(text_of(id), record, int(tried or 0), bool(died))
            for id, record, tried, died in columns
        ]
    else:
        jobs = [
            Claimed(text_of(id), record, 0, False)
            for id, record in zip(said.ids, said.records, strict=True)
        ]
    if not said.sizes:
        return [[job] for job in jobs]
    entries, start = [], 0
    for size in said.sizes:
        entries.append(jobs[start : start + size])
        start += size
    return entries


def beat(reply: Reply) -> tuple[bool, float | None, int, bool]:
    more, due, reaped, asked = reply
    return bool(more), _due(due), reaped, bool(asked)


def asked(reply: Reply) -> tuple[int, str, list[tuple[str, str, str]]]:
    after, cursor, rows = reply
    return after, text_of(cursor), [cast("tuple[str, str, str]", tuple(texts(row))) for row in rows]


def cancelled_page(reply: Reply) -> tuple[str, int]:
    return text_of(reply[0]), reply[1]


def lanes_to_purge(reply: Reply) -> tuple[str, list[str]]:
    return text_of(reply[0]), texts(reply[1])


def page_of_held(reply: Reply) -> tuple[str, str, list[tuple[str, str]]]:
    status, cursor, ids, deliveries = reply
    pairs = zip(texts(ids), texts(deliveries), strict=True)
    return text_of(status), text_of(cursor), list(pairs)


Held = tuple[bytes, bytes]
"""A job's id and its delivery, `number,score,mark,home` (see lua/lib/claim/delivery.lua)."""


def held_of_lane(reply: Reply) -> tuple[str, list[Held]]:
    cursor, ids, deliveries = reply
    return text_of(cursor), list(zip(ids, deliveries, strict=True))


# ── lanes and the queue ─────────────────────────────────────────────────────────────────────────


LaneReply = namedtuple(
    "LaneReply",
    "name waiting delayed running ceiling weight paused blocked in_ring since backlog pause_note "
    "pause_ends rate template rated next_since served waited charged",
)


def lane(now: int, row: Reply) -> LaneInfo:
    said = LaneReply._make(row)
    note = read_note(said.pause_note)
    return LaneInfo(
        name=text_of(said.name),
        waiting=said.waiting,
        delayed=said.delayed,
        running=said.running,
        ceiling=stored(int, said.ceiling),
        weight=float(said.weight),
        paused=bool(said.paused),
        blocked_until=_seconds(said.blocked),
        in_ring=bool(said.in_ring),
        oldest_wait=_since(now, said.since),
        backlog=stored(int, said.backlog),
        pause_reason=note.get("reason"),
        paused_by=note.get("by"),
        paused_until=_seconds(said.pause_ends),
        rate=Rate.parse(text_of(said.rate)) if said.rate else None,
        template=text_of(said.template) or None,
        rated_until=_seconds(said.rated),
        next_wait=_since(now, said.next_since),
        served=said.served,
        wait_mean=said.waited / said.served / 1000 if said.served else None,
        charged=float(said.charged),
        window=_window(now),
    )


def _window(now: int) -> float:
    return (MINUTE_MS + now % MINUTE_MS) / 1000


def _since(now: int, then: int) -> float | None:
    return max(0, now - then) / 1000 if then else None


def _seconds(ms: int) -> float | None:
    """An instant in Unix seconds; None for 0, which is none."""
    return ms / 1000 if ms else None


def lanes_named(reply: Reply) -> list[LaneInfo]:
    now, rows = reply
    return [lane(now, row) for row in rows]


class LanesReply(NamedTuple):
    """A page of lanes; `window`: of their figures, in seconds."""

    place: Place
    lanes: list[LaneInfo]
    window: float


def lanes(reply: Reply) -> LanesReply:
    now, place, rows = reply
    return LanesReply(place, [lane(now, row) for row in rows], _window(now))


QueueReply = namedtuple(
    "QueueReply",
    "stats delayed dead lanes_waiting lanes_ready lanes_paused consumers default_ceiling "
    "default_weight ceiling pause_note pause_ends served beat_age overdue sealed",
)


def queue_info(reply: Reply) -> QueueInfo:
    said = QueueReply._make(reply)
    totals = [stored(int, total) or 0 for total in said.stats[1::2]]
    stats = dict(zip(texts(said.stats[::2]), totals, strict=True))
    note = read_note(said.pause_note) if said.pause_note else {}
    return QueueInfo(
        waiting=stats.pop("waiting", 0),
        running=stats.pop("running", 0),
        permits=stats.pop("permits", 0),
        delayed=said.delayed,
        dead=said.dead,
        lanes_waiting=said.lanes_waiting,
        lanes_ready=said.lanes_ready,
        lanes_paused=said.lanes_paused,
        consumers=said.consumers,
        default_ceiling=stored(int, said.default_ceiling),
        default_weight=stored(float, said.default_weight),
        ceiling=stored(int, said.ceiling),
        paused=said.pause_note != b"",
        pause_reason=note.get("reason"),
        paused_by=note.get("by"),
        paused_until=_seconds(said.pause_ends),
        totals=stats,
        served=said.served,
        beat_age=_due(said.beat_age),
        overdue=said.overdue / 1000,
        sealed=bool(said.sealed),
    )


def templates(reply: Reply) -> dict[str, Template]:
    return {
        text_of(name): Template.parse(text)
        for name, text in zip(reply[::2], reply[1::2], strict=True)
    }


def rights(reply: Reply) -> tuple[list[str], list[str]]:
    return texts(reply[0]), texts(reply[1])


def raw(reply: Reply) -> Reply:
    return reply


# ── consumers ───────────────────────────────────────────────────────────────────────────────────


ConsumerReply = namedtuple("ConsumerReply", "id deadline name held asked")


def consumers(reply: Reply) -> tuple[str, list[ConsumerInfo]]:
    now, cursor, rows = reply
    return text_of(cursor), [_consumer(now, ConsumerReply._make(row)) for row in rows]


def holder(reply: Reply) -> tuple[str, tuple[str, str, float | None] | None]:
    """Id, name, and when its lease ends (ms; None: marked gone) of the one that was found."""
    cursor, rows = reply
    if not rows:
        return text_of(cursor), None
    id, name, ends = rows[0]
    return text_of(cursor), (text_of(id), text_of(name), None if ends < 0 else float(ends))


def _consumer(now: int, said: ConsumerReply) -> ConsumerInfo:
    return ConsumerInfo(
        id=text_of(said.id),
        name=text_of(said.name),
        lease_left=max(0, said.deadline - now) / 1000,
        held=said.held,
        asked=text_of(said.asked) or None,
    )


# ── jobs and sequences ──────────────────────────────────────────────────────────────────────────


JobReply = namedtuple("JobReply", "id record attempts deaths note time worker")


class JobsReply(NamedTuple):
    """A page of jobs; `now` in ms."""

    place: Place
    jobs: list[JobReply]
    now: int


def jobs(reply: Reply) -> JobsReply:
    place, rows, now = reply
    return JobsReply(place, [JobReply._make(row) for row in rows], now)


def job_info(reply: Reply) -> JobInfo | None:
    state, rows = reply
    return job(cast(JobState, text_of(state)), JobReply._make(rows[0])) if rows else None


def job(state: JobState, said: JobReply) -> JobInfo:
    """Where its record is damaged, all the bytes of that are its payload."""
    try:
        record = parse_record(said.record)
    except PayloadError:
        record = Record(Header("", ""), 0, 0.0, said.record)
    note = read_note(said.note)
    last = note.get("worker") if state == "dead" else None
    return JobInfo(
        id=text_of(said.id),
        state=state,
        task=record.header.task,
        lane=record.header.lane,
        ordering_key=record.header.key,
        priority=record.header.priority,
        enqueued_at=record.enqueued_at,
        payload=record.payload,
        attempts=said.attempts,
        deaths=said.deaths,
        error=str(note.get("error") or "") or None,
        due=_seconds(said.time),
        worker=last or text_of(said.worker) or None,
    )


SequenceReply = namedtuple(
    "SequenceReply",
    "lane key state waiting head holder jobs ends note head_dead",
)


def _sequence(row: Reply) -> SequenceInfo:
    said = SequenceReply._make(row)
    note = read_note(said.note) if said.note else {}
    reason = note.get("reason") or headline(str(note.get("error") or ""))
    return SequenceInfo(
        lane=text_of(said.lane),
        ordering_key=text_of(said.key),
        state=cast(SequenceState, text_of(said.state)),
        waiting=said.waiting,
        head=text_of(said.head) or None,
        held_by=text_of(said.holder) or None,
        jobs_held=texts(said.jobs),
        blocked_until=_seconds(said.ends),
        reason=reason or None,
        head_dead=bool(said.head_dead),
    )


def sequence_info(reply: Reply) -> SequenceInfo | None:
    return _sequence(reply) if reply else None


def sequences(reply: Reply) -> tuple[Place, list[SequenceInfo]]:
    return reply[0], [_sequence(row) for row in reply[1]]


# ── findings of the doctor ──────────────────────────────────────────────────────────────────────


FindingReply = namedtuple("FindingReply", "kind subject what mended judge name member")


def _findings(rows: Reply) -> list[FindingReply]:
    return [FindingReply._make(row) for row in rows]


def audited(reply: Reply) -> tuple[int, str, list[FindingReply], list[bytes], list[bytes]]:
    """How many names were looked at, the cursor in the next, findings, notes, what is too large."""
    done, cursor, rows, notes, large = reply
    return done, text_of(cursor), _findings(rows), notes, large


def mended(reply: Reply) -> tuple[list[FindingReply], list[bytes]]:
    """Findings, and the lanes they concern."""
    return _findings(reply[0]), reply[1]
