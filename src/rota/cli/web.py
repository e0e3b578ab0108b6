"""`rota web`: the dashboard of queues, served by itself."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Annotated

import typer

from rota.cli import options
from rota.cli.exits import USAGE, fail, reporting, say
from rota.cli.logs import log_to_stderr
from rota.cli.queues import find_queue
from rota.errors import ConfigError
from rota.values.config import whole

USER, PASSWORD = "ROTA_WEB_USER", "ROTA_WEB_PASSWORD"

TrustedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-host",
        envvar="ROTA_WEB_TRUSTED_HOST",
        metavar="NAME",
        help="A name it is reached by, such as queue.example; *.example: all below. Repeatable.",
    ),
]


def web(
    queues: options.Queues,
    host: Annotated[
        str, typer.Option(envvar="ROTA_WEB_HOST", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="ROTA_WEB_PORT", help="The port; 0 takes a free one.")
    ] = 8080,
    read_only: Annotated[
        bool, typer.Option("--read-only", envvar="ROTA_WEB_READ_ONLY", help="Refuse all changes.")
    ] = False,
    root_path: Annotated[
        str,
        typer.Option(
            envvar="ROTA_WEB_ROOT_PATH",
            help="The prefix a proxy in front takes off, such as /jobs.",
        ),
    ] = "",
    trusted_hosts: TrustedHosts = None,
    trusted_proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            envvar="ROTA_WEB_TRUSTED_PROXY",
            metavar="ADDRESS",
            help="A proxy in front, or a network of them, whose X-Forwarded-For and -Host are "
            "believed. Repeatable.",
        ),
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log", envvar="ROTA_WEB_ACCESS_LOG", help="Log each request.")
    ] = False,
    url: options.Url = None,
) -> None:
    """Serve a dashboard: lanes and who waits because of whom, jobs, dead, workers, health.

    With ROTA_WEB_USER and ROTA_WEB_PASSWORD in the environment it asks for them. Without, it
    answers only to addresses and to names of --trusted-host, and is read-only for everyone but
    browsers on this machine. Also /healthz, /readyz and /metrics. Each change is a line of the
    logger rota.audit, on stderr.
    """
    with reporting():
        whole(port, 0, 65_535, "port")
        needs_web()
        from rota.web import dashboard
        from rota.web.origin import is_loopback
        from rota.web.server import Server, address_of, listen, serve_until_told

        auth = credentials()
        first, *others = [find_queue(name, url) for name in dict.fromkeys(queues)]
        app = dashboard(
            first,
            *others,
            auth=auth,
            read_only=True if read_only else None,
            trusted_hosts=trusted_hosts or (),
            trusted_proxies=trusted_proxies or (),
        )
        server = Server(app, root_path=root_path, access_log=access_log)
        listening = listen(host, port)
        log_to_stderr()
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        names = ", ".join(queue.name for queue in (first, *others))
        say(f"rota web: {names} on {address_of(listening)}")
        if auth is None and not is_loopback(listening.getsockname()[0]):
            say(f"  anyone who reaches it may read; {USER} and {PASSWORD} ask for a password")
        asyncio.run(serve_until_told(server, listening))


def credentials() -> tuple[str, str] | None:
    """From the environment only: a command line is read by everybody on the machine."""
    user, password = os.environ.get(USER, ""), os.environ.get(PASSWORD, "")
    if bool(user) != bool(password):
        raise ConfigError(f"expected {USER} and {PASSWORD} together, given one of them")
    return (user, password) if user else None


def needs_web() -> None:
    """Says what is missing, before anything is started."""
    try:
        import uvicorn  # noqa: F401

        import rota.web  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "rota":
            raise
        fail(f"the dashboard needs {error.name}; install it with: pip install 'rota[web]'", USAGE)
