"""How the slots of a process are shared out."""

from __future__ import annotations

import pytest

from rota.work.slots import MAX_ENTRIES, Slots


class Loop:
    """An asker that notes what it is told."""

    def __init__(self, slots: Slots) -> None:
        self.woken = 0
        self.squeezed_out = 0
        slots.add(self)

    def wake(self) -> None:
        self.woken += 1

    def squeezed(self) -> None:
        self.squeezed_out += 1


@pytest.mark.parametrize(
    ("size", "claims"),
    [(1, [1]), (49, [49]), (50, [25, 25]), (101, [51, 50]), (1000, [MAX_ENTRIES] * 2 + [200])],
)
def test_a_large_pool_is_claimed_for_in_halves(size: int, claims: list[int]) -> None:
    slots = Slots(size)
    loop = Loop(slots)
    taken = []
    while slots.free:
        slots.stand_in_line(loop)
        taken.append(slots.take(loop))
    assert taken == claims
    assert slots.take(loop) == 0


def test_those_in_line_share_what_is_free() -> None:
    slots = Slots(10)
    one, two = Loop(slots), Loop(slots)
    slots.stand_in_line(one)
    slots.stand_in_line(two)
    assert (one.woken, two.woken) == (1, 0)
    assert slots.take(one) == 5
    assert two.woken == 1
    assert slots.take(one) == 0, "it is the other's turn"
    assert slots.take(two) == 5
    slots.filled(two)
    assert (one.squeezed_out, two.squeezed_out) == (1, 0)
    slots.stand_in_line(one)
    slots.give_back(1)
    assert (one.woken, slots.take(one), slots.free) == (2, 1, 0)
