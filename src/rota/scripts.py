"""The scripts as typed functions, one stub per file in `rota/lua`. Contracts stand in the files.

Each returns a `Call`; an operation of `store` or `inspector` yields it.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from typing import cast

from rota.keys import Keys
from rota.model import Answer, Claimed, DeadAnswer, Exchanged, LaneInfo, QueueInfo, read_note
from rota.scripting import BOUND, LIBRARY, Packed, Reply, Tail, script


def _text(reply: Reply) -> str:
    return cast(bytes, reply).decode()


def _texts(reply: Reply) -> list[str]:
    return [item.decode() for item in reply]


def _answers(reply: Reply) -> list[Answer]:
    return cast("list[Answer]", _texts(reply))


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


def _beat(reply: Reply) -> tuple[bool, float | None, int]:
    more, due, reaped = reply
    return bool(more), _due(due), reaped


def _page_of_held(reply: Reply) -> tuple[str, str, list[tuple[str, str]]]:
    status, cursor, ids, deliveries = reply
    pairs = zip(_texts(ids), _texts(deliveries), strict=True)
    return _text(status), _text(cursor), list(pairs)


def _lane_row(now: int, row: Reply) -> LaneInfo:
    name, waiting, delayed, running, ceiling, weight, paused, blocked, ready, since, *more = row
    backlog, why, pause_end = more
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
        oldest_wait=max(0, now - since) / 1000 if since else None,
        backlog=int(backlog) if backlog else None,
        pause_reason=note.get("reason"),
        paused_by=note.get("by"),
        paused_until=pause_end / 1000 if pause_end else None,
    )


def _lane_info(reply: Reply) -> LaneInfo:
    return _lane_row(reply[0], reply[1])


def _lanes_page(reply: Reply) -> tuple[str, list[LaneInfo]]:
    now, cursor, rows = reply
    return _text(cursor), [_lane_row(now, row) for row in rows]


def _queue_info(reply: Reply) -> QueueInfo:
    _, flat, delayed, dead, waiting, ready, paused, consumers, ceiling, gate, _ = reply
    stats = dict(zip(_texts(flat[::2]), map(int, flat[1::2]), strict=True))
    return QueueInfo(
        waiting=stats.pop("waiting", 0),
        running=stats.pop("running", 0),
        delayed=delayed,
        dead=dead,
        lanes_waiting=waiting,
        lanes_ready=ready,
        lanes_paused=paused,
        consumers=consumers,
        default_ceiling=int(ceiling) if ceiling else None,
        paused=gate != b"",
        totals=stats,
    )


def _raw(reply: Reply) -> Reply:
    return reply


@script(_outcomes)
def enqueue(
    keys: Keys, *, nonce: str, atomic: bool, large: bool, jobs: Packed, bodies: Tail
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
def lane_set(keys: Keys, *, lane: str, ceiling: str, weight: str, backlog: str) -> None: ...


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
    keys: Keys, *, default_ceiling: str, dead_max: str, dead_age: str, paused: str
) -> None: ...


@script(_answers_of_dead)
def replay(keys: Keys, *, ids: Packed) -> None: ...


@script(_answers_of_dead)
def discard(keys: Keys, *, ids: Packed) -> None: ...


@script(_raw)
def purge(keys: Keys, *, lane: str, limit: int) -> None: ...


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


@script(_queue_info)
def queue_info(keys: Keys) -> None: ...


@script(_raw)
def job_info(keys: Keys, *, id: str) -> None: ...


def assemble_all() -> dict[str, str]:
    """The full text of every script, as the server is sent it."""
    return {name: LIBRARY.assemble(bound).text for name, bound in BOUND.items()}
