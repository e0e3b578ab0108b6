"""What keeps a sequence's jobs from running, in sentences: its head, its own block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rota.explain.answer import Reason
from rota.explain.facts import SequenceFacts
from rota.explain.words import Words, count, note_of, unix

_IN_ORDER = "jobs of a sequence run one after the other"


def sequence_reasons(words: Words, sequence: SequenceFacts, job: str | None) -> Iterator[Reason]:
    """What keeps it out; `job` is the one that asks, None where a lane does."""
    name = f"sequence {sequence.key}" if sequence.key else "this ordered lane"
    if sequence.consumer is not None and sequence.running:
        yield _behind_running(words, name, sequence)
    if sequence.waits_for is not None and sequence.waits_for != job:
        yield _behind_head(words, name, sequence)
    if sequence.block_until is not None:
        note = note_of(sequence.block_why)
        yield Reason(
            "sequence_blocked",
            f"{name[0].upper()}{name[1:]} is blocked"
            f"{words.why(note)}{words.until(sequence.block_until)}.",
            words.by_itself(sequence.block_until),
            unix(sequence.block_until),
            {"ordering_key": sequence.key, "reason": note.get("reason") or note.get("error")},
        )


def _behind_running(words: Words, name: str, sequence: SequenceFacts) -> Reason:
    head, consumer = sequence.running[0], sequence.consumer
    assert consumer is not None
    more = sequence.in_flight - 1
    taken = f", which took {count(more, 'more job')} with it" if more else ""
    gone = consumer.lease is None or consumer.lease <= words.now
    lease = "; that worker's lease has ended, and its jobs are being taken back" if gone else ""
    return Reason(
        "sequence",
        f"Job {head} of {name} runs on {words.consumer(consumer)}{taken}, and {_IN_ORDER}{lease}.",
        f"The end of job {head}; or {words.cancel_job(head)}",
        detail=_detail(sequence, head, "running")
        | {
            "consumer": consumer.id,
            "name": consumer.name,
            "lease_left": None if gone else (consumer.lease or 0) / 1000 - words.now / 1000,
            "in_flight": sequence.in_flight,
        },
    )


def _behind_head(words: Words, name: str, sequence: SequenceFacts) -> Reason:
    head = sequence.waits_for or ""
    if sequence.waits_until is None:
        since = sequence.dead_since
        died = f" died at {words.moment(since)}" if since is not None else " is dead"
        return Reason(
            "sequence",
            f"Job {head}{died} and holds {name}, until someone acts on it.",
            f"{words.command('dead replay', head)}, or {words.command('dead discard', head)}",
            detail=_detail(sequence, head, "dead") | {"since": unix(since)},
        )
    return Reason(
        "sequence",
        f"Job {head}, the head of {name}, failed and waits for its next attempt"
        f"{words.until(sequence.waits_until)}.",
        words.sooner(sequence.waits_until, words.cancel_job(head)),
        unix(sequence.waits_until),
        _detail(sequence, head, "waiting for its retry"),
    )


def behind_waiting(sequence: SequenceFacts, place: int) -> Reason:
    """A job whose sequence may be served, and is not its head."""
    head = sequence.head or ""
    return Reason(
        "sequence",
        f"{count(place, 'job')} of its sequence come first, and {_IN_ORDER}: "
        f"job {head} is the next and waits for its turn."
        if place != 1
        else f"Job {head} of its sequence comes first and waits for its turn, and {_IN_ORDER}.",
        f"The end of job {head}" if place == 1 else f"The end of these {place:,} jobs",
        detail=_detail(sequence, head, "waiting") | {"jobs_before": place},
    )


def _detail(sequence: SequenceFacts, head: str, state: str) -> dict[str, Any]:
    return {"ordering_key": sequence.key, "job": head, "state": state}
