"""The turn an entry of a lane may expect: counted from the ring's tags, as claims count it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rota.explain.facts import RingFacts

EXACT_STEPS = 100_000
"""So many turns are added up one by one, as the server does; beyond, sums would round otherwise."""


def expected_turn(lane: str, ring: RingFacts) -> tuple[int, bool]:
    """How many entries are handed out until that entry of the lane is, itself included; and
    whether every lane before it was counted, turn by turn.

    Counts jobs one by one, at a cost of 1, in lanes that have a permit for each of their turns.
    """
    # In the ring's order: where the last is served after it, so are all that were not told.
    others = [i for i, name in enumerate(ring.names) if name != lane]
    last = ring.tag + ring.before / ring.weight
    counts = [_count(last, ring, i) for i in others]
    by_steps = ring.before + sum(counts) <= EXACT_STEPS
    if by_steps:
        mine = next(islice(_tags(ring.tag, ring.weight), ring.before, None)), lane.encode()
        counts = [_count_by_steps(mine, ring, i) for i in others]
    turns = sum(counts)
    all_told = ring.lanes <= len(ring.names) or not counts[-1]
    if not all_told:
        there = ring.lanes - 1 if ring.before else ring.ahead
        turns = round(turns * there / len(others))
    return ring.before + turns + 1, all_told and by_steps and not ring.costs


def _tags(tag: float, weight: float) -> Iterator[float]:
    while True:
        yield tag
        tag += 1 / weight


def _count(last: float, ring: RingFacts, i: int) -> int:
    """How often a lane is served before the tag `last`, ties apart."""
    turns = int((last - ring.tags[i]) * ring.weights[i]) + 1 if ring.tags[i] <= last else 0
    return min(ring.waiting[i], turns)


def _count_by_steps(mine: tuple[float, bytes], ring: RingFacts, i: int) -> int:
    name, turns = ring.names[i].encode(), 0
    for tag in islice(_tags(ring.tags[i], ring.weights[i]), ring.waiting[i]):
        if (tag, name) > mine:
            break
        turns += 1
    return turns
