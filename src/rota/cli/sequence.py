"""`rota sequence`: jobs that keep their order, and what stops them."""

from __future__ import annotations

from rota.cli.exits import FAILED, fail, say
from rota.cli.options import (
    ByOption,
    DryRunOption,
    JsonOption,
    KeyArgument,
    LaneArgument,
    LaneOption,
    LimitOption,
    QueueArgument,
    UrlOption,
    YesOption,
)
from rota.cli.printing import print_facts, print_ids, print_table
from rota.cli.queues import shell_words
from rota.cli.root import noun
from rota.cli.rows import print_rows, sequence_row
from rota.cli.terminal import confirm, opened, progress
from rota.cli.times import moment, when
from rota.explain.words import command
from rota.queue import Queue
from rota.store.jobs import MAX_LISTED
from rota.values.config import whole
from rota.values.listing import SequenceInfo

app = noun("sequence", "Look at sequences of jobs that keep their order, and let them go on.")
MOST = 100_000
HEADINGS = ("lane", "key", "state", "waiting", "head", "held by / until", "reason")


@app.command(name="ls")
def ls(
    queue: QueueArgument,
    lane: LaneOption = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Show the sequences of a queue, those that are out first.

    States: held (jobs in flight), blocked (a head waits for its retry, a dead job holds it, or it
    is rate limited), ready.
    """
    with opened(queue, url) as target:
        whole(limit, 1, MOST, "--limit")
        with progress("looking for sequences"):
            found, more = _listed(target, lane, limit)
        if as_json:
            print_rows(map(sequence_row, found))
        elif found:
            print_table(HEADINGS, [_cells(one) for one in found], numbers=("waiting",))
            if more:
                say(f"the first {limit} sequences; --limit shows more")
        else:
            say(f"queue {target.name} has no such sequences")


def _listed(queue: Queue, lane: str | None, limit: int) -> tuple[list[SequenceInfo], bool]:
    """The first sequences, and whether there may be more."""
    found: list[SequenceInfo] = []
    cursor = None
    while len(found) < limit:
        page = queue.sync.sequences(
            lane=lane, cursor=cursor, limit=min(MAX_LISTED, limit - len(found))
        )
        found += page.sequences
        cursor = page.cursor
        if cursor is None:
            return found, False
    return found, True


def _cells(one: SequenceInfo) -> tuple[str, ...]:
    return (
        one.lane,
        one.ordering_key or "-",
        f"{one.state}, head dead" if one.head_dead else one.state,
        str(one.waiting),
        one.head or "-",
        one.held_by or (moment(one.blocked_until) if one.blocked_until else "-"),
        one.reason or "-",
    )


@app.command(name="show")
def show(
    queue: QueueArgument,
    lane: LaneArgument,
    key: KeyArgument = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Show one sequence: its head, what holds it, what waits behind.

    Exit status 1 when there is nothing of it.
    """
    with opened(queue, url) as target:
        found = target.sync.lane(lane).sequence(key)
        if found is None:
            fail(f"lane {lane} has no such sequence: nothing waits in it or runs", FAILED)
        if as_json:
            print_rows([sequence_row(found)])
            return
        print_facts(
            [
                ("lane", found.lane),
                ("key", found.ordering_key or None),
                ("state", found.state),
                ("held by", found.held_by),
                ("in flight", ", ".join(found.jobs_held) or None),
                ("head", f"{found.head} (dead)" if found.head_dead else found.head),
                ("waiting", f"{found.waiting:,}"),
                ("blocked until", when(found.blocked_until)),
                ("reason", found.reason),
            ]
        )
        if found.state == "blocked":
            home = (found.lane, found.ordering_key) if found.ordering_key else (found.lane,)
            skips = command(shell_words(queue, url), "sequence skip", *home)
            say(f"to let it go on without {found.head}: {skips}")


@app.command(name="skip")
def skip(
    queue: QueueArgument,
    lane: LaneArgument,
    key: KeyArgument = None,
    by: ByOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    url: UrlOption = None,
) -> None:
    """Let a sequence go on past the job that stops it, and print that job's id.

    A dead job stays dead and holds it no more; a head that waits for its retry goes to the dead.
    Exit status 1 when nothing stops it.
    """
    with opened(queue, url) as target:
        asked = f"Skip what stops this sequence of lane {lane}?"
        confirm(target, asked, yes=yes, dry_run=dry_run)
        if dry_run:
            _say_stopper(target.sync.lane(lane).sequence(key))
            return
        skipped = target.sync.lane(lane).skip(key, by=by)
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
