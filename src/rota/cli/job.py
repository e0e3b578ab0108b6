"""`rota job`: looks at one job."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.exits import FAILED, fail, reporting
from rota.cli.explaining import print_explanation
from rota.cli.targets import find_queue

app = typer.Typer(
    name="job",
    help="Look at one job.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="A queue's name, or module:queue.")
]
UrlOption = Annotated[str | None, typer.Option(help="The server; overrides the code.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.callback()
def _job() -> None:
    pass


@app.command(name="explain")
def explain(
    queue: QueueArgument,
    id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    as_json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Say why a job is not running now, and what would free it, the decisive reason first.

    Exit status 1 when there is no such job: never enqueued, or done.
    """
    with reporting():
        target = find_queue(queue, url)
        try:
            found = target.sync.job(id).explain()
        finally:
            target.sync.close()
        if found is None:
            fail(f"queue {target.name} has no job {id}: never enqueued, or done", FAILED)
        print_explanation(found, as_json=as_json)
