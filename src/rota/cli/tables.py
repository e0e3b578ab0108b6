"""Tables: fitted to a terminal, or plain columns that line up for pipes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str]
) -> None:
    """Prints to standard output. `numbers` names the columns that align right."""
    if not sys.stdout.isatty():
        _print_plain([headings, *rows])
        return
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(
            heading, justify="right" if heading in numbers else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _print_plain(rows: Sequence[Sequence[str]]) -> None:
    """One row a line, however long its cells."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
