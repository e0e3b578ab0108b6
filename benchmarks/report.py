"""Figures: what a part reports, how it is printed, how it is kept."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from pathlib import Path
from statistics import median

import msgspec


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure: `runs` rounds per figure; `quick` takes small numbers of jobs.

    For fairness: where a chart of its `waits` goes, and whether its arrivals are `seeded` in any
    event.
    For peers: `only` these; none given is all.
    """

    runs: int = 5
    quick: bool = False
    tcp: bool = False
    waits: Path | None = None
    seeded: bool = False
    only: tuple[str, ...] = ()

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `at_most` or `at_least` is the target, where there is one.

    `samples` are the values of the rounds, of which `value` is the median. `skipped` says why
    there is none.
    """

    name: str
    value: float
    unit: str
    at_most: float | None = None
    samples: tuple[float, ...] = ()
    note: str = ""
    at_least: float | None = None
    skipped: str = ""

    @property
    def verdict(self) -> str:
        if self.skipped:
            return "skipped"
        if self.at_most is not None and self.value > self.at_most:
            return f"over by {100 * (self.value / self.at_most - 1):.0f} %"
        if self.at_least is not None and self.value < self.at_least:
            return f"short by {100 * (1 - self.value / self.at_least):.0f} %"
        return "PASS" if self.target else ""

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"≤ {shown(self.at_most)} {self.unit}"
        return "" if self.at_least is None else f"≥ {shown(self.at_least)} {self.unit}"


def figure(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    note: str = "",
) -> Figure:
    """The median of `samples`."""
    return Figure(name, median(samples), unit, at_most, tuple(samples), note, at_least)


def skipped(name: str, why: str) -> Figure:
    """What was to be measured and could not be; its value is not a number."""
    return Figure(name, nan, "", skipped=why)


def ratio(
    name: str,
    above: Sequence[float],
    below: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    note: str = "",
) -> Figure:
    """The median of the ratios of two figures, each ratio taken within one round."""
    samples = [a / b for a, b in zip(above, below, strict=True)]
    return figure(name, samples, "×", at_most=at_most, at_least=at_least, note=note)


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def _spread(samples: Sequence[float]) -> str:
    return f"{shown(min(samples))} – {shown(max(samples))}" if len(samples) > 1 else ""


def _rows(figures: Iterable[Figure]) -> list[tuple[str, ...]]:
    return [
        (
            f.name,
            "" if f.skipped else f"{shown(f.value)} {f.unit}",
            _spread(f.samples),
            f.target,
            f.verdict,
            f.skipped or f.note,
        )
        for f in figures
    ]


PIPE_WIDTH = 120
"""Columns of a table that goes into a file or a pipe."""
HEADINGS = ("figure", "median", "of", "target", "", "")


def print_table(title: str, figures: Sequence[Figure]) -> None:
    """With rich where it is installed, else in plain columns."""
    rows = _rows(figures)
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        _print_plain(title, rows)
        return
    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if i in (1, 2, 3) else "left")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    console.print(table)


def _print_plain(title: str, rows: Sequence[tuple[str, ...]]) -> None:
    columns = list(zip(HEADINGS, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    print(f"\n{title}")
    for row in (HEADINGS, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


def _document(f: Figure) -> dict[str, object]:
    return asdict(f) | {"verdict": f.verdict, "value": None if f.skipped else f.value}


def write_json(path: Path, results: Mapping[str, Sequence[Figure]], server: str) -> None:
    document = {
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {platform.system()} {platform.release()}",
        "server": server,
        "parts": {part: [_document(f) for f in figures] for part, figures in results.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class _Kept(msgspec.Struct):
    """The part of a result file of which figures are made again."""

    parts: dict[str, list[dict[str, object]]]


def read_json(path: Path) -> dict[str, list[Figure]]:
    """What `write_json` wrote; ValueError where it is something else, OSError where it is not."""
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        return {part: [_figure(row) for row in rows] for part, rows in kept.parts.items()}
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"expected figures that a run has written, {path} is not: {error}"
        ) from error


def _figure(row: dict[str, object]) -> Figure:
    return msgspec.convert(row | {"value": nan} if row.get("skipped") else row, Figure)
