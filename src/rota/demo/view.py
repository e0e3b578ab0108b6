"""How the running demo looks: a live table of lanes in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rota.demo.load import CEILING, FLOODER, SLOTS, SMALL, TENANTS
from rota.demo.run import Sight

LANES_SHOWN = 15
OTHER_LINES = 8
"""Lines of the screen that are not lanes."""
PLAIN_EVERY_S = 2.0
WIDTH = 76
DOT = "●"


def duration(seconds: float | None) -> str:
    """Short, for people: `4 ms`, `0.85 s`, `12.3 s`."""
    if seconds is None:
        return "-"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


@contextmanager
def open_view(console: Console, jobs: int) -> Iterator[Callable[[Sight], None]]:
    """Yields what shows a look: a live table where a terminal can show one, whose last state stays
    on the screen, else a line every other second."""
    if sys.stdout.isatty() and console.is_interactive:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda sight: _draw(live, sight, jobs)
        return
    _print(
        console,
        f"rota demo: {len(TENANTS)} tenants, {jobs:,} jobs, {SLOTS} slots; "
        f"{FLOODER} floods the queue and may run {CEILING} at once",
    )
    due = 0.0

    def show(sight: Sight) -> None:
        nonlocal due
        if sight.elapsed >= due:
            due += PLAIN_EVERY_S
            _print(console, _line(sight))

    yield show


def _print(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)
    console.file.flush()


def _line(sight: Sight) -> str:
    book = sight.book
    return (
        f"{sight.elapsed:5.1f} s   in {len(book.sent):>5,}   "
        f"done {book.done.total():>5,}   running {book.busy:>2}   "
        f"waiting: {FLOODER} {sight.waiting(FLOODER):>5,}, "
        f"others {sight.waiting(*SMALL):>3,}   "
        f"median wait: {FLOODER} {duration(book.median_wait(FLOODER))}, "
        f"others {duration(book.median_wait(*SMALL))}"
    )


def _draw(live: Live, sight: Sight, jobs: int) -> None:
    rows = max(2, min(LANES_SHOWN, live.console.height - OTHER_LINES))
    table, footer = _table(sight, rows), _footer(sight, jobs)
    live.update(Group(_headline(), table, Text(), footer), refresh=True)


def _footer(sight: Sight, jobs: int) -> Table:
    done = sight.book.done.total()
    bar = ProgressBar(
        total=jobs,
        completed=done,
        width=22,
        style="bright_black",
        complete_style="green",
        finished_style="green",
    )
    figures = Text.assemble(
        f"  {done:,}", (" of ", "dim"), f"{jobs:,}", (" done   ", "dim"),
        f"{sight.book.busy}", (f" of {SLOTS} slots busy   ", "dim"),
        f"{sight.elapsed:.1f} s",
    )  # fmt: skip
    line = Table.grid()
    line.add_row(Text(" "), bar, figures)
    return line


def _headline() -> Text:
    return Text.assemble(
        (" rota ", "bold reverse"),
        f"  {len(TENANTS)} tenants take turns in {SLOTS} slots. ",
        (FLOODER, "bold yellow"),
        f" floods; it may run {CEILING} at once.",
    )


def _table(sight: Sight, rows: int) -> Table:
    table = Table(box=None, width=min(WIDTH, 80), padding=(0, 1), header_style="dim")
    table.add_column("lane", ratio=3)
    table.add_column("waiting", justify="right", ratio=2)
    table.add_column("running/ceiling", ratio=4)
    table.add_column("done", justify="right", ratio=2)
    table.add_column("median wait", justify="right", ratio=3)
    shown, rest = TENANTS[:rows], TENANTS[rows:]
    for tenant in shown:
        _add_row(table, tenant, [tenant], sight)
    if rest:
        _add_row(table, f"{len(rest)} others", rest, sight)
    return table


def _add_row(table: Table, name: str, tenants: list[str], sight: Sight) -> None:
    waiting = sight.waiting(*tenants)
    done = sum(sight.book.done[tenant] for tenant in tenants)
    wait = sight.book.median_wait(*tenants)
    flooding = tenants == [FLOODER]
    table.add_row(
        Text(name, "bold yellow" if flooding else "" if len(tenants) == 1 else "dim"),
        Text(f"{waiting:,}" if waiting else "·", "" if waiting else "dim"),
        _running(sight.running(*tenants), CEILING if flooding else None),
        Text(f"{done:,}" if done else "·", "" if done else "dim"),
        Text(duration(wait), "dim" if wait is None else "yellow" if wait >= 1 else "green"),
    )


def _running(running: int, ceiling: int | None) -> Text:
    dots = Text(DOT * min(running, 12), "cyan")
    if ceiling is None:
        return dots.append(f" {running}" if running else "", "dim")
    return dots.append("○" * max(0, ceiling - running), "dim").append(f" {running}/{ceiling}")
