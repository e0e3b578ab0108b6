"""The commands of `rota`, and what they share."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rota import __version__
from rota.cli import (
    check,
    dead,
    demo,
    dev,
    doctor,
    enqueue,
    job,
    lane,
    metrics,
    queue,
    sequence,
    top,
    web,
    worker,
    workers,
)
from rota.cli.exits import open_closed_streams, writing
from rota.work.supervisor import Leash


class RootGroup(TyperGroup):
    """Sends `rota worker ls` and its like to their group."""

    steering: Any = None
    """The group of the commands that look at workers."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.steering = self.commands.pop("workers", None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The rule of the base class, but for one word that is a command and a noun."""
        verbs = {} if self.steering is None else self.steering.commands
        if args[0] == "worker" and len(args) > 1 and args[1] in verbs:
            return "worker", self.steering, args[1:]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="rota",
    cls=RootGroup,
    help="A job queue on Valkey/Redis in which many tenants take fair turns.",
    epilog="Exit status: 0 done, 1 failed or not found or not well, 2 wrong usage, 3 the server "
    "cannot be reached, 130 interrupted. ROTA_URL names the server where neither --url nor "
    "the code does.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(given: bool) -> None:
    if given:
        typer.echo(f"rota {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command(epilog="rota worker ls, quiet and stop QUEUE look at workers and steer them.")(
    worker.worker
)
for command in (
    dev.dev,
    web.web,
    enqueue.enqueue,
    metrics.metrics,
    doctor.doctor,
    check.check,
    top.top,
):
    app.command()(command)
app.command(short_help="Watch forty tenants take fair turns, in under 40 seconds.")(demo.demo)
for group in (queue.app, lane.app, sequence.app, job.app, dead.app):
    app.add_typer(group)
app.add_typer(workers.app, name="workers")


def run(leash: Leash | None) -> None:
    """Runs the command the arguments name; `leash` ties a worker to its supervisor."""
    open_closed_streams()
    with writing():
        app(prog_name="rota", obj=leash)
