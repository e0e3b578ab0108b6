"""`rota check`: whether a queue is well, for probes and for people."""

from __future__ import annotations

from contextlib import closing

import msgspec
import typer

from rota.cli import options
from rota.cli.exits import FAILED, reporting
from rota.cli.printing import print_rows
from rota.cli.queues import absent, find_queue
from rota.errors import RotaError
from rota.health import Check, Health, signs_of_life
from rota.health import check as check_queue
from rota.queue import Queue
from rota.values.names import visible


def check(
    queues: options.Queues,
    as_json: options.Json = False,
    url: options.Url = None,
) -> None:
    """Say whether queues are well: exit status 0 when all are, 1 when one is not.

    Looked at: whether the server answers, whether work waits without a worker, whether there is
    such a queue (a worker, a job or a setting makes one), whether workers are called and come (the
    doorbell), whether the queue's time is kept and what falls due comes back.
    """
    healthy = True
    for text in dict.fromkeys(queues):
        with reporting():
            queue = find_queue(text, url)
            with closing(queue.sync):
                found = check_queue(queue, workers=True)
                if found.checks[0].ok:
                    found = found.with_others(_life(queue))
        healthy = healthy and found.healthy
        if as_json:
            checks = msgspec.to_builtins(found.checks)
            print_rows([{"queue": queue.name, "healthy": found.healthy, "checks": checks}])
        else:
            _print(queue.name, found)
    if not healthy:
        raise typer.Exit(FAILED)


def _life(queue: Queue) -> Health:
    """Nothing else is wrong with a queue that is not there: its name may be."""
    try:
        there = queue.sync.exists()
    except (RotaError, OSError) as error:
        return Health((Check(f"{queue.name}: server", False, str(error)),))
    found = Health((Check(f"{queue.name}: queue", there, "" if there else absent(queue)),))
    return found.with_others(signs_of_life(queue)) if there else found


def _print(name: str, found: Health) -> None:
    typer.echo(visible(f"{name}: {'healthy' if found.healthy else 'not healthy'}"))
    for one in found.checks:
        what = one.name.removeprefix(f"{name}: ")
        typer.echo(visible(f"  {'ok ' if one.ok else 'BAD'}  {what}: {one.text}".rstrip(": ")))
