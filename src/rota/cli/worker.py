"""`rota worker`: runs a worker in this process, or several processes of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer

from rota import __version__
from rota.cli import options
from rota.cli.exits import USAGE, fail, reporting, say
from rota.cli.logs import LogFormat, LogLevel, log_to_stderr
from rota.cli.metrics import LOOPBACK, check_port, require_metrics
from rota.cli.queues import import_queue
from rota.cli.serving import serve
from rota.queue import Queue
from rota.values import config
from rota.values.config import WorkerConfig
from rota.values.telling import Logger
from rota.work.supervisor import MAX_PROCESSES, Leash, Supervisor
from rota.worker import Worker

logger = Logger("rota.worker")


def worker(
    context: typer.Context,
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE:QUEUE...",
            help="The queues to work on, such as app:queue for `queue = rota.Queue(…)` in app.py.",
        ),
    ],
    concurrency: Annotated[
        int,
        typer.Option(
            "-c",
            "--concurrency",
            envvar="ROTA_CONCURRENCY",
            help="Slots: jobs at once in each process, shared by its queues.",
        ),
    ] = config.CONCURRENCY,
    processes: Annotated[
        int,
        typer.Option("-p", "--processes", envvar="ROTA_PROCESSES", help="Worker processes."),
    ] = 1,
    lease: Annotated[
        float,
        typer.Option(
            envvar="ROTA_LEASE",
            help="Seconds without a heartbeat until others take a dead worker's jobs.",
        ),
    ] = config.LEASE_S,
    grace: Annotated[
        float,
        typer.Option(
            envvar="ROTA_GRACE", help="Seconds a stop waits for running jobs; the rest goes back."
        ),
    ] = config.GRACE_S,
    prefetch: Annotated[
        int,
        typer.Option(
            envvar="ROTA_PREFETCH", help="Jobs taken at once from a sequence with an ordering key."
        ),
    ] = config.PREFETCH,
    burst: Annotated[
        bool,
        typer.Option("--burst", envvar="ROTA_BURST", help="End when nothing is claimable."),
    ] = False,
    url: options.NewUrl = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            envvar="ROTA_METRICS_PORT",
            help="Serve /metrics, /healthz and /readyz here; the n-th of several processes on the "
            "n-th port from here on. 0: any that is free. [default: not at all]",
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(envvar="ROTA_METRICS_HOST", help="Where that port listens.")
    ] = LOOPBACK,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            envvar="ROTA_LOG_FORMAT",
            help="json: an object a line. [default: the code's own set-up, else console]",
        ),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(
            envvar="ROTA_LOG_LEVEL",
            help="warning: no line for each job that is done. [default: the code's, else info]",
        ),
    ] = None,
) -> None:
    """Run the jobs of queues until stopped.

    SIGTERM, SIGHUP or Ctrl-C stop gently: nothing more is claimed, running jobs may finish within
    the grace period, the rest goes back uncounted. A second one, of any of them, cancels what runs
    and gives it back within 2 seconds; a third ends the process as it is.

    Exit status: 0 stopped, or a burst is through; 1 it failed; 2 wrong usage; 3 the server cannot
    be reached at the start; 70 its event loop hung; 130 a second signal cut it short. With -p 0
    where all processes ended with 0, else the first other.
    """
    leash: Leash | None = context.obj
    set_up_logs = partial(log_to_stderr, log_format, log_level)
    with reporting():
        limits = WorkerConfig(concurrency=concurrency, prefetch=prefetch, lease=lease, grace=grace)
        config.whole(processes, 1, MAX_PROCESSES, "processes")
        if metrics_port is not None:
            check_port(metrics_port + (processes - 1 if metrics_port else 0))
            check_port(metrics_port)
        if processes > 1 and leash is None:
            set_up_logs()
            command = [sys.executable, "-m", "rota", *sys.argv[1:]]
            parent = Supervisor(command, count=processes, grace=limits.grace, burst=burst)
            raise typer.Exit(asyncio.run(parent.run()))
        queues = {target: import_queue(target, url) for target in dict.fromkeys(targets)}
        set_up_logs()
        running = Worker(
            queues.values(), concurrency=concurrency, prefetch=prefetch, lease=lease, grace=grace
        )
        if leash is None or leash.introduces:
            _introduce(queues, concurrency, processes)
        if leash is not None:
            leash.say("introduced")
        number = 1 if leash is None else leash.number
        with _metrics(running, metrics_host, metrics_port, number):
            code = serve(running, burst=burst, leash=leash, set_up_logs=set_up_logs)
    raise typer.Exit(code)


@contextmanager
def _metrics(worker: Worker, host: str, first: int | None, number: int) -> Iterator[None]:
    """Serves the metrics of this process, the `number`-th, meanwhile. `first`: the port of the
    first process; the others take the ports behind it."""
    if first is None:
        yield
        return
    require_metrics()
    from rota.metrics import Endpoint, worker_collector

    port = first + number - 1 if first else 0
    with Endpoint(worker_collector(worker), worker.health, host=host, port=port) as endpoint:
        logger.info("metrics at %s/metrics", endpoint.url)
        yield


def _introduce(queues: Mapping[str, Queue], concurrency: int, processes: int) -> None:
    """What this worker is, on stderr."""
    several = processes > 1
    say(f"rota {__version__} worker")
    for target, queue in queues.items():
        say(f"  queue      {queue.name} ({target}): {_tasks(queue)}")
        say(f"  server     {queue.server}")
    say(f"  slots      {concurrency}{' each' if several else ''}")
    say(f"  processes  {processes} (pid {os.getppid() if several else os.getpid()})")


def _tasks(queue: Queue) -> str:
    names = sorted(queue.tasks)
    if not names:
        fail(
            f"queue {queue.name} has no tasks: are the modules with its @queue.task functions "
            "imported by the module given?",
            USAGE,
        )
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
