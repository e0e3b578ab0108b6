"""The person at the terminal: asked before something is destroyed, shown that something goes on."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer

from rota.errors import ConfigError, RotaError
from rota.queue import Queue

PATIENCE_S = 1.0
"""How long something may take before it is shown that it goes on."""
LOOK_S = 0.5

Bar = Callable[..., None]
"""Moves a bar on: `completed`, `total`, `description`, a column's own fields."""


def confirm(queue: Queue, question: str, *, yes: bool, dry_run: bool = False) -> None:
    """Asks on a terminal, naming queue and server; where there is none, it wants --yes."""
    if yes or dry_run:
        return
    asked = f"queue {queue.name} on {queue.server}: {question}"
    if not sys.stdin.isatty():
        raise ConfigError(
            f"nobody is here to answer: {asked}\n  Add --yes, or --dry-run to count first."
        )
    typer.confirm(asked, abort=True, err=True)


def given_ids(ids: Sequence[str]) -> list[str]:
    """The ids of the command line, or with - those of standard input, one a line."""
    if list(ids) != ["-"]:
        return list(ids)
    return [line.strip() for line in sys.stdin if line.strip()]


@contextlib.contextmanager
def bar(columns: Callable[[Any], Sequence[Any]], title: str = "", **fields: Any) -> Iterator[Bar]:
    """A bar on stderr where that is a terminal. `columns` makes them from `rich.progress`, which is
    imported only there."""
    if not sys.stderr.isatty():
        yield lambda **told: None
        return
    import rich.progress
    from rich.console import Console

    console = Console(stderr=True)
    with rich.progress.Progress(*columns(rich.progress), console=console, transient=True) as shown:
        task = shown.add_task(title, **fields)
        yield lambda **told: shown.update(task, **told)


@contextlib.contextmanager
def progress(
    title: str, total: int | None = None, left: Callable[[], int] | None = None
) -> Iterator[None]:
    """Shows that something goes on, once it has taken a second.

    With `total` and `left`, which asks how much is left, it is a bar.
    """
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    shown = threading.Thread(target=_show, args=(title, total, left, ended), daemon=True)
    shown.start()
    try:
        yield
    finally:
        ended.set()
        shown.join()


def _show(
    title: str, total: int | None, left: Callable[[], int] | None, ended: threading.Event
) -> None:
    if ended.wait(PATIENCE_S):
        return

    def columns(rich: Any) -> list[Any]:
        counted = [] if total is None else [rich.MofNCompleteColumn()]
        text = rich.TextColumn("{task.description}", markup=False)
        return [rich.SpinnerColumn(), text, rich.BarColumn(), *counted, rich.TimeElapsedColumn()]

    with bar(columns, title, total=total) as move:
        while not ended.wait(LOOK_S):
            if total is not None and left is not None:
                with contextlib.suppress(RotaError):
                    move(completed=max(0, total - left()))
