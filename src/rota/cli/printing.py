"""What commands print: tables for people, for programs a JSON object a line, whose keys stay."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import typer

from rota.cli.exits import say
from rota.explain import Explanation
from rota.values.figures import LaneShare
from rota.values.model import JobInfo, LaneInfo, QueueInfo
from rota.values.names import text_of, visible
from rota.values.timing import duration

if TYPE_CHECKING:
    from rich.table import Table  # a seventh of a short command's time: imported where it is used

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], object]]
"""A table's headings, each with what stands below it; None and '' are shown as a dash."""
Row = Mapping[str, Any]

IDS = ("id", "head", "consumer")
"""Columns of what is copied from a table: their cells stay on one line."""
LONGEST_WHOLE = 40
"""The longest cell that does; longer ids are a user's own."""


def print_found(
    found: Sequence[T],
    columns: Columns[T],
    nothing: str = "",
    *,
    as_json: bool,
    row: Callable[[T], Row] | None = None,
    ids: Callable[[T], str] | None = None,
    numbers: Collection[str] = (),
) -> None:
    """A listing to standard output: JSON rows, or only `ids`, or a table, fitted to a terminal or
    in plain columns for pipes; `nothing` is said where it is empty.

    `numbers`: the columns that align right.
    """
    if as_json:
        print_rows(map(row or row_of, found))
    elif ids is not None:
        print_ids(map(ids, found))
    elif not found:
        say(nothing)
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(fitted(list(columns), rows(columns, found), numbers=numbers))
    else:
        print_plain([list(columns), *rows(columns, found)])


# ── for programs ────────────────────────────────────────────────────────────────────────────────


def print_rows(rows: Iterable[Row]) -> None:
    for row in rows:
        typer.echo(json_line(row))


def json_line(value: Any) -> str:
    """One line of JSON that anyone may see."""
    return printable_json(msgspec.json.encode(value).decode())


def printable_json(line: str) -> str:
    """With JSON's own escape for what is not printable: that stands in texts only."""
    return line if line.isprintable() else re.sub(r"[^\x20-\x7e]", _escape, line)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


def row_of(thing: Any) -> Row:
    """Of a job, a sequence, a consumer: its fields, a payload as text."""
    row: dict[str, Any] = msgspec.to_builtins(thing, builtin_types=(bytes,))
    if "payload" in row:
        row["payload"] = text_of(row["payload"])
    return row


def queue_row(name: str, prefix: str, info: QueueInfo) -> Row:
    row: dict[str, Any] = msgspec.to_builtins(info)
    del row["served"], row["beat_age"], row["overdue"], row["sealed"]
    return {"queue": name, "prefix": prefix, **row}


def lane_row(lane: LaneInfo) -> Row:
    row: dict[str, Any] = msgspec.to_builtins(lane)
    del row["in_ring"], row["next_wait"]
    return {"lane": row.pop("name"), "state": lane.state, **row}


def share_row(share: LaneShare) -> Row:
    lane = share.lane
    return {
        "name": lane.name,
        "weight": lane.weight,
        "received": share.received,
        "due": share.due,
        "ratio": share.ratio,
        "behind": share.behind,
        "waiting": lane.waiting,
        "running": lane.running,
        "served": lane.served,
        "oldest_wait": lane.oldest_wait,
        "wait_mean": lane.wait_mean,
        "state": lane.state,
    }


def dead_row(job: JobInfo) -> Row:
    row = dict(row_of(job))
    del row["state"]
    first = {"id": row.pop("id"), "died_at": row.pop("due")}
    last = {"error": job.error or "", "worker": job.worker or "", "payload": row.pop("payload")}
    return first | {name: row[name] for name in row if name not in last} | last


def print_ids(ids: Iterable[str]) -> None:
    """As they are where a program reads them, visible on a terminal."""
    for id in ids:
        typer.echo(visible(id) if sys.stdout.isatty() else id)


# ── for people ──────────────────────────────────────────────────────────────────────────────────


def rows(columns: Columns[T], things: Iterable[T]) -> list[tuple[str, ...]]:
    """A table's cells."""
    return [tuple(_cell(value(thing)) for value in columns.values()) for thing in things]


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


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


def print_facts(facts: Mapping[str, object], row: Row, *, as_json: bool = False) -> None:
    """What is known of one thing, a line each, None left out; or its row as JSON."""
    if as_json:
        print_rows([row])
        return
    known = {name: visible(str(value)) for name, value in facts.items() if value is not None}
    width = max(map(len, known))
    for name, value in known.items():
        typer.echo(f"{name.ljust(width)}  {value}".rstrip())


def print_explanation(found: Explanation, *, as_json: bool) -> None:
    """One JSON object, or how it stands, each reason, what frees it."""
    if as_json:
        typer.echo(json_line(found))
        return
    where = f" of lane {found.lane}" if found.kind == "job" and found.lane is not None else ""
    turn = wait = ""
    if found.expected_turn is not None:
        turn = f", turn {'' if found.exact else 'about '}{found.expected_turn:,} from now"
    lines = [f"{found.kind} {found.subject}{where}: {found.state}{turn}"]
    for number, reason in enumerate(found.reasons, start=1):
        lines += [f"  {number}. {reason.text}", f"     frees it: {reason.frees}"]
    if found.lane is not None:
        if found.oldest_wait is not None:
            wait = f", oldest wait {duration(found.oldest_wait)}"
        lines.append(
            f"lane {found.lane}: {found.waiting:,} waiting, {found.delayed:,} delayed, "
            f"{found.running:,} running{wait}"
        )
    for line in lines:
        typer.echo(visible(line))
