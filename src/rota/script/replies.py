"""What scripts answer, read into values: one function for each shape of a reply."""

from __future__ import annotations

from typing import cast

from rota.script.loader import Reply
from rota.values.failure import headline
from rota.values.limits import Rate, Template, stored
from rota.values.listing import Place, SequenceInfo, SequenceState
from rota.values.model import Answer, Claimed, DeadAnswer, Exchanged, LaneInfo, QueueInfo, read_note
from rota.values.names import text_of

MINUTE_MS = 60_000
"""Figures of lanes are kept by the minute."""


def text(reply: Reply) -> str:
    return text_of(reply)


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
    return text(reply[0]), text(reply[1])


def _due(reply: Reply) -> float | None:
    return None if reply < 0 else reply / 1000


def exchanged(reply: Reply) -> Exchanged:
    status, now, due, left, words, ids, records, sizes, attempts, suspects = reply
    return Exchanged(
        status=status.decode(),
        now=now,
        due=_due(due),
        left=bool(left),
        answers=answers(words),
        entries=_entries(ids, records, sizes, attempts, suspects) if ids else [],
    )


def _entries(
    ids: Reply, records: Reply, sizes: Reply, attempts: Reply, suspects: Reply
) -> list[list[Claimed]]:
    if attempts:
        jobs = [
            Claimed(text_of(id), record, int(tried or 0), bool(died))
            for id, record, tried, died in zip(ids, records, attempts, suspects, strict=True)
        ]
    else:
        jobs = [
            Claimed(text_of(id), record, 0, False) for id, record in zip(ids, records, strict=True)
        ]
    if not sizes:
        return [[job] for job in jobs]
    entries, start = [], 0
    for size in sizes:
        entries.append(jobs[start : start + size])
        start += size
    return entries


def beat(reply: Reply) -> tuple[bool, float | None, int, bool]:
    more, due, reaped, asked = reply
    return bool(more), _due(due), reaped, bool(asked)


def asked(reply: Reply) -> tuple[int, str, list[tuple[str, str, str]]]:
    after, cursor, rows = reply
    return after, text(cursor), [cast("tuple[str, str, str]", tuple(texts(row))) for row in rows]


def cancelled_page(reply: Reply) -> tuple[str, int]:
    return text(reply[0]), reply[1]


def moved(reply: Reply) -> tuple[bytes, int, int]:
    cursor, moved, left = reply
    return cursor, moved, left


def lanes_to_purge(reply: Reply) -> tuple[str, list[str]]:
    return text(reply[0]), texts(reply[1])


def changed(reply: Reply) -> tuple[bytes, int]:
    return reply[0], reply[1]


def page_of_held(reply: Reply) -> tuple[str, str, list[tuple[str, str]]]:
    status, cursor, ids, deliveries = reply
    pairs = zip(texts(ids), texts(deliveries), strict=True)
    return text(status), text(cursor), list(pairs)


def lane_row(now: int, row: Reply) -> LaneInfo:
    name, waiting, delayed, running, ceiling, weight, paused, blocked, ready, since, *more = row
    backlog, why, pause_end, rate, template, rated, following, served, waited, charged = more
    note = read_note(why)
    return LaneInfo(
        name=text_of(name),
        waiting=waiting,
        delayed=delayed,
        running=running,
        ceiling=None if ceiling == b"" else int(ceiling),
        weight=float(weight),
        paused=bool(paused),
        blocked_until=blocked / 1000 if blocked else None,
        in_ring=bool(ready),
        oldest_wait=_since(now, since),
        backlog=None if backlog == b"" else int(backlog),
        pause_reason=note.get("reason"),
        paused_by=note.get("by"),
        paused_until=pause_end / 1000 if pause_end else None,
        rate=Rate.parse(text_of(rate)) if rate else None,
        template=text_of(template) if template else None,
        rated_until=rated / 1000 if rated else None,
        next_wait=_since(now, following),
        served=served,
        wait_mean=waited / served / 1000 if served else None,
        charged=float(charged),
        window=_window(now),
    )


def _window(now: int) -> float:
    return (MINUTE_MS + now % MINUTE_MS) / 1000


def _since(now: int, then: int) -> float | None:
    return max(0, now - then) / 1000 if then else None


def lane_info(reply: Reply) -> LaneInfo:
    return lane_row(reply[0], reply[1])


def lanes_page(reply: Reply) -> tuple[str, list[LaneInfo]]:
    now, cursor, rows = reply
    return text(cursor), [lane_row(now, row) for row in rows]


def turns_page(reply: Reply) -> tuple[str, float, list[LaneInfo]]:
    return text(reply[1]), _window(reply[0]), lanes_page(reply)[1]


def queue_info(reply: Reply) -> QueueInfo:
    _, flat, delayed, dead, waiting, ready, paused, consumers, *settings, _ = reply
    default_ceiling, default_weight, ceiling, gate, until = settings
    totals = [stored(int, total) or 0 for total in flat[1::2]]
    stats = dict(zip(texts(flat[::2]), totals, strict=True))
    note = read_note(gate) if gate else {}
    return QueueInfo(
        waiting=stats.pop("waiting", 0),
        running=stats.pop("running", 0),
        permits=stats.pop("permits", 0),
        delayed=delayed,
        dead=dead,
        lanes_waiting=waiting,
        lanes_ready=ready,
        lanes_paused=paused,
        consumers=consumers,
        default_ceiling=stored(int, default_ceiling),
        default_weight=stored(float, default_weight),
        ceiling=stored(int, ceiling),
        paused=gate != b"",
        pause_reason=note.get("reason"),
        paused_by=note.get("by"),
        paused_until=until / 1000 if until else None,
        totals=stats,
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


def listed(reply: Reply) -> tuple[Place, list[Reply]]:
    return reply[0], reply[1]


def timed(reply: Reply) -> tuple[Place, list[Reply]]:
    at, member, rows = reply
    return [at, member] if member else [], rows


def _sequence_row(row: Reply) -> SequenceInfo:
    lane, key, state, waiting, head, holder, jobs, ends, why, head_dead = row
    note = read_note(why) if why else {}
    reason = note.get("reason") or headline(str(note.get("error") or ""))
    return SequenceInfo(
        lane=text_of(lane),
        ordering_key=text_of(key),
        state=cast(SequenceState, state.decode()),
        waiting=waiting,
        head=text_of(head) or None,
        held_by=text_of(holder) or None,
        jobs_held=texts(jobs),
        blocked_until=ends / 1000 if ends else None,
        reason=reason or None,
        head_dead=bool(head_dead),
    )


def sequence_info(reply: Reply) -> SequenceInfo | None:
    return _sequence_row(reply) if reply else None


def sequences(reply: Reply) -> tuple[Place, list[SequenceInfo]]:
    return reply[0], [_sequence_row(row) for row in reply[1]]
