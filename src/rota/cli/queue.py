"""`rota queue`: the queues of a server, as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from rota.cli.exits import reporting, say
from rota.cli.options import (
    ByOption,
    DryRunOption,
    ForOption,
    JsonOption,
    QueueArgument,
    ReasonOption,
    UntilOption,
    UrlOption,
    YesOption,
)
from rota.cli.printing import print_facts, print_table
from rota.cli.queues import expect_server
from rota.cli.root import noun
from rota.cli.rows import print_rows, queue_row
from rota.cli.terminal import confirm, opened, progress
from rota.cli.times import end_of, when
from rota.link import Link
from rota.script.keys import DEFAULT_PREFIX, Keys
from rota.store.inspector import Inspector, find_queues
from rota.values.model import QueueInfo

app = noun("queue", "Look at queues as a whole, pause and empty them.")
HEADINGS = ("queue", "waiting", "running", "delayed", "dead", "lanes", "workers", "state")


@app.command(name="ls")
def ls(as_json: JsonOption = False, url: UrlOption = None) -> None:
    """Show the queues on a server: on a cluster, of all its nodes.

    It looks through all keys of the server, some at a time.
    """
    with reporting():
        link = Link(Keys("any"), url)  # every queue of the server is reached by it
        expect_server(link)
        try:
            with progress("looking through the server's keys"):
                found = sorted(_queues(link), key=lambda pair: pair[0].root)
            display = link.target.display
        finally:
            link.close_sync()
    if as_json:
        print_rows(queue_row(keys, info) for keys, info in found)
    elif found:
        print_table(HEADINGS, [_cells(*pair) for pair in found], numbers=HEADINGS[1:-1])
    else:
        say(f"no queues on {display}")


def _queues(link: Link) -> Iterator[tuple[Keys, QueueInfo]]:
    seen: set[str] = set()
    cursor, first = "", True
    while cursor or first:
        cursor, page = link.run_sync(find_queues(cursor))
        first = False
        for keys in page:
            if keys.root not in seen:
                seen.add(keys.root)
                yield keys, link.run_sync(Inspector(keys).queue())


def _cells(keys: Keys, info: QueueInfo) -> tuple[str, ...]:
    return (
        keys.queue if keys.prefix == DEFAULT_PREFIX else f"{keys.queue} (prefix {keys.prefix})",
        str(info.waiting),
        str(info.running),
        str(info.delayed),
        str(info.dead),
        str(info.lanes_waiting),
        str(info.consumers),
        info.state,
    )


@app.command(name="show")
def show(queue: QueueArgument, as_json: JsonOption = False, url: UrlOption = None) -> None:
    """Show one queue: its totals, its limits, whether it is paused, why and by whom."""
    with opened(queue, url) as target:
        info = target.sync.info()
        if as_json:
            print_rows([queue_row(target.link.keys, info)])
            return
        ceiling = "no ceiling" if info.ceiling is None else f"ceiling {info.ceiling}"
        print_facts(
            [
                ("queue", target.name),
                ("server", target.link.target.display),
                ("state", info.state),
                ("paused until", when(info.paused_until)),
                ("reason", info.pause_reason),
                ("by", info.paused_by),
                ("waiting", f"{info.waiting:,} in {info.lanes_waiting:,} lanes"),
                ("running", f"{info.running:,} ({info.permits:,} entries, {ceiling})"),
                ("delayed", f"{info.delayed:,}"),
                ("dead", f"{info.dead:,}"),
                ("lanes", f"{info.lanes_ready:,} ready, {info.lanes_paused:,} paused"),
                ("consumers", f"{info.consumers:,}"),
                ("default ceiling", _or_none(info.default_ceiling)),
                ("default weight", _or_none(info.default_weight)),
                *((f"  {name}", f"{n:,}") for name, n in sorted(info.totals.items())),
            ]
        )


def _or_none(value: object) -> str | None:
    return None if value is None else str(value)


@app.command(name="pause")
def pause(
    queue: QueueArgument,
    reason: ReasonOption = None,
    by: ByOption = None,
    for_: ForOption = None,
    until: UntilOption = None,
    url: UrlOption = None,
) -> None:
    """Hand out nothing of the whole queue until it is resumed, or until a time.

    What is in flight goes on; jobs may be enqueued.
    """
    with opened(queue, url, new=True) as target:
        target.sync.pause(reason=reason, by=by, until=end_of(for_, until))
        say(f"queue {target.name} is paused")


@app.command(name="resume")
def resume(queue: QueueArgument, url: UrlOption = None) -> None:
    """End a pause of the queue. Pauses of its lanes stay."""
    with opened(queue, url) as target:
        was = target.sync.resume()
        say(f"queue {target.name} {'is resumed' if was else 'was not paused'}")


@app.command(name="purge")
def purge(
    queue: QueueArgument,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    url: UrlOption = None,
) -> None:
    """Delete what waits and what is delayed in the whole queue, for good.

    Jobs enqueued meanwhile may go or stay. What is in flight goes on, and dead jobs stay.
    """
    with opened(queue, url) as target:
        confirm(target, "Delete all waiting and delayed jobs?", yes=yes, dry_run=dry_run)

        def left() -> int:
            info = target.sync.info()
            return info.waiting + info.delayed

        count = left()
        if dry_run:
            say(f"{count} would be purged")
            return
        with progress(f"purging {target.name}", count, left):
            purged = target.sync.purge()
        say(f"{purged} purged")
