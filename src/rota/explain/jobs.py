"""Where a job stands and what keeps it there, in sentences: its own state, its sequence's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rota.explain.explanation import Reason
from rota.explain.facts import ConsumerFacts, Holder, JobCase, JobFacts, SequenceFacts
from rota.explain.lanes import lane_reasons, queue_reasons, turn_reason
from rota.explain.words import Words, count, headline_of, note_of, unix

_IN_ORDER = "jobs of a sequence run one after the other"


def job_reasons(
    words: Words, case: JobCase, job: JobFacts, holders: Sequence[Holder]
) -> Iterator[Reason]:
    """All that holds at once, in no order. `job.consumer` has been looked up where it runs."""
    if job.state == "dead":
        yield _dead(words, case, job)
        return
    if job.state == "running":
        yield _running(words, job)
        return
    if job.state == "delayed":
        yield _delayed(words, job, job.due or 0)
    yield from queue_reasons(words, case.queue)
    if case.lane is not None:
        yield from lane_reasons(words, case.queue, case.lane, holders)
    if job.state == "waiting":
        yield from _waiting(words, case, job)


def _waiting(words: Words, case: JobCase, job: JobFacts) -> Iterator[Reason]:
    sequence, lane, ring = case.sequence, case.lane, case.ring
    if lane is None:
        yield _unreadable(words, job)
    if sequence is not None:
        if sequence.waits_for == job.id and sequence.waits_until is not None:
            yield _delayed(words, job, sequence.waits_until)
        yield from sequence_reasons(words, sequence, job.id)
        if job.rank is not None and job.place:
            yield behind_waiting(sequence, job.place)
    if lane is not None and ring is not None:
        yield turn_reason(words, case.queue, lane, ring)


def _unreadable(words: Words, job: JobFacts) -> Reason:
    return Reason(
        "damaged",
        "Its record is broken: it tells no lane, so where it waits cannot be told.",
        "Its turn, at which it goes to the dead with its bytes; "
        f"or {words.command('doctor', options=('--repair',))}",
        detail={"task": job.task},
    )


def _dead(words: Words, case: JobCase, job: JobFacts) -> Reason:
    note = note_of(job.note)
    holds = case.sequence is not None and case.sequence.waits_for == job.id
    error = headline_of(note.get("error") or "")
    return Reason(
        "dead",
        f"It gave up at {words.moment(job.dead_since or 0)} after "
        f"{count(job.attempts, 'failed attempt')}"
        + (f" and {count(job.deaths, 'lost worker')}" if job.deaths else "")
        + (f": {error}" if error else "")
        + (", and holds its sequence until someone acts on it." if holds else "."),
        f"{words.command('dead replay', job.id)}, or {words.command('dead discard', job.id)}",
        detail={
            "since": unix(job.dead_since),
            "error": note.get("error"),
            "worker": note.get("worker"),
            "attempts": job.attempts,
            "deaths": job.deaths,
            "holds_sequence": holds,
        },
    )


def _delayed(words: Words, job: JobFacts, due: float) -> Reason:
    note = note_of(job.note)
    what = "It is delayed"
    if job.attempts:
        what = f"It failed {count(job.attempts, 'time')} and waits for its next attempt"
    error = headline_of(note.get("error") or "")
    what += f" ({error})" if error else ""
    return Reason(
        "delayed",
        f"{what}{words.until(due)}.",
        words.by_itself(due),
        unix(due),
        {"attempts": job.attempts, "error": note.get("error")},
    )


def _running(words: Words, job: JobFacts) -> Reason:
    asked = note_of(job.cancelled) if job.cancelled is not None else None
    cancel = words.cancel_job(job.id)
    if job.consumer is None:
        return Reason(
            "running",
            "It has been handed out, or is ending just now: no consumer was seen to hold it.",
            f"Its own end; ask again, or {words.command('doctor')} if this stays so",
            detail={"consumer": None, "cancel_asked": asked},
        )
    return Reason(
        "running",
        f"{_where(words, job, job.consumer)}."
        + (f" Its cancellation was asked for{words.why(asked)}." if asked is not None else ""),
        "Its own end" if asked is not None else f"Its own end; or {cancel}",
        detail={
            "consumer": job.consumer.id,
            "name": job.consumer.name,
            "since": None,
            "lease_left": _lease_left(words, job.consumer),
            "cancel_asked": asked,
            "jobs_before": job.behind,
        },
    )


def _where(words: Words, job: JobFacts, consumer: ConsumerFacts) -> str:
    where = words.consumer(consumer)
    left = _lease_left(words, consumer)
    if not left:
        return f"It was running on {where}, whose lease has ended: its jobs are being taken back"
    lease = f"whose lease ends in {left:.1f}s unless it is renewed"
    if job.behind:
        return (
            f"It was taken by {where}, {lease}, and runs there after "
            f"{count(job.behind, 'job')} of its sequence, of which {job.first} is the first"
        )
    return f"It is running on {where}, {lease}"


def _lease_left(words: Words, consumer: ConsumerFacts) -> float:
    """In seconds; 0 where it has ended."""
    return 0.0 if consumer.lease is None else max(0.0, consumer.lease - words.now) / 1000


# ── sequences ───────────────────────────────────────────────────────────────────────────────────


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
    left = _lease_left(words, consumer)
    lease = "" if left else "; that worker's lease has ended, and its jobs are being taken back"
    return Reason(
        "sequence",
        f"Job {head} of {name} runs on {words.consumer(consumer)}{taken}, and {_IN_ORDER}{lease}.",
        f"The end of job {head}; or {words.cancel_job(head)}",
        detail=_detail(sequence, head, "running")
        | {
            "consumer": consumer.id,
            "name": consumer.name,
            "lease_left": left or None,
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
