"""A command's work on a queue: opened, its errors told, closed; asked before, counted meanwhile."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

import typer

from rota.cli.exits import FAILED, fail, reporting
from rota.cli.queues import absent, find_queue, is_there
from rota.errors import ConfigError, RotaError
from rota.queue import Queue

PATIENCE_S = 1.0
"""How long something may take before it is shown that it goes on."""
LOOK_S = 0.5


@contextlib.contextmanager
def opened(text: str, url: str | None, *, new: bool = False) -> Iterator[Queue]:
    """The queue of that name or module; whatever rota raises becomes a line and an exit code.

    Where there is nothing of it, that is said, and the exit code is 1; `new`: it may be so.
    """
    with reporting():
        queue = find_queue(text, url)
        try:
            if not new and not is_there(queue):
                fail(absent(queue), FAILED)
            yield queue
        finally:
            queue.sync.close()


def confirm(queue: Queue, question: str, *, yes: bool, dry_run: bool = False) -> None:
    """Asks on a terminal, naming queue and server; where there is none, it wants --yes."""
    if yes or dry_run:
        return
    asked = f"queue {queue.name} on {queue.link.target.display}: {question}"
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


def state_of(queue: Queue, id: str) -> str:
    """What --dry-run goes by: where the job stands, `none` where there is none."""
    found = queue.sync.job(id).info()
    return "none" if found is None else found.state


@contextlib.contextmanager
def progress(
    title: str, total: int | None = None, left: Callable[[], int] | None = None
) -> Iterator[None]:
    """Shows on a terminal's stderr that something goes on, once it has taken a second.

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
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    counted = (MofNCompleteColumn(),) if total is not None else ()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *counted,
        Elapsed(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(title, total=total)
        while not ended.wait(LOOK_S):
            if total is not None and left is not None:
                with contextlib.suppress(RotaError):
                    bars.update(bar, completed=max(0, total - left()))
