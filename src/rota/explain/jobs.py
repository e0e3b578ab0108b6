"""Where a job stands and what keeps it there, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rota.explain.answer import Reason
from rota.explain.facts import ConsumerFacts, Holder, JobAnswer, JobFacts
from rota.explain.lanes import lane_reasons, queue_reasons, turn_reason
from rota.explain.sequences import behind_waiting, sequence_reasons
from rota.explain.words import Words, count, headline_of, note_of, unix


def job_reasons(
    words: Words, answer: JobAnswer, job: JobFacts, holders: Sequence[Holder]
) -> Iterator[Reason]:
    """All that holds at once, in no order. `job.consumer` has been looked up where it runs."""
    if job.state == "dead":
        yield _dead(words, answer, job)
        return
    if job.state == "running":
        yield _running(words, job)
        return
    if job.state == "delayed":
        yield _delayed(words, job, job.due or 0)
    yield from queue_reasons(words, answer.queue)
    if answer.lane is not None:
        yield from lane_reasons(words, answer.queue, answer.lane, holders)
    if job.state == "waiting":
        yield from _waiting(words, answer, job)


def _waiting(words: Words, answer: JobAnswer, job: JobFacts) -> Iterator[Reason]:
    sequence, lane, ring = answer.sequence, answer.lane, answer.ring
    if lane is None:
        yield _unreadable(words, job)
    if sequence is not None:
        if sequence.waits_for == job.id and sequence.waits_until is not None:
            yield _delayed(words, job, sequence.waits_until)
        yield from sequence_reasons(words, sequence, job.id)
        if job.rank is not None and job.place:
            yield behind_waiting(sequence, job.place)
    if lane is not None and ring is not None:
        yield turn_reason(words, answer.queue, lane, ring)


def _unreadable(words: Words, job: JobFacts) -> Reason:
    return Reason(
        "damaged",
        "Its record is broken: it tells no lane, so where it waits cannot be told.",
        "Its turn, at which it goes to the dead with its bytes; "
        f"or {words.command('doctor', options=('--repair',))}",
        detail={"task": job.task},
    )


def _dead(words: Words, answer: JobAnswer, job: JobFacts) -> Reason:
    note = note_of(job.note)
    holds = answer.sequence is not None and answer.sequence.waits_for == job.id
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
