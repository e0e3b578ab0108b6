"""The scripts as typed functions, one stub per file in `rota/lua`. Contracts stand in the files.

Each returns a `Call`; an operation of `store` or `inspector` yields it.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from typing import cast

from rota.keys import Keys
from rota.limits import Rate, Template
from rota.listing import SequenceInfo, SequenceState
from rota.model import Answer, Claimed, DeadAnswer, Exchanged, LaneInfo, QueueInfo, read_note
from rota.scripting import BOUND, LIBRARY, Packed, Reply, Tail, script

MINUTE_MS = 60_000
"""Figures of lanes are kept by the minute."""


def _text(reply: Reply) -> str:
    return cast(bytes, reply).decode()


def _texts(reply: Reply) -> list[str]:
    return [item.decode() for item in reply]


_ANSWERS: dict[bytes, Answer] = {b"ok": "ok", b"settled": "settled", b"lost": "lost"}


def _answers(reply: Reply) -> list[Answer]:
    return [_ANSWERS[answer] for answer in reply]


def _answers_of_dead(reply: Reply) -> list[DeadAnswer]:
    return cast("list[DeadAnswer]", _texts(reply))


def _int(reply: Reply) -> int:
    return int(reply)


def _outcomes(reply: Reply) -> tuple[str, str]:
    return _text(reply[0]), _text(reply[1])


def _due(reply: Reply) -> float | None:
    return None if reply < 0 else reply / 1000


def _exchanged(reply: Reply) -> Exchanged:
    status, now, due, left, answers, ids, records, sizes, attempts, suspects = reply
    return Exchanged(
        status=status.decode(),
        now=now,
        due=_due(due),
        left=bool(left),
        answers=_answers(answers) if answers else [],
        entries=_entries(ids, records, sizes, attempts, suspects) if ids else [],
    )


def _entries(
    ids: Reply, records: Reply, sizes: Reply, attempts: Reply, suspects: Reply
) -> list[list[Claimed]]:
    if attempts:
        jobs = [
            Claimed(id.decode(), record, int(tried or 0), bool(died))
            for id, record, tried, died in zip(ids, records, attempts, suspects, strict=True)
        ]
    else:
        jobs = [
            Claimed(id.decode(), record, 0, False) for id, record in zip(ids, records, strict=True)
        ]
    if not sizes:
        return [[job] for job in jobs]
    entries, start = [], 0
    for size in sizes:
        entries.append(jobs[start : start + size])
        start += size
    return entries


def _beat(reply: Reply) -> tuple[bool, float | None, int, bool]:
    more, due, reaped, asked = reply
    return bool(more), _due(due), reaped, bool(asked)


def _asked(reply: Reply) -> tuple[int, str, list[tuple[str, str, str]]]:
    after, cursor, rows = reply
    return after, _text(cursor), [cast("tuple[str, str, str]", tuple(_texts(row))) for row in rows]


def _cancelled_page(reply: Reply) -> tuple[str, int]:
    return _text(reply[0]), reply[1]


def _moved(reply: Reply) -> tuple[str, int, int]:
    cursor, moved, left = reply
    return _text(cursor), moved, left


def _changed(reply: Reply) -> tuple[str, int]:
    return _text(reply[0]), reply[1]


def _page_of_held(reply: Reply) -> tuple[str, str, list[tuple[str, str]]]:
    status, cursor, ids, deliveries = reply
    pairs = zip(_texts(ids), _texts(deliveries), strict=True)
    return _text(status), _text(cursor), list(pairs)


def _lane_row(now: int, row: Reply) -> LaneInfo:
    name, waiting, delayed, running, ceiling, weight, paused, blocked, ready, since, *more = row
    backlog, why, pause_end, rate, template, rated, following, served, waited, charged = more
    note = read_note(why)
    return LaneInfo(
        name=name.decode(),
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
        rate=Rate.parse(rate.decode()) if rate else None,
        template=template.decode() if template else None,
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


def _lane_info(reply: Reply) -> LaneInfo:
    return _lane_row(reply[0], reply[1])


def _lanes_page(reply: Reply) -> tuple[str, list[LaneInfo]]:
    now, cursor, rows = reply
    return _text(cursor), [_lane_row(now, row) for row in rows]


def _turns_page(reply: Reply) -> tuple[str, float, list[LaneInfo]]:
    return _text(reply[1]), _window(reply[0]), _lanes_page(reply)[1]


def _queue_info(reply: Reply) -> QueueInfo:
    _, flat, delayed, dead, waiting, ready, paused, consumers, *settings, _ = reply
    default_ceiling, default_weight, ceiling, gate, until = settings
    stats = dict(zip(_texts(flat[::2]), map(int, flat[1::2]), strict=True))
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
        default_ceiling=int(default_ceiling) if default_ceiling else None,
        default_weight=float(default_weight) if default_weight else None,
        ceiling=int(ceiling) if ceiling else None,
        paused=gate != b"",
        pause_reason=note.get("reason"),
        paused_by=note.get("by"),
        paused_until=until / 1000 if until else None,
        totals=stats,
    )


def _templates(reply: Reply) -> dict[str, Template]:
    return {
        name.decode(): Template.parse(text)
        for name, text in zip(reply[::2], reply[1::2], strict=True)
    }


def _raw(reply: Reply) -> Reply:
    return reply


def _listed(reply: Reply) -> tuple[list[str], list[Reply]]:
    return _texts(reply[0]), reply[1]


def _timed(reply: Reply) -> tuple[list[str], list[Reply]]:
    at, member, rows = reply
    return _texts([at, member]) if member else [], rows


def _sequence_row(row: Reply) -> SequenceInfo:
    lane, key, state, waiting, head, holder, jobs, ends, why, head_dead = row
    note = read_note(why) if why else {}
    reason = note.get("reason") or str(note.get("error") or "").strip().rpartition("\n")[2]
    return SequenceInfo(
        lane=lane.decode(),
        ordering_key=key.decode(),
        state=cast(SequenceState, state.decode()),
        waiting=waiting,
        head=head.decode() or None,
        held_by=holder.decode() or None,
        jobs_held=_texts(jobs),
        blocked_until=ends / 1000 if ends else None,
        reason=reason or None,
        head_dead=bool(head_dead),
    )


def _sequence_info(reply: Reply) -> SequenceInfo | None:
    return _sequence_row(reply) if reply else None


def _sequences(reply: Reply) -> tuple[list[str], list[SequenceInfo]]:
    return _texts(reply[0]), [_sequence_row(row) for row in reply[1]]


@script(_outcomes)
def enqueue(
    keys: Keys,
    *,
    nonce: str,
    atomic: bool,
    large: bool,
    distinct: bool,
    jobs: Packed,
    bodies: Tail,
) -> None: ...


@script(_exchanged)
def exchange(
    keys: Keys, *, consumer: str, number: int, want: int, prefetch: int, park: bool, done: Packed
) -> None: ...


@script(_answers)
def settle(keys: Keys, *, consumer: str, entries: Packed) -> None: ...


@script(_beat)
def beat(keys: Keys, *, limit: int, watched_ms: int) -> None: ...


@script(_int)
def join(keys: Keys, *, consumer: str, lease_ms: int, name: str) -> None: ...


@script(_raw)
def heartbeat(keys: Keys, *, lease_ms: int, consumers: Packed) -> None: ...


@script(_raw)
def leave(keys: Keys, *, consumer: str, limit: int) -> None: ...


@script(_text)
def start(keys: Keys, *, consumer: str, id: str, delivery: str) -> None: ...


@script(_page_of_held)
def reconcile_consumer(
    keys: Keys, *, consumer: str, number: int, cursor: str, limit: int
) -> None: ...


@script(_int)
def pass_on(keys: Keys, *, beat_ms: int) -> None: ...


@script(_int)
def lane_set(
    keys: Keys, *, lane: str, ceiling: str, weight: str, rate: str, backlog: str, template: str
) -> None: ...


@script(_int)
def pause(keys: Keys, *, lane: str, until_ms: int, why: str) -> None: ...


@script(_int)
def resume(keys: Keys, *, lane: str) -> None: ...


@script(_int)
def block(keys: Keys, *, lane: str, ms: int, why: str) -> None: ...


@script(_int)
def unblock(keys: Keys, *, lane: str) -> None: ...


@script(_int)
def queue_set(
    keys: Keys,
    *,
    default_ceiling: str,
    default_weight: str,
    ceiling: str,
    dead_max: str,
    dead_age: str,
) -> None: ...


@script(_int)
def template_set(
    keys: Keys, *, name: str, ceiling: str, weight: str, rate: str, backlog: str
) -> None: ...


@script(_int)
def template_drop(keys: Keys, *, name: str) -> None: ...


@script(_templates)
def templates(keys: Keys) -> None: ...


@script(_int)
def gate_shut(keys: Keys, *, until_ms: int, why: str) -> None: ...


@script(_int)
def gate_open(keys: Keys) -> None: ...


@script(_answers_of_dead)
def replay(keys: Keys, *, ids: Packed) -> None: ...


@script(_answers_of_dead)
def discard(keys: Keys, *, ids: Packed) -> None: ...


@script(_raw)
def purge(keys: Keys, *, lane: str, limit: int, total: str) -> None: ...


@script(_text)
def cancel(keys: Keys, *, id: str, by: str) -> None: ...


@script(_cancelled_page)
def cancel_running(
    keys: Keys, *, consumer: str, lane: str, by: str, cursor: str, limit: int
) -> None: ...


@script(_asked)
def asked_page(keys: Keys, *, consumers: Packed, after: int, cursor: str, limit: int) -> None: ...


@script(_moved)
def move(keys: Keys, *, source: str, target: str, cursor: str, limit: int) -> None: ...


@script(_changed)
def reprioritize(keys: Keys, *, lane: str, priority: int, cursor: str, limit: int) -> None: ...


@script(_raw)
def dead_page(
    keys: Keys, *, after_at: str, after_id: str, limit: int, lane: str, task: str
) -> None: ...


@script(_raw)
def consumers_page(keys: Keys, *, cursor: str, limit: int) -> None: ...


@script(_lane_info)
def lane_info(keys: Keys, *, lane: str) -> None: ...


@script(_lanes_page)
def lanes_page(keys: Keys, *, cursor: str, limit: int) -> None: ...


@script(_turns_page)
def turns_page(keys: Keys, *, cursor: str, limit: int) -> None: ...


@script(_queue_info)
def queue_info(keys: Keys) -> None: ...


@script(_raw)
def job_info(keys: Keys, *, id: str) -> None: ...


@script(_listed)
def waiting_page(
    keys: Keys, *, lane: str, task: str, cursor: Packed, limit: int, looks: int
) -> None: ...


@script(_listed)
def running_page(
    keys: Keys, *, lane: str, task: str, cursor: Packed, limit: int, looks: int
) -> None: ...


@script(_timed)
def timed_page(
    keys: Keys,
    *,
    kind: str,
    after_at: str,
    after_member: str,
    lane: str,
    task: str,
    limit: int,
    looks: int,
) -> None: ...


@script(_sequence_info)
def sequence_info(keys: Keys, *, lane: str, key: str) -> None: ...


@script(_sequences)
def sequences_page(keys: Keys, *, lane: str, cursor: Packed, limit: int, looks: int) -> None: ...


@script(_text)
def skip(keys: Keys, *, lane: str, key: str, id: str, by: str) -> None: ...


@script(_text)
def hasten(keys: Keys, *, id: str) -> None: ...


@script(_int)
def order(keys: Keys, *, consumer: str, word: str) -> None: ...


@script(_texts)
def orders_of(keys: Keys, *, consumers: Packed) -> None: ...


@script(_raw)
def explain_job(keys: Keys, *, id: str) -> None: ...


@script(_raw)
def explain_lane(keys: Keys, *, lane: str) -> None: ...


@script(_raw)
def holder_page(keys: Keys, *, id: str, cursor: str, limit: int) -> None: ...


@script(_raw)
def held_page(keys: Keys, *, consumer: str, lane: str, cursor: str, limit: int) -> None: ...


@script(_texts)
def tasks_of(keys: Keys, *, ids: Packed) -> None: ...


@script(_raw)
def audit_page(keys: Keys, *, kind: str, cursor: str, limit: int, names: Tail) -> None: ...


@script(_raw)
def audit_mend(keys: Keys, *, things: Tail) -> None: ...


@script(_raw)
def audit_keys(keys: Keys, *, pattern: str, cursor: str, limit: int) -> None: ...


@script(_raw)
def audit_recount(keys: Keys, *, lane: bytes, first: int, limit: int) -> None: ...


@script(_raw)
def audit_sums(keys: Keys, *, active: bool, cursor: str, limit: int) -> None: ...


def assemble_all() -> dict[str, str]:
    """The full text of every script, as the server is sent it."""
    return {name: LIBRARY.assemble(bound).text for name, bound in BOUND.items()}
