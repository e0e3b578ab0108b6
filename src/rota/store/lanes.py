"""The lanes of a queue: the one walk over all of them, in pages, and what can be found by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from rota.errors import ConfigError
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Operation, Packed, packed_names
from rota.values import config
from rota.values.figures import Highest
from rota.values.listing import LanesPage, Place, cursor_place, cursor_text
from rota.values.model import LaneInfo, LaneSort
from rota.values.names import shown

PAGE = 100
"""Lanes in a call, each with all its figures: some milliseconds of the server's time."""
MAX_LANES = 1_000_000


def walk(
    keys: Keys,
    visit: Callable[[LaneInfo], object],
    *,
    served: bool = False,
    enough: Callable[[], bool] = lambda: False,
) -> Operation[float]:
    """Shows all lanes to `visit`, page by page until `enough`; returns the window of their figures,
    in seconds.

    `served`: those that stand in the ring or were served in that window, and no others. A lane that
    changes meanwhile may be shown twice.
    """
    page = stubs.turns_page if served else stubs.lanes_page
    place: Place = []
    while True:
        place, lanes, window = yield from page(keys, cursor=packed_names(place), limit=PAGE)
        for lane in lanes:
            visit(lane)
        if not place or enough():
            return window


class Lanes:
    """The part of the inspector that looks at lanes."""

    keys: Keys

    def lane(self, lane: str) -> Operation[LaneInfo]:
        (found,) = yield from self.lanes_named([lane])
        return found

    def lanes_named(self, names: Sequence[str]) -> Operation[list[LaneInfo]]:
        """These lanes as they stand, in the order given."""
        found: list[LaneInfo] = []
        for start in range(0, len(names), PAGE):
            part = Packed(list(names[start : start + PAGE]))
            found += yield from stubs.lanes_named(self.keys, lanes=part)
        return found

    def lanes_page(self, cursor: str | None) -> Operation[LanesPage]:
        """Some of all lanes; see `LanesPage`."""
        place = packed_names(cursor_place("lanes", cursor))
        page = yield from stubs.lanes_page(self.keys, cursor=place, limit=PAGE)
        return LanesPage(page.lanes, cursor_text("lanes", page.place))

    def lanes(self, limit: int, by: LaneSort | None = None) -> Operation[list[LaneInfo]]:
        """The first `limit` lanes found, those with work first; or the highest `by` of all."""
        config.whole(limit, 1, MAX_LANES, "limit")
        if by is not None:
            if by not in get_args(LaneSort):
                known = ", ".join(get_args(LaneSort))
                raise ConfigError(f"by: expected None or one of {known}, given {shown(by)}")
            return (yield from self.highest(limit, by))[by]
        found: dict[str, LaneInfo] = {}
        yield from walk(
            self.keys,
            lambda lane: found.update({lane.name: lane}),
            enough=lambda: len(found) >= limit,
        )
        return list(found.values())[:limit]

    def highest(self, limit: int, *sorts: LaneSort) -> Operation[dict[LaneSort, list[LaneInfo]]]:
        """The `limit` highest lanes by each of these figures: all of them from one walk, but for
        those served of late, from another."""
        config.whole(limit, 1, MAX_LANES, "limit")
        found = {by: Highest(limit, by) for by in sorts}
        of_all = [highest for by, highest in found.items() if by != "served"]

        def add(lane: LaneInfo) -> None:
            for highest in of_all:
                highest.add(lane)

        if of_all:
            yield from walk(self.keys, add)
        if served := found.get("served"):
            yield from walk(self.keys, served.add, served=True)
        return {by: highest.lanes for by, highest in found.items()}
