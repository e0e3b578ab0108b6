"""What the contest shows: each contestant's figures beside rota's, and the targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.peers.contest import Mode
from benchmarks.peers.entry import Result
from benchmarks.report import Figure, figure, ratio, shown, skipped

WORK_NODE, WORK_PYTHON, ENQUEUE_NODE = 3.0, 15.0, 4.0
"""Targets: rota's jobs per second in those of BullMQ, of the best Python peer, of addBulk."""
NODE = "bullmq"

_MODES: Mapping[str, Mode] = {"batches": "batch", "at once": "at_once"}
_TITLES = {
    "work": "{}: work off, one process, no-op",
    "batches": "{}: enqueue, {}",
    "at once": "{}: enqueue, 50 tasks at once",
}


def figures(ours: Result, others: Sequence[Result]) -> list[Figure]:
    """Per measure the contestants, the fastest first; the skipped; the targets."""
    ran = [other for other in others if not other.skipped]
    found = []
    for what in _TITLES:
        rows = [
            _row(what, result, ours)
            for result in [ours, *ran]
            if _samples(what, result)
        ]  # fmt: skip
        found += sorted(rows, key=lambda row: -row.value)
    found += [skipped(other.contestant.title, other.skipped) for other in others if other.skipped]
    return [*found, *_targets(ours, ran)]


def _samples(what: str, result: Result) -> Sequence[float]:
    return result.work if what == "work" else result.enqueue.get(_MODES[what], ())


def _row(what: str, result: Result, ours: Result) -> Figure:
    contestant = result.contestant
    call = "calls of 100" if contestant.batches else "one by one"
    notes = [contestant.note] if what == "work" else []
    if result is not ours:
        rates = ratio("", _samples(what, ours), _samples(what, result))
        notes.insert(0, f"rota {shown(rates.value)} ×")
    title = _TITLES[what].format(contestant.title, call)
    return figure(title, _samples(what, result), "jobs/s", note="; ".join(notes))


def _targets(ours: Result, ran: Sequence[Result]) -> list[Figure]:
    found = []
    node = next((one for one in ran if one.contestant.name == NODE), None)
    if node is not None:
        found += [
            ratio("work, rota : BullMQ", ours.work, node.work, at_least=WORK_NODE),
            ratio(
                "enqueue, rota : BullMQ, calls of 100",
                _samples("batches", ours), _samples("batches", node), at_least=ENQUEUE_NODE,
            ),
        ]  # fmt: skip
    pythons = [one for one in ran if not one.contestant.node]
    if pythons:
        best = max(pythons, key=lambda one: median(one.work))
        found.append(
            ratio(
                "work, rota : the best Python peer",
                ours.work, best.work, at_least=WORK_PYTHON, note=best.contestant.title,
            )
        )  # fmt: skip
    return found
