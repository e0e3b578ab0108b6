"""`rota doctor`: checks a queue's invariants and its server, and mends the queue."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
import typer

from rota.cli.exits import FAILED, reporting, say
from rota.cli.options import UrlOption
from rota.cli.queues import absent, find_queue, is_there
from rota.cli.rows import json_line
from rota.doctor import Finding, Progress, Report
from rota.errors import Unavailable
from rota.values.names import visible


def doctor(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="A queue's name, or module:queue.")],
    repair: Annotated[bool, typer.Option("--repair", help="Mend what is found.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    url: UrlOption = None,
) -> None:
    """Check that a queue is sound, while work goes on, and its server's settings.

    Exit 0: all is well. 1: something is wrong with the queue (with --repair: that could not be
    mended), there is none, or a setting of the server endangers it. 2: usage. 3: server.
    """
    with reporting():
        target = find_queue(queue, url)
        try:
            try:
                there = is_there(target)
            except Unavailable:  # perhaps only refused: the doctor says what its user lacks
                there = True
            with _progress() as progress:
                report = target.link.client.run(
                    target.link.doctor.examine(
                        repair=repair, park_s=target.station.beat, progress=progress
                    )
                )
        finally:
            target.sync.close()
        if as_json:
            typer.echo(_json(report))
        else:
            _print(report)
        if not there:
            say(absent(target))
        elif not as_json:
            say(f"queue {target.name}: {_state(report, repair=repair)}")
    if not (there and report.sound):
        raise typer.Exit(FAILED)


def _json(report: Report) -> str:
    row = msgspec.to_builtins(report) | {"sound": report.sound}
    return json_line(row)


def _print(report: Report) -> None:
    """What is wrong to standard output, and the rest for people to standard error."""
    for finding in report.findings:
        typer.echo(_line(finding))
    for advice in report.advice:
        typer.echo(f"{'server' if advice.danger else 'advice'}  {advice.setting}: {advice.text}")
    for sentence in report.unchecked:
        say(f"not checked: {sentence}")


def _state(report: Report, *, repair: bool) -> str:
    text = _summary(report.findings, report.left, repair=repair)
    dangers = sum(advice.danger for advice in report.advice)
    if dangers and not report.left:
        settings = "1 setting" if dangers == 1 else f"{dangers} settings"
        text += f", but {settings} of its server endanger{'s' if dangers == 1 else ''} it"
    return text


def _line(finding: Finding) -> str:
    return visible(f"{'mended' if finding.mended else 'wrong'}  {finding.kind}: {finding}")


def _summary(found: Sequence[Finding], left: Sequence[Finding], *, repair: bool) -> str:
    if not found:
        return "sound"
    mended = len(found) - len(left)
    if repair:
        rest = f", {len(left)} left" if left else ""
        return f"{mended} mended{rest}"
    things = "1 thing is" if len(left) == 1 else f"{len(left)} things are"
    return f"{things} wrong; --repair mends what it can"


@contextlib.contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        bar = shown.add_task("", total=None)
        yield lambda step, number, of: shown.update(
            bar, description=step, completed=number, total=of
        )
