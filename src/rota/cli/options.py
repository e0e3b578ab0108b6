"""Nouns, and the arguments and options that several commands take, in the same words everywhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def noun(name: str, help: str) -> typer.Typer:
    """A group of commands about one thing."""
    app = typer.Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(lambda: None)
    return app


def _url(where: str) -> Any:
    return typer.Option(
        help="The server; overrides the code. [default: the queue's own, else ROTA_URL, "
        f"else {where}]"
    )


Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="A queue's name, or module:queue.")]
Queues = Annotated[
    list[str], typer.Argument(metavar="QUEUE...", help="Queues' names, or module:queue.")
]
Lane = Annotated[str, typer.Argument(metavar="LANE", help="The lane's name.")]
Key = Annotated[
    str | None,
    typer.Argument(metavar="[KEY]", help="The ordering key; none for an ordered lane (!…)."),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]
Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Job ids; - reads them from stdin.")
]
Url = Annotated[str | None, _url("the embedded one of .rota, where one has run")]
NewUrl = Annotated[str | None, _url("embedded in .rota")]
"""The same of what may start an embedded server."""
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
IdsOnly = Annotated[bool, typer.Option("--ids", help="Only ids, one a line.")]
Limit = Annotated[int, typer.Option(help="The most to show.")]
OfLane = Annotated[str | None, typer.Option("--lane", help="Only those of this lane.")]
OfTask = Annotated[str | None, typer.Option("--task", help="Only those of this task.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what it would do.")]
By = Annotated[
    str | None, typer.Option(envvar="ROTA_BY", help="Who does it; kept, to be looked up later.")
]
Reason = Annotated[str | None, typer.Option(help="Why; kept, to be looked up later.")]
For = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="How long: 90, 90s, 15m, 1h30m, 2d.")
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="INSTANT", help="Until when: 2026-01-31T12:00Z, with a time zone, or Unix seconds."
    ),
]
