"""How an explanation is printed."""

from __future__ import annotations

import typer

from rota.cli.rows import json_line
from rota.explain import Explanation
from rota.values.names import visible
from rota.values.timing import duration


def print_explanation(found: Explanation, *, as_json: bool) -> None:
    """To standard output: one JSON object, or how it stands, each reason, what frees it."""
    if as_json:
        typer.echo(json_line(found))
        return
    lines = [_headline(found)]
    for number, reason in enumerate(found.reasons, start=1):
        lines += [f"  {number}. {reason.text}", f"     frees it: {reason.frees}"]
    if found.lane is not None:
        lines.append(f"lane {found.lane}: {_figures(found)}")
    for line in lines:
        typer.echo(visible(line))


def _headline(found: Explanation) -> str:
    where = f" of lane {found.lane}" if found.kind == "job" and found.lane is not None else ""
    turn = ""
    if found.expected_turn is not None:
        turn = f", turn {'' if found.exact else 'about '}{found.expected_turn:,} from now"
    return f"{found.kind} {found.subject}{where}: {found.state}{turn}"


def _figures(found: Explanation) -> str:
    wait = "" if found.oldest_wait is None else f", oldest wait {duration(found.oldest_wait)}"
    return f"{found.waiting:,} waiting, {found.delayed:,} delayed, {found.running:,} running{wait}"
