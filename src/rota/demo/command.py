"""`rota demo`: forty tenants, one of them flooding, watched in a terminal for a quarter minute."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Annotated

import typer
from rich.console import Console

from rota.demo.load import make_load
from rota.demo.report import Report, reckon
from rota.demo.run import Stage, play
from rota.demo.summary import print_summary
from rota.demo.view import open_view
from rota.embedded import socket_url, temporary_server
from rota.errors import RotaError

SHORTEST_S, LENGTH_S, LONGEST_S = 3.0, 15.0, 16.0
SLACK_S = 4.0
"""What a slow machine gets on top of twice the time: 36 s at most, then it is stopped."""
NO_SERVER = 3
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a dot that the terminal cannot show must not end the demo
    console = Console()
    try:
        report = _run(console, seconds, seed)
    except RotaError as error:
        typer.echo(f"rota demo: {error}", err=True)
        raise typer.Exit(NO_SERVER) from None
    print_summary(console, report)
    raise typer.Exit(0 if report.is_good else 1)


def _run(console: Console, seconds: float, seed: int) -> Report:
    load = make_load(seed, seconds)
    with temporary_server() as server:
        stage = Stage(load, socket_url(server))
        return asyncio.run(_play(stage, console, limit=2 * seconds + SLACK_S))


async def _play(stage: Stage, console: Console, *, limit: float) -> Report:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        stop.set()
        for one in STOPPING:  # a second signal ends it at once
            loop.remove_signal_handler(one)

    for one in STOPPING:
        loop.add_signal_handler(one, end)
    with open_view(console, len(stage.specs)) as show:
        ended, elapsed, info = await play(stage, limit=limit, stop=stop, show=show)
    return reckon(stage.book, end=ended, elapsed=elapsed, info=info)


if __name__ == "__main__":
    typer.run(demo)
