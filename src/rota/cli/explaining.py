"""How an explanation is printed."""

from __future__ import annotations

import msgspec
import typer

from rota.cli.tables import one_line
from rota.explain import Explanation
from rota.timing import duration


def print_explanation(found: Explanation, *, as_json: bool) -> None:
    """To standard output: one JSON object, or how it stands, each reason, what frees it."""
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    typer.echo(_headline(found))
    for number, reason in enumerate(found.reasons, start=1):
        typer.echo(one_line(f"  {number}. {reason.text}"))
        typer.echo(f"     frees it: {reason.frees}")
    if found.lane is not None:
        typer.echo(f"lane {found.lane}: {_figures(found)}")


def _headline(found: Explanation) -> str:
    where = f" of lane {found.lane}" if found.kind == "job" and found.lane is not None else ""
    turn = ""
    if found.expected_turn is not None:
        turn = f", turn {'' if found.exact else 'about '}{found.expected_turn:,} from now"
    return f"{found.kind} {found.subject}{where}: {found.state}{turn}"


def _figures(found: Explanation) -> str:
    wait = "" if found.oldest_wait is None else f", oldest wait {duration(found.oldest_wait)}"
    return f"{found.waiting:,} waiting, {found.delayed:,} delayed, {found.running:,} running{wait}"
