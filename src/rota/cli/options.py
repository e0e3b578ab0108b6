"""Arguments and options that several commands take, each with the same words everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="A queue's name, or module:queue.")
]
LaneArgument = Annotated[str, typer.Argument(metavar="LANE", help="The lane's name.")]
KeyArgument = Annotated[
    str | None,
    typer.Argument(metavar="[KEY]", help="The ordering key; none for an ordered lane (!…)."),
]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]
IdsArgument = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Job ids; - reads them from stdin.")
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        help="The server; overrides the code. [default: the queue's own, else ROTA_URL, "
        "else the embedded one of .rota, where one has run]"
    ),
]
NewUrlOption = Annotated[
    str | None,
    typer.Option(
        help="The server; overrides the code. [default: the queue's own, else ROTA_URL, "
        "else embedded in .rota]"
    ),
]
"""The same of what may start an embedded server."""
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
IdsOption = Annotated[bool, typer.Option("--ids", help="Only ids, one a line.")]
LimitOption = Annotated[int, typer.Option(help="The most to show.")]
LaneOption = Annotated[str | None, typer.Option("--lane", help="Only those of this lane.")]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only those of this task.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count what it would do.")]
ByOption = Annotated[
    str | None, typer.Option(envvar="ROTA_BY", help="Who does it; kept, to be looked up later.")
]
ReasonOption = Annotated[str | None, typer.Option(help="Why; kept, to be looked up later.")]
ForOption = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="How long: 90, 90s, 15m, 1h30m, 2d.")
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        metavar="INSTANT", help="Until when: 2026-01-31T12:00Z, with a time zone, or Unix seconds."
    ),
]
