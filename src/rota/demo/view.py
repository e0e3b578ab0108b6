"""How the running demo looks: a live table of lanes in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol

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


class View(Protocol):
    def __enter__(self) -> View: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None: ...

    def show(self, sight: Sight) -> None: ...


def duration(seconds: float | None) -> str:
    """Short, for people: `4 ms`, `0.85 s`, `12.3 s`."""
    if seconds is None:
        return "-"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def open_view(console: Console, jobs: int) -> View:
    """The live table where there is a terminal that can show one."""
    if sys.stdout.isatty() and console.is_interactive:
        return LiveView(console, jobs)
    return PlainView(console, jobs)


class PlainView:
    """A line every other second."""

    def __init__(self, console: Console, jobs: int) -> None:
        self._console = console
        self._jobs = jobs
        self._next = 0.0

    def __enter__(self) -> PlainView:
        self._print(
            f"rota demo: {len(TENANTS)} tenants, {self._jobs:,} jobs, {SLOTS} slots; "
            f"{FLOODER} floods the queue and may run {CEILING} at once"
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        pass

    def show(self, sight: Sight) -> None:
        if sight.elapsed < self._next:
            return
        self._next += PLAIN_EVERY_S
        self._print(
            f"{sight.elapsed:5.1f} s   in {len(sight.book.sent):>5,}   "
            f"done {sight.book.done.total():>5,}   running {sight.book.busy:>2}   "
            f"waiting: {FLOODER} {sight.waiting(FLOODER):>5,}, "
            f"others {sight.waiting(*SMALL):>3,}   "
            f"median wait: {FLOODER} {duration(sight.book.median_wait(FLOODER))}, "
            f"others {duration(sight.book.median_wait(*SMALL))}"
        )

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)
        self._console.file.flush()


class LiveView:
    """The table of lanes, redrawn in place; its last state stays on the screen."""

    def __init__(self, console: Console, jobs: int) -> None:
        self._console = console
        self._jobs = jobs
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, sight: Sight) -> None:
        rows = max(2, min(LANES_SHOWN, self._console.height - OTHER_LINES))
        self._live.update(
            Group(_headline(), _table(sight, rows), Text(), self._footer(sight)), refresh=True
        )

    def _footer(self, sight: Sight) -> Table:
        done = sight.book.done.total()
        bar = ProgressBar(
            total=self._jobs,
            completed=done,
            width=22,
            style="bright_black",
            complete_style="green",
            finished_style="green",
        )
        figures = Text.assemble(
            f"  {done:,}", (" of ", "dim"), f"{self._jobs:,}", (" done   ", "dim"),
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
