"""What the demo says at its end."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from rota.demo.load import CEILING, FLOODER, SLOTS, SMALL
from rota.demo.report import Report, Waits
from rota.demo.view import duration


def print_summary(console: Console, report: Report) -> None:
    """What happened, in words; the figures are those of this run."""
    for line in [Text(), _ending(report), Text(), *_totals(report), Text(), *_comparison(report),
                 Text(), *_promises(report), Text(), *_next_steps()]:  # fmt: skip
        console.print(line, soft_wrap=True, highlight=False)


def _ending(report: Report) -> Text:
    after = f"after {report.elapsed:.1f} s"
    match report.end:
        case "finished":
            return Text(f" All done {after}.", "bold")
        case "stopped":
            return Text(f" Stopped early, {after}. What had happened by then:", "bold")
        case "out of time":
            return Text(f" Time was up {after}, on a slow machine. By then:", "bold")


def _totals(report: Report) -> list[Text]:
    lost = Text.assemble(
        ("   lost ", ""), (f"{report.lost:,}", "bold green" if not report.lost else "bold red")
    )
    line = Text.assemble(" jobs in ", (f"{report.jobs_in:,}", "bold"), "   done ",
                         (f"{report.done:,}", "bold"))  # fmt: skip
    if report.left:
        line.append(f"   still in the queue {report.left:,}")
    return [line.append_text(lost).append(f"   run twice {report.again:,}")]


def _comparison(report: Report) -> list[Text]:
    if report.small_here is None or report.small_in_line is None:
        return [Text(f" No job of the {len(SMALL)} small tenants has run yet.")]
    return [
        Text(f" {FLOODER} sent {report.flood:,} jobs at once. How long the jobs of the "
             f"{len(SMALL)} others waited:"),
        Text(f"   {'':<34}{'median':>8}{'19 of 20 within':>19}", "dim"),
        _waits_line("here, in fair turns", report.small_here, "bold green"),
        _waits_line("in one first-in-first-out line *", report.small_in_line, "bold yellow"),
        Text(f"   * the same arrivals and run times in {SLOTS} slots, replayed in memory", "dim"),
    ]  # fmt: skip


def _waits_line(name: str, waits: Waits, style: str) -> Text:
    return Text.assemble(
        f"   {name:<34}", (f"{duration(waits.median):>8}", style), f"{duration(waits.most):>19}"
    )


def _promises(report: Report) -> list[Text]:
    lines = []
    if report.ordered:
        ordered = f"{report.ordered} ordered jobs in {report.sequences} sequences"
        lines.append(_promise("order kept", report.order_kept, f"{ordered}, one after the other"))
    flooding = f"{FLOODER} never ran more than {report.most_flooding} at once, of {CEILING} allowed"
    lines.append(_promise("ceiling kept", report.most_flooding <= CEILING, flooding))
    if report.late is not None:
        late = f"{report.delayed} delayed jobs, {report.early or 'none'} early"
        late += f", half within {duration(report.late)}"
        lines.append(_promise("delays kept", not report.early, late))
    return lines


def _promise(name: str, kept: bool, what: str) -> Text:
    answer = ("yes", "bold green") if kept else ("NO ", "bold red")
    return Text.assemble(f" {name + ':':<14}", answer, (f"   {what}", "dim"))


def _next_steps() -> list[Text]:
    rota = _command()
    steps = [
        ("less README.md", "a first program, in twenty lines"),
        (f"{rota} worker module:queue", "run the jobs of your own queue"),
        (f"{rota} lane ls QUEUE", "see who waits, who runs, and why"),
    ]
    width = max(len(command) for command, _ in steps) + 3
    return [
        Text(" What to type next", "dim"),
        *(
            Text.assemble("   ", (f"{command:<{width}}", "bold"), (what, "dim"))
            for command, what in steps
        ),
    ]


def _command() -> str:
    """What to type for `rota` here: its path, where a shell would not find it."""
    program = Path(sys.argv[0])
    if program.name == "rota" and shutil.which("rota") is None:
        return os.path.relpath(program)
    return "rota"
