"""Asks for the facts and puts them together, as operations without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from rota.explain.explanation import Explanation, Reason, decisive_first
from rota.explain.facts import (
    ConsumerFacts,
    Holder,
    LaneCase,
    LaneFacts,
    QueueFacts,
    read_job,
    read_lane,
)
from rota.explain.jobs import job_reasons, sequence_reasons
from rota.explain.lanes import idle_reason, lane_reasons, queue_reasons, turn_reason
from rota.explain.words import Words
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Operation, Packed, together
from rota.script.replies import Held
from rota.values.names import text_of

LOOKS = 3
"""How often a running job is looked for: it may end, or change hands, meanwhile."""
LOOKED_AT = 1000
"""Consumers a page that are asked for one job."""
LISTED = 250
"""Consumers a page that tell what they hold, which is more work."""
JOBS = 1000
"""Jobs of one consumer looked at by one call."""
AT_ONCE = 50
"""Consumers asked together."""
MOST_HOLDERS = 20


def explain_job(keys: Keys, id: str, *, shell: Sequence[str] = ()) -> Operation[Explanation | None]:
    """Why a job is not running; None where there is none: never enqueued, or done.

    With `shell`, how a command line names the queue, what frees it is told as commands, not as
    calls in code.
    """
    for _ in range(LOOKS):
        case = read_job((yield from stubs.explain_job(keys, id=id)))
        job = case.job
        if job is None or job.state != "running" or job.consumer is not None:
            break
        consumer = yield from _find_holder(keys, id)
        if consumer is not None:
            job = msgspec.structs.replace(job, consumer=consumer)
            break
    if job is None:
        return None
    waits = job.state in ("waiting", "delayed")
    holders = yield from _holders_of(keys, case.lane if waits else None)
    words = Words(keys.queue, case.queue.now, shell)
    reasons = decisive_first(job_reasons(words, case, job, holders))
    return _explanation("job", id, job.state, reasons, case.queue, case.lane)


def explain_lane(keys: Keys, lane: str, *, shell: Sequence[str] = ()) -> Operation[Explanation]:
    """Why a lane is not served; `shell` as of a job."""
    case = read_lane((yield from stubs.explain_lane(keys, lane=lane)))
    holders = yield from _holders_of(keys, case.lane)
    words = Words(keys.queue, case.queue.now, shell)
    reasons = decisive_first(_lane_reasons(words, case, holders))
    return _explanation("lane", lane, case.lane.state, reasons, case.queue, case.lane)


def _lane_reasons(words: Words, case: LaneCase, holders: Sequence[Holder]) -> Iterator[Reason]:
    """All that holds at once, in no order. Where nothing waits, nothing waits for a permit."""
    queue, lane = case.queue, case.lane
    for reason in (*queue_reasons(words, queue), *lane_reasons(words, queue, lane, holders)):
        if lane.waiting or reason.kind in (
            "queue_sealed",
            "queue_paused",
            "paused",
            "stopped",
            "blocked",
        ):
            yield reason
    for sequence in case.sequences:
        yield from sequence_reasons(words, sequence, None)
    if case.ring is not None:
        yield turn_reason(words, queue, lane, case.ring)
    if not lane.waiting:
        yield idle_reason(words, lane)


def _explanation(
    kind: Literal["job", "lane"],
    subject: str,
    state: str,
    reasons: tuple[Reason, ...],
    queue: QueueFacts,
    lane: LaneFacts | None,
) -> Explanation:
    turn = next((reason.detail for reason in reasons if reason.kind == "turn"), None)
    waits = lane is not None and lane.since is not None
    return Explanation(
        kind=kind,
        subject=subject,
        lane=lane.name if lane else None,
        state=state,
        reasons=reasons,
        expected_turn=turn["expected_turn"] if turn else None,
        exact=bool(turn and turn["exact"]),
        waiting=lane.waiting if lane else 0,
        delayed=lane.delayed if lane else 0,
        running=lane.permits if lane else 0,
        oldest_wait=max(0.0, queue.now - (lane.since or 0)) / 1000 if waits and lane else None,
        at=queue.now / 1000,
    )


# ── holders: asked of the consumers, in pages ───────────────────────────────────────────────────


def _find_holder(keys: Keys, id: str) -> Operation[ConsumerFacts | None]:
    """The consumer that holds a running job; None where none does any more."""
    cursor = "0"
    while True:
        cursor, found = yield from stubs.holder_page(keys, id=id, cursor=cursor, limit=LOOKED_AT)
        if found is not None:
            return ConsumerFacts(*found)
        if cursor == "0":
            return None


def _holders_of(keys: Keys, lane: LaneFacts | None) -> Operation[list[Holder]]:
    """Who keeps the lane at its ceiling, or in flight although it is stopped: holders of its
    permits, at most 20, found while things move on."""
    if lane is None or lane.ceiling is None or lane.permits < max(lane.ceiling, 1):
        return []
    found: list[Holder] = []
    wanted, cursor = min(lane.permits, MOST_HOLDERS), "0"
    while True:
        cursor, page = yield from stubs.consumers_page(keys, cursor=cursor, limit=LISTED)
        busy = [(one.id, one.name) for one in page if one.held]
        for start in range(0, len(busy), AT_ONCE):
            if len(found) < wanted:
                found += yield from _held_by(keys, lane.name, busy[start : start + AT_ONCE], wanted)
        if cursor == "0" or len(found) >= wanted:
            return (yield from _with_tasks(keys, found[:MOST_HOLDERS]))


def _held_by(
    keys: Keys, lane: str, consumers: Sequence[tuple[str, str]], wanted: int
) -> Operation[list[Holder]]:
    """What these consumers hold of the lane, read in turns until there is enough of it."""
    names = dict(consumers)
    held: dict[str, list[Held]] = {id: [] for id in names}
    cursors = dict.fromkeys(names, "0")
    while cursors and sum(map(len, held.values())) < wanted:
        pages = yield from together(
            [
                stubs.held_page(keys, consumer=id, lane=lane, cursor=cursor, limit=JOBS)
                for id, cursor in cursors.items()
            ]
        )
        for id, (cursor, found) in zip(list(cursors), pages, strict=True):
            held[id] += found
            cursors[id] = cursor
        cursors = {id: cursor for id, cursor in cursors.items() if cursor != "0"}
    return [one for id, jobs in held.items() for one in _entries(id, names[id], jobs)]


def _entries(consumer: str, name: str, held: Sequence[Held]) -> list[Holder]:
    """One holder an entry: jobs of a sequence are one, named by the first of them."""
    entries: dict[bytes, list[tuple[float, str]]] = {}
    for id, delivery in sorted(held):
        _, score, _, home = delivery.split(b",", 3)
        length, _, rest = home.partition(b":")
        is_sequence = len(rest) > int(length)
        entries.setdefault(home if is_sequence else b"!" + id, []).append(
            (float(score), text_of(id))
        )
    return [
        Holder(job=min(jobs)[1], task="", consumer=consumer, name=name, behind=len(jobs) - 1)
        for jobs in entries.values()
    ]


def _with_tasks(keys: Keys, holders: list[Holder]) -> Operation[list[Holder]]:
    if not holders:
        return []
    tasks = yield from stubs.tasks_of(keys, ids=Packed([one.job for one in holders]))
    return [
        msgspec.structs.replace(one, task=task) for one, task in zip(holders, tasks, strict=True)
    ]
