"""Asks for the facts and puts them together. Each method is an operation without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from rota.explain.answer import Explanation, Reason, decisive_first
from rota.explain.facts import Holder, LaneAnswer, LaneFacts, QueueFacts, read_job, read_lane
from rota.explain.holders import find_holder, holders_of
from rota.explain.jobs import job_reasons
from rota.explain.lanes import lane_reasons, queue_reasons, turn_reason
from rota.explain.sequences import sequence_reasons
from rota.explain.words import Words, count, unix
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Operation

LOOKS = 3
"""How often a running job is looked for: it may end, or change hands, meanwhile."""

_STATES = {
    "paused": "paused",
    "stopped": "stopped",
    "blocked": "blocked",
    "out_of_rate": "out of rate",
    "at_ceiling": "at ceiling",
}
"""A lane's own state in words, by the reason that tells it, the first that holds."""


class Explainer:
    """Why the jobs and lanes of one queue are not running.

    With `shell`, how a command line names the queue, what frees them is told as commands, not as
    calls in code.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def job(self, id: str, *, shell: Sequence[str] = ()) -> Operation[Explanation | None]:
        """None where there is no such job: never enqueued, or done."""
        for _ in range(LOOKS):
            answer = read_job((yield from stubs.explain_job(self._keys, id=id)))
            job = answer.job
            if job is None or job.state != "running" or job.consumer is not None:
                break
            consumer = yield from find_holder(self._keys, id)
            if consumer is not None:
                job = msgspec.structs.replace(job, consumer=consumer)
                break
        if job is None:
            return None
        waits = job.state in ("waiting", "delayed")
        holders = yield from self._holders(answer.lane if waits else None)
        words = Words(self._keys.queue, answer.queue.now, shell)
        reasons = decisive_first(job_reasons(words, answer, job, holders))
        return _explanation("job", id, job.state, reasons, answer.queue, answer.lane)

    def lane(self, lane: str, *, shell: Sequence[str] = ()) -> Operation[Explanation]:
        answer = read_lane((yield from stubs.explain_lane(self._keys, lane=lane)))
        holders = yield from self._holders(answer.lane)
        words = Words(self._keys.queue, answer.queue.now, shell)
        reasons = decisive_first(_lane_reasons(words, answer, holders))
        state = _state(answer.lane, reasons)
        return _explanation("lane", lane, state, reasons, answer.queue, answer.lane)

    def _holders(self, lane: LaneFacts | None) -> Operation[list[Holder]]:
        """Who keeps the lane at its ceiling, or in flight although it is stopped."""
        if lane is None or lane.ceiling is None or lane.permits < max(lane.ceiling, 1):
            return []
        return (yield from holders_of(self._keys, lane.name, lane.permits))


def _lane_reasons(words: Words, answer: LaneAnswer, holders: Sequence[Holder]) -> Iterator[Reason]:
    """All that holds at once, in no order. Where nothing waits, nothing waits for a permit."""
    queue, lane = answer.queue, answer.lane
    for reason in (*queue_reasons(words, queue), *lane_reasons(words, queue, lane, holders)):
        if lane.waiting or reason.kind in ("queue_paused", "paused", "stopped", "blocked"):
            yield reason
    for sequence in answer.sequences:
        yield from sequence_reasons(words, sequence, None)
    if answer.ring is not None:
        yield turn_reason(words, queue, lane, answer.ring)
    if not lane.waiting:
        yield _nothing_to_do(words, lane)


def _nothing_to_do(words: Words, lane: LaneFacts) -> Reason:
    running = f"; {count(lane.permits, 'entry is', 'entries are')} running" if lane.permits else ""
    if lane.delayed and lane.next_due is not None:
        delayed = count(lane.delayed, "job is", "jobs are")
        return Reason(
            "delayed",
            f"Nothing waits in lane {lane.name}{running}; {delayed} delayed, the first until "
            f"{words.moment(lane.next_due)}.",
            words.by_itself(lane.next_due),
            unix(lane.next_due),
            {"delayed": lane.delayed, "running": lane.permits},
        )
    return Reason(
        "idle",
        f"Nothing waits in lane {lane.name}{running}.",
        "A job enqueued in it",
        detail={"running": lane.permits},
    )


def _state(lane: LaneFacts, reasons: Sequence[Reason]) -> str:
    kinds = {reason.kind for reason in reasons}
    for kind, state in _STATES.items():
        if kind in kinds and (kind != "stopped" or lane.ceiling == 0):
            return state
    if lane.in_ring:
        return "ready"
    return "held" if lane.waiting else "running" if lane.permits else "idle"


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
