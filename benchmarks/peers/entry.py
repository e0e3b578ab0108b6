"""A contestant on its way through the rounds; what fails puts it out, and is told at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.peers.catalogue import Contestant
from benchmarks.peers.contest import Contest, Mode
from benchmarks.peers.environments import CannotRun, Environment, prepare
from benchmarks.server import Server

Measure = Mode | Literal["work"]
WORK: Literal["work"] = "work"
MEASURES: Sequence[Measure] = (WORK, "batch", "at_once")
REHEARSAL = 1_000
FEWEST, MOST = 1_000, 200_000
"""Jobs of one measurement."""


@dataclass(frozen=True, slots=True)
class Result:
    """One contestant's jobs per second in each round; or why it has none."""

    contestant: Contestant
    rates: Mapping[Measure, Sequence[float]] = field(default_factory=dict)
    skipped: str = ""

    def of(self, measure: Measure) -> Sequence[float]:
        return self.rates.get(measure, ())


class Entry:
    """`spare`: the environment it runs in when its own cannot be installed."""

    def __init__(self, contestant: Contestant, spare: Environment | None = None) -> None:
        self.contestant = contestant
        self._spare = spare
        self._contest: Contest | None = None
        self._jobs: dict[Measure, int] = {}
        self._rates: dict[Measure, list[float]] = {}
        self._skipped = ""

    def install(self, server: Server) -> None:
        with self._guarded():
            self._contest = Contest(self.contestant, self._environment(), server)

    def run(self, measure: Measure, seconds: float) -> None:
        """The first run of a measure is small and not counted: it tells how many jobs the next
        one takes to last about `seconds`."""
        with self._guarded():
            contest = self._entered()
            if measure not in (*contest.modes, WORK):
                return
            jobs = self._jobs.get(measure, REHEARSAL)
            rate = contest.work(jobs) if measure == WORK else contest.enqueue(measure, jobs)
            if measure in self._jobs:
                self._rates.setdefault(measure, []).append(rate)
            self._jobs[measure] = _jobs(rate, seconds)

    @property
    def result(self) -> Result:
        if self._skipped:
            return Result(self.contestant, skipped=self._skipped)
        return Result(self.contestant, self._rates)

    def _environment(self) -> Environment:
        try:
            return prepare(self.contestant)
        except CannotRun as why:
            if self._spare is None:
                raise
            print(f"{self.contestant.title} runs in this environment; its own {why}")
            return self._spare

    def _entered(self) -> Contest:
        if self._contest is None:
            raise CannotRun(self._skipped)
        return self._contest

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except CannotRun as why:
            self._contest, self._skipped = None, str(why)


def _jobs(rate: float, seconds: float) -> int:
    return min(max(1_000 * round(rate * seconds / 1_000), FEWEST), MOST)
