"""Figures as bars: how many times better than its target each is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log10

from benchmarks.report import Figure, shown

FURTHEST = 20.0
"""Times from the target at which the chart ends; what lies beyond is drawn there."""
LEAST = 2.0
"""Times from the target that the chart shows on both sides in any event."""
MOST_OF_A_SIDE = 0.4
"""Share of the chart's width that a label takes at the most."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure that has a target; `times` and `rounds` are above 1 where they are better than it.

    They are value : target where the target is the least, target : value where it is the most.
    """

    part: str
    name: str
    times: float
    rounds: tuple[float, ...]
    met: bool
    label: str

    @property
    def end(self) -> float:
        """Where its label stands: beyond the bar and its rounds."""
        return (max if self.times >= 1 else min)(map(within, (self.times, *self.rounds)))


def bars(results: Mapping[str, Sequence[Figure]]) -> list[Bar]:
    return [
        _bar(part, figure)
        for part, figures in results.items()
        for figure in figures
        if figure.target and not figure.skipped
    ]


def left_out(results: Mapping[str, Sequence[Figure]]) -> list[str]:
    """The names of the skipped figures."""
    return [
        f"{part}: {figure.name}"
        for part, figures in results.items()
        for figure in figures
        if figure.skipped
    ]


def within(times: float) -> float:
    return min(max(times, 1 / FURTHEST), FURTHEST)


def limits(drawn: Iterable[Bar], label_widths: Iterable[float]) -> tuple[float, float]:
    """From where to where the axis goes so that each label, a share of its width, is inside."""
    left, right = -log10(LEAST), log10(LEAST)
    ends = [
        (bar.times >= 1, log10(bar.end), min(width, MOST_OF_A_SIDE))
        for bar, width in zip(drawn, label_widths, strict=True)
    ]
    for _ in range(100):  # each side's room depends on the other's
        span = right - left
        for better, end, width in ends:
            if better:
                right = max(right, end + width * span)
            else:
                left = min(left, end - width * span)
    return 10**left, 10**right


def _bar(part: str, figure: Figure) -> Bar:
    return Bar(
        part,
        figure.name,
        _times(figure, figure.value),
        tuple(_times(figure, sample) for sample in figure.samples),
        figure.verdict == "PASS",
        f"{shown(figure.value)} {figure.unit}".rstrip() + f" ({figure.target.rstrip()})",
    )


def _times(figure: Figure, value: float) -> float:
    if figure.at_most is not None:
        better, worse = figure.at_most, value
    else:
        better, worse = value, figure.at_least or 0.0
    if better == worse:
        return 1.0
    return max(better, 0.0) / worse if worse > 0 else inf
