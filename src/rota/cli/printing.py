"""Tables: fitted to a terminal, or plain columns that line up for pipes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from rota.values.names import visible

if TYPE_CHECKING:
    from rich.table import Table  # a seventh of a short command's time: imported where it is used

IDS = ("id", "head", "consumer")
"""Columns of what is copied from a table: their cells stay on one line."""
LONGEST_WHOLE = 40
"""The longest cell that does; longer ids are a user's own."""


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str] = ()
) -> None:
    """Prints to standard output. `numbers` names the columns that align right."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(fitted(headings, rows, numbers=numbers))
    else:
        print_plain([headings, *rows])


def print_ids(ids: Iterable[str]) -> None:
    """As they are where a program reads them, visible on a terminal."""
    for id in ids:
        typer.echo(visible(id) if sys.stdout.isatty() else id)


def print_facts(facts: Sequence[tuple[str, str | None]]) -> None:
    """What is known of one thing, a line each; what is None is left out."""
    known = [(name, visible(value)) for name, value in facts if value is not None]
    width = max(len(name) for name, _ in known)
    for name, value in known:
        typer.echo(f"{name.ljust(width)}  {value}".rstrip())


def fitted(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str]
) -> Table:
    """A table that takes the width there is; names stand as they are, never as markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for place, heading in enumerate(headings):
        longest = max((len(visible(row[place])) for row in rows), default=0)
        whole = heading in IDS and longest <= LONGEST_WHOLE
        table.add_column(
            heading,
            justify="right" if heading in numbers else "left",
            overflow="fold",
            no_wrap=whole,
            min_width=longest if whole else None,
        )
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


def print_plain(rows: Sequence[Sequence[str]]) -> None:
    """One row a line, however long its cells."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    for row in shown:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
