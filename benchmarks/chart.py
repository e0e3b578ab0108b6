"""The chart of fairness' waits as an SVG file; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.style import INK, NEEDS, NOTHING, STYLE

try:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
except ImportError as error:
    raise SystemExit(f"--waits {NEEDS} ({error})") from error

TURNS, LINE = "#2f9e44", "#e8590c"
SHORTEST_S = 0.001
STEPS = 400
TICKS = {
    0.001: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 100.0: "100 s",
    1000.0: "1,000 s",
}  # fmt: skip


def write(path: Path, turns: Sequence[float], line: Sequence[float], flood: int) -> None:
    """Which share of the small tenants' jobs waited at most how long, in both orders."""
    with rc_context(STYLE):
        figure = Figure(figsize=(7.6, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.set_xscale("log")
        for waits, colour, name in ((turns, TURNS, "rota"), (line, LINE, "first in, first out")):
            xs, ys = curve(waits)
            axes.plot(xs, ys, color=colour, linewidth=2.2, label=name)
        longest = max(turns[-1], line[-1])
        axes.set_xlim(SHORTEST_S, 1.3 * longest)
        ticks = [at for at in TICKS if at < 1.3 * longest]
        axes.set_xticks(ticks, [TICKS[at] for at in ticks])
        axes.minorticks_off()
        axes.set_ylim(0, 102)
        axes.set_xlabel(f"wait beside another tenant's flood of {flood:,} jobs (virtual time)")
        axes.set_ylabel("small tenants' jobs started, %")
        axes.grid(color=INK, alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", transparent=True, metadata=NOTHING)


def curve(waits: Sequence[float]) -> tuple[list[float], list[float]]:
    """Waits (ascending) and the per cent of jobs that waited no longer, in at most STEPS points."""
    last = len(waits) - 1
    ranks = sorted({round(i * last / STEPS) for i in range(STEPS + 1)})
    return (
        [max(waits[rank], SHORTEST_S) for rank in ranks],
        [100 * (rank + 1) / len(waits) for rank in ranks],
    )
