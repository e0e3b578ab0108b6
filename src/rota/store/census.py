"""A census of a queue's lanes: how many are in which state, and how long they wait.

One walk over all lanes in pages, in constant memory: the figures of all together, and of the few
that wait longest by name. `shares` knows what is due to each; here stands what can be said of
many lanes without their names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import get_args

from rota.script.keys import Keys
from rota.script.loader import Operation
from rota.store.lanes import walk
from rota.store.shares import Paces, part_kept_waiting
from rota.values import config
from rota.values.figures import Census, Highest, Others
from rota.values.model import LaneInfo, LaneState


@dataclass(slots=True)
class _Count:
    """A census under way. `longest`: one more than is asked for, which tells how long the others
    wait."""

    longest: Highest
    states: Counter[str] = field(default_factory=Counter)
    paces: Paces = field(default_factory=Paces)
    waiting: int = 0
    running: int = 0
    ready_wait: float | None = None

    def add(self, lane: LaneInfo) -> None:
        self.states[lane.state] += 1
        self.waiting += lane.waiting
        self.running += lane.running
        if lane.in_ring and lane.oldest_wait is not None:
            self.ready_wait = max(self.ready_wait or 0.0, lane.oldest_wait)
        if part_kept_waiting(lane) == 1:
            self.paces.add(lane.charged / lane.window / lane.weight)
        if lane.oldest_wait is not None:
            self.longest.add(lane)

    def result(self, limit: int) -> Census:
        ranked = self.longest.lanes
        top, behind = ranked[:limit], ranked[limit:]
        least, most = self.paces.extremes
        return Census(
            lanes={state: self.states[state] for state in get_args(LaneState)},
            oldest_wait=ranked[0].oldest_wait if ranked else None,
            ready_wait=self.ready_wait,
            index=self.paces.index,
            least=least,
            most=most,
            top=top,
            others=Others(
                waiting=self.waiting - sum(lane.waiting for lane in top),
                running=self.running - sum(lane.running for lane in top),
                oldest_wait=behind[0].oldest_wait if behind else None,
            ),
        )


class CensusTaker:
    """The part of the inspector that takes a census, bounded."""

    keys: Keys

    def census(self, top: int) -> Operation[Census]:
        """Names the `top` lanes that wait longest, at most 100."""
        limit = config.whole(top, 0, config.MAX_TOP, "top")
        count = _Count(Highest(limit + 1, "oldest_wait"))
        yield from walk(self.keys, count.add)
        return count.result(limit)
