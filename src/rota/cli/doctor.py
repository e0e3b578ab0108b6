"""`rota doctor`: checks a queue's invariants and its server, and mends the queue."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import msgspec
import typer

from rota.cli import options
from rota.cli.exits import FAILED, reporting, say
from rota.cli.printing import json_line
from rota.cli.queues import absent, find_queue
from rota.cli.terminal import bar
from rota.doctor import Report
from rota.errors import Unavailable
from rota.values.names import visible


def doctor(
    name: options.Queue,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what is found.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    url: options.Url = None,
) -> None:
    """Check that a queue is sound, while work goes on, and its server's settings.

    Exit 0: all is well. 1: something is wrong with the queue (with --repair: that could not be
    mended), there is none, or a setting of the server endangers it. 2: usage. 3: server.
    """
    with reporting():
        queue = find_queue(name, url)
        with closing(queue.sync), bar(_columns, total=None) as move:

            def progress(step: str, number: int, of: int) -> None:
                move(description=step, completed=number, total=of)

            try:
                there = queue.sync.exists()
            except Unavailable:  # perhaps only refused: the doctor says what its user lacks
                there = True
            report = queue.sync.doctor(repair, progress=progress)
        if as_json:
            typer.echo(json_line(msgspec.to_builtins(report) | {"sound": report.sound}))
        else:
            _print(report)
        if not there:
            say(absent(queue))
        elif not as_json:
            say(f"queue {queue.name}: {_state(report, repair=repair)}")
    if not (there and report.sound):
        raise typer.Exit(FAILED)


def _print(report: Report) -> None:
    """What is wrong to standard output, and the rest for people to standard error."""
    for finding in report.findings:
        typer.echo(visible(f"{'mended' if finding.mended else 'wrong'}  {finding.kind}: {finding}"))
    for advice in report.advice:
        typer.echo(f"{'server' if advice.danger else 'advice'}  {advice.setting}: {advice.text}")
    for sentence in report.unchecked:
        say(f"not checked: {sentence}")


def _state(report: Report, *, repair: bool) -> str:
    text = _summary(report, repair=repair)
    dangers = sum(advice.danger for advice in report.advice)
    if dangers and not report.left:
        settings = "1 setting" if dangers == 1 else f"{dangers} settings"
        text += f", but {settings} of its server endanger{'s' if dangers == 1 else ''} it"
    return text


def _summary(report: Report, *, repair: bool) -> str:
    found, left = report.findings, report.left
    if not found:
        return "nothing found in what could be checked" if report.unchecked else "sound"
    mended = len(found) - len(left)
    if repair:
        rest = f", {len(left)} left" if left else ""
        return f"{mended} mended{rest}"
    things = "1 thing is" if len(left) == 1 else f"{len(left)} things are"
    return f"{things} wrong; --repair mends what it can"


def _columns(rich: Any) -> list[Any]:
    text = rich.TextColumn("{task.description}")
    return [rich.SpinnerColumn(), rich.BarColumn(), text, rich.TimeElapsedColumn()]
