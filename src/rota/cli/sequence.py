"""`rota sequence`: jobs that keep their order, and what stops them."""

from __future__ import annotations

from rota.cli import options
from rota.cli.exits import FAILED, fail, say
from rota.cli.options import noun
from rota.cli.printing import Columns, print_facts, print_found, print_ids, row_of
from rota.cli.queues import MOST, first_of, opened, shell_words
from rota.cli.terminal import confirm, progress
from rota.cli.times import moment, when
from rota.explain.words import command
from rota.values.config import whole
from rota.values.listing import SequenceInfo

app = noun("sequence", "Look at sequences of jobs that keep their order, and let them go on.")
COLUMNS: Columns[SequenceInfo] = {
    "lane": lambda one: one.lane,
    "key": lambda one: one.ordering_key,
    "state": lambda one: f"{one.state}, head dead" if one.head_dead else one.state,
    "waiting": lambda one: one.waiting,
    "head": lambda one: one.head,
    "held by / until": lambda one: one.held_by or when(one.blocked_until),
    "reason": lambda one: one.reason,
}


@app.command(name="ls")
def ls(
    name: options.Queue,
    lane: options.OfLane = None,
    limit: options.Limit = 100,
    as_json: options.Json = False,
    url: options.Url = None,
) -> None:
    """Show the sequences of a queue, those that are out first.

    States: held (jobs in flight), blocked (a head waits for its retry, a dead job holds it, or it
    is rate limited), ready.
    """
    with opened(name, url) as queue:
        whole(limit, 1, MOST, "--limit")

        def page(cursor: str | None, most: int) -> tuple[list[SequenceInfo], str | None]:
            got = queue.sync.sequences(lane=lane, cursor=cursor, limit=most)
            return got.sequences, got.cursor

        with progress("looking for sequences"):
            found, more = first_of(limit, page)
        nothing = f"queue {queue.name} has no such sequences"
        print_found(found, COLUMNS, nothing, as_json=as_json, numbers=("waiting",))
        if more and found and not as_json:
            say(f"the first {limit} sequences; --limit shows more")


@app.command(name="show")
def show(
    name: options.Queue,
    lane: options.Lane,
    key: options.Key = None,
    as_json: options.Json = False,
    url: options.Url = None,
) -> None:
    """Show one sequence: its head, what holds it, what waits behind.

    Exit status 1 when there is nothing of it.
    """
    with opened(name, url) as queue:
        found = queue.sync.lane(lane).sequence(key)
        if found is None:
            fail(f"lane {lane} has no such sequence: nothing waits in it or runs", FAILED)
        print_facts(
            {
                "lane": found.lane,
                "key": found.ordering_key or None,
                "state": found.state,
                "held by": found.held_by,
                "in flight": ", ".join(found.jobs_held) or None,
                "head": f"{found.head} (dead)" if found.head_dead else found.head,
                "waiting": f"{found.waiting:,}",
                "blocked until": when(found.blocked_until),
                "reason": found.reason,
            },
            row_of(found),
            as_json=as_json,
        )
        if found.state == "blocked" and not as_json:
            home = (found.lane, found.ordering_key) if found.ordering_key else (found.lane,)
            skips = command(shell_words(name, url), "sequence skip", *home)
            say(f"to let it go on without {found.head}: {skips}")


@app.command(name="skip")
def skip(
    name: options.Queue,
    lane: options.Lane,
    key: options.Key = None,
    by: options.By = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
) -> None:
    """Let a sequence go on past the job that stops it, and print that job's id.

    A dead job stays dead and holds it no more; a head that waits for its retry goes to the dead.
    Exit status 1 when nothing stops it.
    """
    with opened(name, url) as queue:
        asked = f"Skip what stops this sequence of lane {lane}?"
        confirm(queue, asked, yes=yes, dry_run=dry_run)
        if dry_run:
            _say_stopper(queue.sync.lane(lane).sequence(key))
            return
        skipped = queue.sync.lane(lane).skip(key, by=by)
        if skipped is None:
            fail(f"nothing stops this sequence of lane {lane}", FAILED)
        print_ids([skipped])


def _say_stopper(found: SequenceInfo | None) -> None:
    if found is None or found.state != "blocked" or found.head is None:
        fail("nothing stops it", FAILED)
    wait = ""
    if found.blocked_until is not None and not found.head_dead:
        wait = f", which waits until {moment(found.blocked_until)}"
    say(f"{found.head} would be skipped{wait}; {found.waiting} wait in it")
