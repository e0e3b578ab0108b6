"""How the running demo looks: a live table of lanes in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from rota.demo.load import CEILING, FLOODER, SLOTS, SMALL, TENANTS
from rota.demo.run import Book

LANES_SHOWN = 15
OTHER_LINES = 8
"""Lines of the screen that are not lanes."""
PLAIN_EVERY_S = 2.0
WIDTH = 76


def duration(seconds: float | None) -> str:
    """Short, for people: `4 ms`, `0.85 s`, `12.3 s`."""
    if seconds is None:
        return "-"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


@contextmanager
def open_view(console: Console, jobs: int) -> Iterator[Callable[[Book], None]]:
    """Yields what shows a look: a live table where a terminal can show one, whose last state stays
    on the screen, else a line every other second."""
    if sys.stdout.isatty() and console.is_interactive:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda book: live.update(_screen(book, jobs, console.height), refresh=True)
        return
    typer.echo(
        f"rota demo: {len(TENANTS)} tenants, {jobs:,} jobs, {SLOTS} slots; "
        f"{FLOODER} floods the queue and may run {CEILING} at once"
    )
    due = 0.0

    def show(book: Book) -> None:
        nonlocal due
        if book.elapsed >= due:
            due += PLAIN_EVERY_S
            typer.echo(_line(book))

    yield show


def _line(book: Book) -> str:
    return (
        f"{book.elapsed:5.1f} s   in {len(book.sent):>5,}   "
        f"done {len(book.runs):>5,}   running {book.busy:>2}   "
        f"waiting: {FLOODER} {book.waiting([FLOODER]):>5,}, "
        f"others {book.waiting(SMALL):>3,}   "
        f"median wait: {FLOODER} {duration(book.median_wait([FLOODER]))}, "
        f"others {duration(book.median_wait(SMALL))}"
    )


def _screen(book: Book, jobs: int, height: int) -> Group:
    table = Table(box=None, width=WIDTH, padding=(0, 1), header_style="dim")
    table.add_column("lane", ratio=3)
    table.add_column("waiting", justify="right", ratio=2)
    table.add_column("running/ceiling", ratio=4)
    table.add_column("done", justify="right", ratio=2)
    table.add_column("median wait", justify="right", ratio=3)
    rows = max(2, min(LANES_SHOWN, height - OTHER_LINES))
    for tenant in TENANTS[:rows]:
        style = "[bold yellow]" if tenant == FLOODER else ""
        table.add_row(f"{style}{tenant}", *_cells(book, [tenant]))
    others = TENANTS[rows:]
    table.add_row(f"[dim]{len(others)} others", *_cells(book, others))
    return Group(
        f"[bold reverse] rota [/]  {len(TENANTS)} tenants take turns in {SLOTS} slots. "
        f"[bold yellow]{FLOODER}[/] floods; it may run {CEILING} at once.",
        table,
        "",
        f" {len(book.runs):,} [dim]of[/] {jobs:,} [dim]done  [/] {book.busy} "
        f"[dim]of {SLOTS} slots busy  [/] {book.elapsed:.1f} s",
    )


def _cells(book: Book, tenants: list[str]) -> tuple[str, ...]:
    waiting, done = book.waiting(tenants), len(book.waits_of(tenants))
    wait = book.median_wait(tenants)
    style = "dim" if wait is None else "yellow" if wait >= 1 else "green"
    running = book.running(tenants)
    dots = f"[cyan]{'●' * min(running, 12)}[/]"
    if tenants == [FLOODER]:
        dots += f"[dim]{'○' * (CEILING - running)} {running}/{CEILING}"
    elif running:
        dots += f"[dim] {running}"
    return _count(waiting), dots, _count(done), f"[{style}]{duration(wait)}"


def _count(number: int) -> str:
    return f"{number:,}" if number else "[dim]·"
