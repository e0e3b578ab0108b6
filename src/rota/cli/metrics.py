"""`rota metrics`: the exporter of queues' figures for Prometheus."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from contextlib import ExitStack
from typing import Annotated

import typer

from rota.cli import options
from rota.cli.exits import FAILED, SERVER, USAGE, fail, reporting, say
from rota.cli.queues import absent, find_queue
from rota.values.config import whole

LOOPBACK = "127.0.0.1"
PORT = 9464
ONCE_S = 60.0
"""How long `--once` waits for the figures of lanes."""


def metrics(
    queues: options.Queues,
    host: Annotated[
        str, typer.Option(envvar="ROTA_METRICS_HOST", help="Where to listen.")
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option(envvar="ROTA_METRICS_PORT", help="0: any that is free.")
    ] = PORT,
    top: Annotated[
        int,
        typer.Option(
            envvar="ROTA_METRICS_TOP",
            help="Lanes to tell of by name: those that wait longest; all others together.",
        ),
    ] = 0,
    once: Annotated[
        bool, typer.Option("--once", help="Print the metrics to standard output and end.")
    ] = False,
    url: options.Url = None,
) -> None:
    """Serve the figures of queues to Prometheus at /metrics, and /healthz and /readyz.

    One exporter for each queue, or its numbers count twice; workers' own numbers come from their
    ports (`rota worker --metrics-port`). Ends with 0 on SIGTERM or Ctrl-C; with --once, 3 where a
    server does not answer, 1 where there is no such queue.
    """
    with reporting():
        require_metrics()
        from rota.metrics import Endpoint, collector, exposition

        check_port(port)
        found = [find_queue(text, url) for text in dict.fromkeys(queues)]
        with ExitStack() as stack:
            source = collector(*found, top=top, patience=ONCE_S if once else 1.0)
            stack.callback(source.close)
            if once:
                sys.stdout.write(exposition(source))
                if not source.health().healthy:
                    raise typer.Exit(SERVER)
                for queue in found:
                    stack.callback(queue.sync.close)
                    if not queue.sync.exists():
                        fail(absent(queue), FAILED)
                return
            endpoint = Endpoint(source, source.health, host=host, port=port)
            stack.enter_context(endpoint)
            names = ", ".join(queue.name for queue in found)
            say(f"rota metrics of {names}: {endpoint.url}/metrics")
            _until_stopped()


def require_metrics() -> None:
    """Where the library is not installed, says what to install, and ends."""
    try:
        importlib.import_module("rota.metrics")
    except ModuleNotFoundError as error:
        fail(str(error), USAGE)


def check_port(port: int) -> int:
    return whole(port, 0, 65_535, "metrics port")


def _until_stopped() -> None:
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
