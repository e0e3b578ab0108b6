"""What the contest shows: each contestant's figures beside rota's, and the targets."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.peers.entry import MEASURES, Measure, Result
from benchmarks.report import Figure, figure, ratio, shown, skipped

WORK_NODE, WORK_PYTHON, BATCH_NODE = 3.0, 15.0, 4.0
"""Targets: rota's jobs per second in those of BullMQ, of the best Python peer, of addBulk."""
NODE = "bullmq"
TITLES = {"work": "work", "batch": "enqueue by 100", "at_once": "enqueue, 50 at once"}


def figures(ours: Result, others: Sequence[Result]) -> list[Figure]:
    """Per measure the contestants, the fastest first; the skipped; the targets."""
    found = []
    for measure in MEASURES:
        ran = [result for result in (ours, *others) if result.of(measure)]
        found += sorted((_row(measure, one, ours) for one in ran), key=lambda row: -row.value)
    found += [
        skipped(result.contestant.title, result.skipped)
        for result in (ours, *others)
        if result.skipped
    ]
    return found + (_targets(ours, others) if ours.of("work") else [])


def _row(measure: Measure, result: Result, ours: Result) -> Figure:
    contestant, rates = result.contestant, result.of(measure)
    notes = []
    if result is not ours and ours.of(measure):
        notes.append(f"rota {shown(ratio('', ours.of(measure), rates).value)} ×")
    if measure == "work":
        notes.append(contestant.note)
    one_by_one = measure == "batch" and not contestant.batches
    title = "enqueue one by one" if one_by_one else TITLES[measure]
    return figure(f"{title}: {contestant.title}", rates, "jobs/s", note="; ".join(notes))


def _targets(ours: Result, others: Sequence[Result]) -> list[Figure]:
    found = []
    ran = [other for other in others if other.of("work")]
    for node in (one for one in ran if one.contestant.name == NODE):
        found += [
            _target("work, rota : BullMQ", "work", ours, node, WORK_NODE),
            _target("enqueue by 100, rota : BullMQ", "batch", ours, node, BATCH_NODE),
        ]
    pythons = [one for one in ran if not one.contestant.node]
    if pythons:
        best = max(pythons, key=lambda one: median(one.of("work")))
        found.append(_target("work, rota : the best Python peer", "work", ours, best, WORK_PYTHON))
    return found


def _target(name: str, measure: Measure, ours: Result, other: Result, least: float) -> Figure:
    return ratio(
        name,
        ours.of(measure),
        other.of(measure),
        at_least=least,
        note=other.contestant.title,
    )
