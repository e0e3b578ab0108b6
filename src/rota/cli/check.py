"""`rota check`: whether a queue is well, for probes and for people."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
import typer

from rota.cli.exits import FAILED, reporting
from rota.cli.options import JsonOption, UrlOption
from rota.cli.rows import print_rows
from rota.cli.targets import find_queue, nothing_of
from rota.errors import RotaError
from rota.health import Health, signs_of_life
from rota.health import check as check_queue
from rota.names import visible
from rota.queue import Queue


def check(
    queues: Annotated[
        list[str], typer.Argument(metavar="QUEUE...", help="Queues' names, or module:queue.")
    ],
    as_json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Say whether queues are well: exit status 0 when all are, 1 when one is not.

    Looked at: whether the server answers, whether work waits without a worker, whether workers are
    called and come (the doorbell), whether the queue's time is kept and what falls due comes back.
    """
    healthy = True
    for text in dict.fromkeys(queues):
        with reporting():
            queue = find_queue(text, url)
            try:
                found = check_queue(queue, workers=True)
                if found.checks[0].ok:
                    found = _with_absence(queue, found).with_others(signs_of_life(queue))
            finally:
                queue.sync.close()
        healthy = healthy and found.healthy
        if as_json:
            checks = msgspec.to_builtins(found.checks)
            print_rows([{"queue": queue.name, "healthy": found.healthy, "checks": checks}])
        else:
            _print(queue.name, found)
    if not healthy:
        raise typer.Exit(FAILED)


def _with_absence(queue: Queue, found: Health) -> Health:
    """A queue that is not there has nothing wrong with it: its name may be."""
    server, *others = found.checks
    try:
        if queue.link.run_sync(queue.link.inspector.exists()):
            return found
    except (RotaError, OSError) as error:
        return Health((replace(server, ok=False, text=str(error)), *others))
    text = f"{server.text}; {nothing_of(queue)}"
    return Health((replace(server, text=text), *others))


def _print(name: str, found: Health) -> None:
    typer.echo(visible(f"{name}: {'healthy' if found.healthy else 'not healthy'}"))
    for one in found.checks:
        what = one.name.removeprefix(f"{name}: ")
        typer.echo(visible(f"  {'ok ' if one.ok else 'BAD'}  {what}: {one.text}".rstrip(": ")))
