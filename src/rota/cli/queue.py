"""`rota queue`: the queues of a server, as a whole."""

from __future__ import annotations

from contextlib import closing

from rota.cli import options
from rota.cli.exits import reporting, say
from rota.cli.options import noun
from rota.cli.printing import Columns, print_facts, print_found, queue_row
from rota.cli.queues import expect_server, opened
from rota.cli.terminal import confirm, progress
from rota.cli.times import end_of, when
from rota.queue import Queue
from rota.values import config
from rota.values.listing import FoundQueue

app = noun("queue", "Look at queues as a whole, pause and empty them.")
COLUMNS: Columns[FoundQueue] = {
    "queue": lambda found: _name(found),
    "waiting": lambda found: found.info.waiting,
    "running": lambda found: found.info.running,
    "delayed": lambda found: found.info.delayed,
    "dead": lambda found: found.info.dead,
    "lanes": lambda found: found.info.lanes_waiting,
    "workers": lambda found: found.info.consumers,
    "state": lambda found: found.info.state,
}


@app.command(name="ls")
def ls(as_json: options.Json = False, url: options.Url = None) -> None:
    """Show the queues on a server: on a cluster, of all its nodes.

    It looks through all keys of the server, some at a time.
    """
    with reporting():
        server = Queue("any", url=url)  # every queue of the server is reached by it
        expect_server(server)
        with closing(server.sync), progress("looking through the server's keys"):
            found = server.sync.server_queues()
    print_found(
        found,
        COLUMNS,
        f"no queues on {server.server}",
        as_json=as_json,
        row=lambda one: queue_row(one.name, one.prefix, one.info),
        numbers=list(COLUMNS)[1:-1],
    )


def _name(found: FoundQueue) -> str:
    known = found.prefix == config.DEFAULT_PREFIX
    return found.name if known else f"{found.name} (prefix {found.prefix})"


@app.command(name="show")
def show(name: options.Queue, as_json: options.Json = False, url: options.Url = None) -> None:
    """Show one queue: its totals, its limits, whether it is paused, why and by whom."""
    with opened(name, url) as queue:
        info = queue.sync.info()
        ceiling = "no ceiling" if info.ceiling is None else f"ceiling {info.ceiling}"
        print_facts(
            {
                "queue": queue.name,
                "server": queue.server,
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
            },
            queue_row(queue.name, queue.prefix, info),
            as_json=as_json,
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
