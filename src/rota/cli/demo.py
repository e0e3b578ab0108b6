"""`rota demo`: forty tenants, one of them flooding, watched in a terminal for a quarter minute."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from rota.cli.exits import SERVER, say
from rota.errors import RotaError

SHORTEST_S, LENGTH_S, LONGEST_S = 3.0, 15.0, 16.0
SLACK_S = 4.0
"""What a slow machine gets on top of twice the time: 36 s at most, then it is stopped."""


def demo(
    seconds: Annotated[
        float,
        typer.Option(min=SHORTEST_S, max=LONGEST_S, help="About how long it runs."),
    ] = LENGTH_S,
    seed: Annotated[int, typer.Option(help="Another seed makes another load.")] = 7,
) -> None:
    """Watch forty tenants take fair turns on a private server, then read what it shows.

    Ends by itself; Ctrl-C ends it sooner. Leaves nothing behind. Exit status: 0, or 1 if
    something was lost or a promise broken, 3 if there is no server program.
    """
    from rich.console import Console

    from rota.demo.load import make_load
    from rota.demo.report import Report
    from rota.demo.run import play
    from rota.demo.summary import print_summary
    from rota.demo.view import open_view
    from rota.embedded import socket_url, temporary_server

    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a dot that the terminal cannot show must not end the demo
    console = Console()
    load, limit = make_load(seed, seconds), 2 * seconds + SLACK_S
    try:
        with temporary_server() as server, open_view(console, len(load)) as show:
            played = asyncio.run(play(load, socket_url(server), limit=limit, show=show))
    except RotaError as error:
        say(f"rota demo: {error}")
        raise typer.Exit(SERVER) from None
    report = Report(*played)
    print_summary(console, report)
    raise typer.Exit(0 if report.is_good else 1)
