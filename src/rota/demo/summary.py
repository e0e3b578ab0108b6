"""What the demo says at its end."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.markup import escape

from rota.demo.load import CEILING, FLOODER, SLOTS, SMALL
from rota.demo.report import Report
from rota.demo.view import duration

ENDINGS = {
    "finished": "All done after {:.1f} s.",
    "stopped": "Stopped early, after {:.1f} s. What had happened by then:",
    "out of time": "Time was up after {:.1f} s, on a slow machine. By then:",
}


def print_summary(console: Console, report: Report) -> None:
    """What happened, in words; the figures are those of this run."""
    still = f"   still in the queue {report.left:,}" if report.left else ""
    lost = "red" if report.lost else "green"
    totals = (
        f" jobs in [bold]{report.jobs_in:,}[/]   done [bold]{report.done:,}[/]{still}   "
        f"lost [bold {lost}]{report.lost:,}[/]   run twice {report.again:,}"
    )
    ending = f" [bold]{ENDINGS[report.end].format(report.elapsed)}[/]"
    parts = (ending, totals, _comparison(report), "\n".join(_promises(report)), _next_steps())
    for part in parts:
        console.print(f"\n{part}", soft_wrap=True, highlight=False)


def _comparison(report: Report) -> str:
    if not report.small_here:
        return f" No job of the {len(SMALL)} small tenants has run yet."
    return (
        f" {FLOODER} sent {report.flood:,} jobs at once. How long the jobs of the {len(SMALL)} "
        f"others waited:\n"
        f"[dim]   {'':<34}{'median':>8}{'19 of 20 within':>19}[/]\n"
        f"{_waits('here, in fair turns', report.small_here, 'green')}\n"
        f"{_waits('in one first-in-first-out line *', report.small_in_line, 'yellow')}\n"
        f"[dim]   * the same arrivals and run times in {SLOTS} slots, replayed in memory[/]"
    )


def _waits(name: str, waits: list[float], color: str) -> str:
    half, most = duration(median(waits)), duration(sorted(waits)[int(len(waits) * 0.95)])
    return f"   {name:<34}[bold {color}]{half:>8}[/]{most:>19}"


def _promises(report: Report) -> Iterator[str]:
    if report.ordered:
        ordered = f"{report.ordered} ordered jobs in {report.sequences} sequences"
        yield _promise("order kept", report.order_kept, f"{ordered}, one after the other")
    flooding = f"{FLOODER} never ran more than {report.most_flooding} at once, of {CEILING} allowed"
    yield _promise("ceiling kept", report.most_flooding <= CEILING, flooding)
    if report.late is not None:
        late = f"{report.delayed} delayed jobs, {report.early or 'none'} early"
        late += f", half within {duration(report.late)}"
        yield _promise("delays kept", not report.early, late)


def _promise(name: str, kept: bool, what: str) -> str:
    answer = "[bold green]yes[/]" if kept else "[bold red]NO [/]"
    return f" {name + ':':<14}{answer}[dim]   {what}[/]"


def _next_steps() -> str:
    rota = _command()
    steps = {
        "less README.md": "a first program, in twenty lines",
        f"{rota} worker module:queue": "run the jobs of your own queue",
        f"{rota} lane ls QUEUE": "see who waits, who runs, and why",
    }
    width = max(map(len, steps)) + 3
    lines = [
        f"   [bold]{escape(typed.ljust(width))}[/][dim]{what}[/]" for typed, what in steps.items()
    ]
    return "\n".join([" [dim]What to type next[/]", *lines])


def _command() -> str:
    """What to type for `rota` here: its path, where a shell would not find it."""
    program = Path(sys.argv[0])
    if program.name == "rota" and shutil.which("rota") is None:
        return os.path.relpath(program)
    return "rota"
