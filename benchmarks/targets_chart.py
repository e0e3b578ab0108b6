"""The chart of the figures that have a target, as an SVG file; needs matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmarks.bars import FURTHEST, Bar, bars, left_out, limits, within
from benchmarks.report import Figure
from benchmarks.style import INK, NOTHING, STYLE

MET, MISSED = "#2e86c1", "#e8590c"
"""Blue and orange: apart for every kind of colour vision."""
SMALL = 9.5
LETTER_IN = 0.074
"""Of SMALL size, on the wide side: which font the reader has is not known here."""
AXIS_IN, ROW_IN, ABOVE_IN, BELOW_IN, LINE_IN, EDGE_IN = 7.0, 0.25, 0.4, 0.7, 0.17, 0.15
BAR_ROWS = 0.62
STEPS = (1, 2, 5, 10, 20, 50, 100)
READING = (
    "Bars are value : target where the target is the least (≥), target : value where it is the "
    f"most (≤); an arrow: over {FURTHEST:.0f} times."
)


def write(path: Path, results: Mapping[str, Sequence[Figure]]) -> bool:
    """False, and no file, where no figure has a target."""
    drawn = bars(results)
    if not drawn:
        return False
    rows = _rows(drawn)
    depth = 1 + max(rows)
    names_in = LETTER_IN * max(len(bar.name) for bar in drawn) + 2 * EDGE_IN
    width = names_in + AXIS_IN + EDGE_IN
    note = _note(results, width)
    below = BELOW_IN + LINE_IN * len(note)
    height = ABOVE_IN + ROW_IN * depth + below
    with rc_context(STYLE | {"font.size": SMALL}):
        sheet = Sheet(figsize=(width, height))
        axes = sheet.add_axes(
            (names_in / width, below / height, AXIS_IN / width, ROW_IN * depth / height)
        )
        axes.set_ylim(depth - 0.5, -0.5)
        _draw_axis(axes, drawn)
        for row, bar in zip(rows, drawn, strict=True):
            _draw_bar(axes, row, bar)
        _draw_names(axes, rows, drawn, names_in)
        _draw_key(sheet, width, height)
        for i, line in enumerate(reversed(note)):
            sheet.text(EDGE_IN / width, (EDGE_IN + LINE_IN * i) / height, line, va="bottom")
        path.parent.mkdir(parents=True, exist_ok=True)
        sheet.savefig(path, format="svg", transparent=True, metadata=NOTHING)
    return True


def _rows(drawn: Sequence[Bar]) -> list[int]:
    """Each bar's row, counted from the top; a part's first bar leaves one for the part's name."""
    rows: list[int] = []
    part, row = None, -1
    for bar in drawn:
        row += 1 if bar.part == part else 2
        part = bar.part
        rows.append(row)
    return rows


def _note(results: Mapping[str, Sequence[Figure]], width_in: float) -> list[str]:
    columns = int((width_in - 2 * EDGE_IN) / LETTER_IN)
    note = textwrap.wrap(READING, columns)
    if names := left_out(results):
        note += textwrap.wrap(f"Skipped, and not drawn: {'; '.join(names)}.", columns)
    return note


def _draw_axis(axes: Axes, drawn: Sequence[Bar]) -> None:
    least, most = limits(drawn, [LETTER_IN * (len(bar.label) + 2) / AXIS_IN for bar in drawn])
    axes.set_xscale("log")
    axes.set_xlim(least, most)
    both = [1 / step for step in reversed(STEPS[1:])] + [float(step) for step in STEPS]
    ticks = [at for at in both if least <= at <= most]
    axes.set_xticks(ticks, [_tick(at) for at in ticks])
    axes.minorticks_off()
    axes.set_yticks([])
    axes.grid(axis="x", color=INK, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.axvline(1, color=INK, linewidth=1.4)
    for side, name in (("right", "← times worse"), ("left", "times better than the target →")):
        axes.annotate(
            name,
            (1, 0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-LETTER_IN * 72 if side == "right" else LETTER_IN * 72, -24),
            textcoords="offset points",
            ha=side,
            va="top",
        )


def _tick(at: float) -> str:
    return "target" if at == 1 else f"{max(at, 1 / at):.0f} ×"


def _draw_bar(axes: Axes, row: int, bar: Bar) -> None:
    colour = MET if bar.met else MISSED
    tip = within(bar.times)
    axes.barh(row, tip - 1, BAR_ROWS, left=1, color=colour, alpha=0.55, linewidth=0)
    axes.plot([tip, tip], [row - BAR_ROWS / 2, row + BAR_ROWS / 2], color=colour, linewidth=2)
    if tip != bar.times:
        axes.plot(tip, row, marker=">" if tip > 1 else "<", color=colour, markersize=7)
    rounds = [within(times) for times in bar.rounds]
    if len(rounds) > 1:
        axes.plot([min(rounds), max(rounds)], [row, row], color=colour, linewidth=0.9)
        axes.plot(rounds, [row] * len(rounds), "o", color=colour, markersize=3.5)
    axes.annotate(
        bar.label,
        (bar.end, row),
        xytext=(7 if bar.times >= 1 else -7, 0),
        textcoords="offset points",
        ha="left" if bar.times >= 1 else "right",
        va="center_baseline",
    )


def _draw_names(axes: Axes, rows: Sequence[int], drawn: Sequence[Bar], names_in: float) -> None:
    at, part = -(names_in - EDGE_IN) / AXIS_IN, None
    across = axes.get_yaxis_transform()
    for row, bar in zip(rows, drawn, strict=True):
        if bar.part != part:
            part = bar.part
            axes.text(at, row - 1, part, transform=across, va="center_baseline", weight="bold")
        axes.text(at, row, bar.name, transform=across, va="center_baseline")


def _draw_key(sheet: Sheet, width: float, height: float) -> None:
    """Above the axis."""
    sheet.legend(
        handles=[
            Patch(color=MET, alpha=0.55, linewidth=0, label="target met"),
            Patch(color=MISSED, alpha=0.55, linewidth=0, label="missed"),
            Line2D([], [], color=INK, marker="o", markersize=3.5, linewidth=0.9, label="rounds"),
        ],
        loc="upper right",
        bbox_to_anchor=(1 - EDGE_IN / width, 1 - EDGE_IN / 2 / height),
        ncols=3,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
    )
