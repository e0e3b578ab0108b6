"""What the demo has shown, reckoned from its book."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, pairwise
from statistics import median

from rota.demo.load import CEILING, FLOODER, SLOTS, SMALL, Served, replay_in_one_line
from rota.demo.run import Book, End, Run
from rota.values.model import QueueInfo

EARLY_S = 0.002
"""The server counts whole milliseconds, and a delay is rounded to one."""


class Report:
    """The demo's result: every figure comes from the ids sent and the runs the handlers wrote down
    themselves."""

    def __init__(self, book: Book, end: End, info: QueueInfo) -> None:
        sent, done = set(book.sent), set(book.runs)
        self.end = end
        self.elapsed = book.elapsed
        self.jobs_in = len(sent)
        self.done = len(done)
        self.left = info.waiting + info.running + info.delayed + info.dead
        """Jobs the queue still keeps."""
        self.lost = max(0, len(sent - done) - self.left)
        self.again = sum(map(len, book.runs.values())) - len(done)

        flood = [id for id in sent if book.arrivals[id].tenant == FLOODER]
        self.flood = len(flood)
        self.most_flooding = _most_at_once([run for id in flood for run in book.runs.get(id, [])])
        in_line = _replay(book)
        self.small_here = book.waits_of(SMALL)
        self.small_in_line = [in_line[id] for id in done - set(flood)]

        sequences = _sequences(book)
        self.sequences = len(sequences)
        self.ordered = sum(map(len, sequences))
        self.order_kept = all(map(_in_order, sequences))

        delayed = [id for id in done if book.arrivals[id].delay]
        lags = [book.runs[id][0].start - book.ready(id) for id in delayed]
        self.delayed = len(delayed)
        self.early = sum(lag < -EARLY_S for lag in lags)
        self.late = median(lags) if lags else None

    @property
    def is_good(self) -> bool:
        return (
            self.lost == 0
            and self.order_kept
            and not self.early
            and self.most_flooding <= CEILING
            and (self.end != "finished" or not self.left)
        )


def _replay(book: Book) -> dict[str, float]:
    """The run times are those measured; a job that has not run here has the one it was to have."""
    jobs = []
    for id in book.sent:
        runs = book.runs.get(id)
        run = runs[0].end - runs[0].start if runs else book.arrivals[id].run
        jobs.append(Served(id, book.ready(id), run))
    return replay_in_one_line(jobs, SLOTS)


def _sequences(book: Book) -> list[list[tuple[Run, int]]]:
    """Run and step of the ordered jobs, by sequence, as they came to run."""
    found: defaultdict[str, list[tuple[Run, int]]] = defaultdict(list)
    for id, runs in book.runs.items():
        arrival = book.arrivals[id]
        if arrival.key is not None:
            found[arrival.key] += [(run, arrival.step) for run in runs]
    return [sorted(runs) for runs in found.values()]


def _in_order(runs: list[tuple[Run, int]]) -> bool:
    """One step after the other, and none before the end of the one before."""
    steps = [step for _, step in runs]
    return steps == list(range(len(steps))) and all(
        before.end <= after.start for (before, _), (after, _) in pairwise(runs)
    )


def _most_at_once(runs: list[Run]) -> int:
    edges = sorted([(run.end, -1) for run in runs] + [(run.start, 1) for run in runs])
    return max(accumulate((step for _, step in edges), initial=0))
