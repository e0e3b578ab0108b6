"""What the demo has shown, reckoned from its book."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rota.demo.load import CEILING, FLOODER, SLOTS, Served, replay_in_one_line
from rota.demo.run import Book, End, Run
from rota.values.model import QueueInfo


@dataclass(frozen=True, slots=True)
class Waits:
    """How long jobs waited, in seconds: half of them less than `median`, 19 of 20 `most`."""

    median: float
    most: float


@dataclass(frozen=True, slots=True)
class Report:
    """The demo's result. `left`: jobs the queue still keeps, waiting, delayed or dead."""

    end: End
    elapsed: float
    jobs_in: int
    done: int
    left: int
    lost: int
    again: int
    flood: int
    small_here: Waits | None
    small_in_line: Waits | None
    sequences: int
    ordered: int
    order_kept: bool
    delayed: int
    early: int
    late: float | None
    most_flooding: int

    @property
    def is_good(self) -> bool:
        return (
            self.lost == 0
            and self.order_kept
            and not self.early
            and self.most_flooding <= CEILING
            and (self.end != "finished" or not self.left)
        )


def reckon(book: Book, *, end: End, elapsed: float, info: QueueInfo) -> Report:
    """Every figure comes from the ids sent and the runs the handlers wrote down themselves."""
    sent, done = set(book.sent), set(book.runs)
    left = info.waiting + info.running + info.delayed + info.dead
    small = [id for id in done if book.arrivals[id].tenant != FLOODER]
    in_line = _replay(book)
    flood = [id for id in sent if book.arrivals[id].tenant == FLOODER]
    sequences = _sequences(book)
    delayed = [id for id in done if book.arrivals[id].delay]
    lags = [book.runs[id][0].start - book.ready(id) for id in delayed]
    return Report(
        end=end,
        elapsed=elapsed,
        jobs_in=len(sent),
        done=len(done),
        left=left,
        lost=max(0, len(sent - done) - left),
        again=sum(len(runs) for runs in book.runs.values()) - len(done),
        flood=len(flood),
        small_here=_waits([max(0.0, book.runs[id][0].start - book.ready(id)) for id in small]),
        small_in_line=_waits([in_line[id] for id in small]),
        sequences=len(sequences),
        ordered=sum(map(len, sequences)),
        order_kept=all(map(_in_order, sequences)),
        delayed=len(delayed),
        early=sum(lag < -EARLY_S for lag in lags),
        late=median(lags) if lags else None,
        most_flooding=_most_at_once([run for id in flood for run in book.runs.get(id, [])]),
    )


EARLY_S = 0.002
"""The server counts whole milliseconds, and a delay is rounded to one."""


def _replay(book: Book) -> dict[str, float]:
    """The run times are those measured; a job that has not run here has the one it was to have."""
    jobs = []
    for id in book.sent:
        runs = book.runs.get(id)
        run = runs[0].end - runs[0].start if runs else book.arrivals[id].run
        jobs.append(Served(id, book.ready(id), run))
    return replay_in_one_line(jobs, SLOTS)


def _waits(waits: list[float]) -> Waits | None:
    if not waits:
        return None
    return Waits(median(waits), sorted(waits)[int(len(waits) * 0.95)])


def _sequences(book: Book) -> list[list[tuple[int, Run]]]:
    """Step and run of the ordered jobs, by sequence, as they came to run."""
    found: defaultdict[str, list[tuple[int, Run]]] = defaultdict(list)
    for id, runs in book.runs.items():
        arrival = book.arrivals[id]
        if arrival.key is not None:
            found[arrival.key] += [(arrival.step, run) for run in runs]
    return [sorted(runs, key=lambda one: one[1].start) for runs in found.values()]


def _in_order(runs: list[tuple[int, Run]]) -> bool:
    """One step after the other, and none before the end of the one before."""
    steps = [step for step, _ in runs]
    return steps == list(range(len(steps))) and all(
        before.end <= after.start for (_, before), (_, after) in pairwise(runs)
    )


def _most_at_once(runs: list[Run]) -> int:
    edges = sorted([(run.end, -1) for run in runs] + [(run.start, 1) for run in runs])
    running = most = 0
    for _, step in edges:
        running += step
        most = max(most, running)
    return most
