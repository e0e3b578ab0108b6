"""How shares received and due are printed."""

from __future__ import annotations

from rota.cli.exits import say
from rota.cli.printing import print_table
from rota.cli.rows import print_rows, share_row
from rota.store.shares import LaneShare, Shares
from rota.values.timing import duration

HEADINGS = ("lane", "share", "due", "waiting", "running", "oldest wait", "mean wait", "state")


def print_shares(found: Shares, *, as_json: bool) -> None:
    """To standard output: one JSON object a lane, or a table below the queue's fairness index."""
    if as_json:
        print_rows(map(share_row, found.top))
        return
    say(_headline(found))
    if found.top:
        print_table(HEADINGS, [_cells(share) for share in found.top], numbers=HEADINGS[1:-1])


def _headline(found: Shares) -> str:
    index = "none yet (it takes two lanes that have waited all through)"
    if found.index is not None:
        index = f"{found.index:.3f}"
    return f"fairness index {index}; {found.lanes:,} lanes, the last {duration(found.window)}"


def _cells(share: LaneShare) -> tuple[str, ...]:
    lane = share.lane
    return (
        lane.name,
        f"{share.received:.2%}",
        f"{share.due:.2%}",
        str(lane.waiting),
        str(lane.running),
        _wait(lane.oldest_wait),
        _wait(lane.wait_mean),
        lane.state,
    )


def _wait(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)
