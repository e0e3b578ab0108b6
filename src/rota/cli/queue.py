"""`rota queue`: the queues of a server, as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from rota.cli import options
from rota.cli.exits import reporting, say
from rota.cli.options import noun
from rota.cli.printing import Columns, print_facts, print_found, print_rows, queue_row
from rota.cli.queues import expect_server, opened
from rota.cli.terminal import confirm, progress
from rota.cli.times import end_of, when
from rota.link import Link
from rota.script.keys import DEFAULT_PREFIX, Keys
from rota.store.inspector import Inspector, find_queues
from rota.values.model import QueueInfo

app = noun("queue", "Look at queues as a whole, pause and empty them.")
Found = tuple[Keys, QueueInfo]
COLUMNS: Columns[Found] = {
    "queue": lambda found: _name(found[0]),
    "waiting": lambda found: found[1].waiting,
    "running": lambda found: found[1].running,
    "delayed": lambda found: found[1].delayed,
    "dead": lambda found: found[1].dead,
    "lanes": lambda found: found[1].lanes_waiting,
    "workers": lambda found: found[1].consumers,
    "state": lambda found: found[1].state,
}


@app.command(name="ls")
def ls(as_json: options.Json = False, url: options.Url = None) -> None:
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
    numbers = list(COLUMNS)[1:-1]
    nothing = f"no queues on {display}"
    print_found(
        found, COLUMNS, nothing, as_json=as_json, row=lambda pair: queue_row(*pair), numbers=numbers
    )


def _queues(link: Link) -> Iterator[Found]:
    seen: set[str] = set()
    cursor, first = "", True
    while cursor or first:
        cursor, page = link.run_sync(find_queues(cursor))
        first = False
        for keys in page:
            if keys.root not in seen:
                seen.add(keys.root)
                yield keys, link.run_sync(Inspector(keys).queue())


def _name(keys: Keys) -> str:
    return keys.queue if keys.prefix == DEFAULT_PREFIX else f"{keys.queue} (prefix {keys.prefix})"


@app.command(name="show")
def show(name: options.Queue, as_json: options.Json = False, url: options.Url = None) -> None:
    """Show one queue: its totals, its limits, whether it is paused, why and by whom."""
    with opened(name, url) as queue:
        info = queue.sync.info()
        if as_json:
            print_rows([queue_row(queue.link.keys, info)])
            return
        ceiling = "no ceiling" if info.ceiling is None else f"ceiling {info.ceiling}"
        print_facts(
            {
                "queue": queue.name,
                "server": queue.link.target.display,
                "state": info.state,
                "paused until": when(info.paused_until),
                "reason": info.pause_reason,
                "by": info.paused_by,
                "waiting": f"{info.waiting:,} in {info.lanes_waiting:,} lanes",
                "running": f"{info.running:,} ({info.permits:,} entries, {ceiling})",
                "delayed": f"{info.delayed:,}",
                "dead": f"{info.dead:,}",
                "lanes": f"{info.lanes_ready:,} ready, {info.lanes_paused:,} paused",
                "consumers": f"{info.consumers:,}",
                "default ceiling": info.default_ceiling,
                "default weight": info.default_weight,
                **{f"  {total}": f"{n:,}" for total, n in sorted(info.totals.items())},
            }
        )


@app.command(name="pause")
def pause(
    name: options.Queue,
    reason: options.Reason = None,
    by: options.By = None,
    for_: options.For = None,
    until: options.Until = None,
    url: options.Url = None,
) -> None:
    """Hand out nothing of the whole queue until it is resumed, or until a time.

    What is in flight goes on; jobs may be enqueued.
    """
    with opened(name, url, new=True) as queue:
        queue.sync.pause(reason=reason, by=by, until=end_of(for_, until))
        say(f"queue {queue.name} is paused")


@app.command(name="resume")
def resume(name: options.Queue, url: options.Url = None) -> None:
    """End a pause of the queue. Pauses of its lanes stay."""
    with opened(name, url) as queue:
        was = queue.sync.resume()
        say(f"queue {queue.name} {'is resumed' if was else 'was not paused'}")


@app.command(name="purge")
def purge(
    name: options.Queue,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
) -> None:
    """Delete what waits and what is delayed in the whole queue, for good.

    Jobs enqueued meanwhile may go or stay. What is in flight goes on, and dead jobs stay.
    """
    with opened(name, url) as queue:
        confirm(queue, "Delete all waiting and delayed jobs?", yes=yes, dry_run=dry_run)

        def left() -> int:
            info = queue.sync.info()
            return info.waiting + info.delayed

        count = left()
        if dry_run:
            say(f"{count} would be purged")
            return
        with progress(f"purging {queue.name}", count, left):
            purged = queue.sync.purge()
        say(f"{purged} purged")
