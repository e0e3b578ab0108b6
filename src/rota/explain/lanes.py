"""What keeps a lane from being served, in sentences: the queue's own state, and the lane's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rota.explain.explanation import Reason, ReasonKind
from rota.explain.facts import Holder, LaneFacts, QueueFacts, RingFacts
from rota.explain.turns import expected_turn
from rota.explain.words import Words, count, note_of, plain, unix

SHOWN_HOLDERS = 3
"""Holders named in a sentence; the detail has them all."""


def queue_reasons(words: Words, queue: QueueFacts) -> Iterator[Reason]:
    """What keeps every lane of the queue from being served."""
    if queue.sealed is not None:
        yield Reason(
            "queue_sealed",
            f"The whole queue is sealed, as it moves to {plain(queue.sealed)}: what runs ends, "
            "nothing starts.",
            "The end of its move",
            detail={"to": queue.sealed},
        )
    if queue.paused is not None:
        paused, until = "The whole queue is paused", queue.paused_until
        yield _shut(words, "queue_paused", paused, queue.paused, until, words.resume_queue())
    if queue.ceiling == 0:
        yield Reason(
            "stopped",
            "The whole queue is stopped: its ceiling is 0.",
            "await queue.set(ceiling=…) with a number above 0, or None",
            detail={"ceiling": 0, "ceiling_from": "queue_ceiling"},
        )
    elif queue.ceiling is not None and queue.permits >= queue.ceiling:
        yield Reason(
            "queue_at_ceiling",
            f"The whole queue is at its ceiling: {count(queue.permits, 'permit')} of "
            f"{queue.ceiling:,} are held.",
            "The end of any job that runs; or await queue.set(ceiling=…) with more",
            detail={"permits": queue.permits, "ceiling": queue.ceiling},
        )
    if queue.consumers == 0:
        yield Reason(
            "no_worker",
            "No worker is alive: no consumer of this queue has a lease.",
            f"Start a worker: rota worker module:queue, with the queue {words.queue}",
            detail={"consumers": 0},
        )


def lane_reasons(
    words: Words, queue: QueueFacts, lane: LaneFacts, holders: Sequence[Holder]
) -> Iterator[Reason]:
    """What keeps this lane from being served."""
    if lane.paused:
        paused, free = f"Lane {lane.name} is paused", words.lane_call(lane.name, "resume")
        yield _shut(words, "paused", paused, lane.pause_why, lane.pause_until, free)
    if lane.ceiling == 0:
        yield Reason(
            "stopped",
            f"Lane {lane.name} is stopped: its ceiling is 0{_source(lane.ceiling_from, lane)}"
            + (
                f"; {count(lane.permits, 'entry is', 'entries are')} still in flight."
                if lane.permits
                else "."
            ),
            _raise_ceiling(words, lane),
            detail=_ceiling_detail(lane, holders),
        )
    elif lane.ceiling is not None and lane.permits >= lane.ceiling:
        yield Reason(
            "at_ceiling",
            f"Lane {lane.name} is at its ceiling: {count(lane.permits, 'permit')} of "
            f"{lane.ceiling:,}{_source(lane.ceiling_from, lane)} "
            f"{'is' if lane.permits == 1 else 'are'} held{_who(lane.permits, holders)}.",
            f"The end of any of these jobs; or {_raise_ceiling(words, lane)}",
            detail=_ceiling_detail(lane, holders),
        )
    if lane.block_until is not None:
        blocked, free = f"Lane {lane.name} is blocked", words.lane_call(lane.name, "unblock")
        yield _shut(words, "blocked", blocked, lane.block_why, lane.block_until, free)
    if lane.rate_until is not None:
        yield _out_of_rate(words, lane)
    if _is_lost(lane):
        yield _not_in_ring(words, queue, lane)


def _shut(
    words: Words, kind: ReasonKind, what: str, why: str | None, until: float | None, free: str
) -> Reason:
    """A pause or a block: by whom and why, as its note says, and what ends it before its end."""
    note = note_of(why)
    return Reason(
        kind,
        f"{what}{words.why(note)}{words.until(until)}.",
        free if until is None else words.sooner(until, free),
        unix(until),
        {
            "reason": note.get("reason") or note.get("error"),
            "by": note.get("by"),
            "since": unix(note.get("at")),
        },
    )


def _out_of_rate(words: Words, lane: LaneFacts) -> Reason:
    assert lane.rate_until is not None
    rate, detail = "", dict[str, Any]()
    if lane.rate_interval:
        per_second = 1000 / lane.rate_interval
        rate = f" of {per_second:,.6g} a second"
        detail = {"per_second": per_second, "burst": lane.rate_burst, "rate_from": lane.rate_from}
    free = words.set_lane(lane.name, "rate")
    if lane.rate_from == "template":
        free = f"await queue.set_template({lane.template!r}, rate=…)"
    return Reason(
        "out_of_rate",
        f"Lane {lane.name} has used up its rate{rate}{_source(lane.rate_from, lane)}"
        f"{words.until(lane.rate_until)}.",
        words.sooner(lane.rate_until, free),
        unix(lane.rate_until),
        detail,
    )


def _is_lost(lane: LaneFacts) -> bool:
    """Whether it should stand in the ring, and does not."""
    below = lane.ceiling is None or lane.permits < lane.ceiling
    blocked = lane.block_until is not None or lane.rate_until is not None
    return bool(lane.pending) and below and not lane.paused and not blocked and not lane.in_ring


def _not_in_ring(words: Words, queue: QueueFacts, lane: LaneFacts) -> Reason:
    if queue.sweeping:
        return Reason(
            "damaged",
            f"Lane {lane.name} may be served again since a default or a template was changed, "
            "but the change has not reached it yet.",
            "The heartbeat of any worker, which carries the change on",
            detail={"sweeping": True},
        )
    return Reason(
        "damaged",
        f"Lane {lane.name} may be served, but it is not in the rotation: its keys are damaged.",
        words.command("doctor", options=("--repair",)),
        detail={"sweeping": False},
    )


def turn_reason(words: Words, queue: QueueFacts, lane: LaneFacts, ring: RingFacts) -> Reason:
    """How many are served before it; none of them is in its way."""
    turn, exact = expected_turn(lane.name, ring)
    about = "" if exact else "about "
    workers = f"; {count(queue.consumers, 'consumer')} may take it" if queue.consumers else ""
    return Reason(
        "turn",
        f"It waits for its turn behind {count(ring.ahead, 'lane')} in the ring and "
        f"{count(ring.before, 'entry', 'entries')} of lane {lane.name}: "
        f"{about}{turn - 1:,} are handed out before it{workers}.",
        "Its turn, which comes with more free slots; or "
        f"{words.set_lane(lane.name, 'weight')} with more",
        detail={
            "lanes_before": ring.ahead,
            "entries_before": ring.before,
            "expected_turn": turn,
            "exact": exact,
            "weight": lane.weight,
            "consumers": queue.consumers,
        },
    )


def idle_reason(words: Words, lane: LaneFacts) -> Reason:
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


def _source(source: str | None, lane: LaneFacts) -> str:
    match source:
        case "lane":
            return " (its own)"
        case "template":
            return f" (from template {lane.template})"
        case "queue":
            return " (the queue's default)"
        case _:
            return ""


def _raise_ceiling(words: Words, lane: LaneFacts) -> str:
    match lane.ceiling_from:
        case "template":
            return f"await queue.set_template({lane.template!r}, ceiling=…) with more"
        case "queue":
            return "await queue.set(default_ceiling=…) with more"
        case _:
            return f"{words.set_lane(lane.name, 'ceiling')} with more"


def _who(permits: int, holders: Sequence[Holder]) -> str:
    if not holders:
        return ""
    named = [f"{one.job} on {one.name or one.consumer}" for one in holders[:SHOWN_HOLDERS]]
    more = permits - len(named)
    return f", by {', '.join(named)}" + (f" and {more:,} more" if more > 0 else "")


def _ceiling_detail(lane: LaneFacts, holders: Sequence[Holder]) -> dict[str, Any]:
    return {
        "permits": lane.permits,
        "ceiling": lane.ceiling,
        "ceiling_from": lane.ceiling_from,
        "template": lane.template if lane.ceiling_from == "template" else None,
        "holders": [msgspec.structs.asdict(holder) for holder in holders],
    }
