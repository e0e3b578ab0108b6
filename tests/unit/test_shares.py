"""What is due to lanes, reckoned without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.store.shares import Paces, Turns, find_level, part_kept_waiting
from rota.values.limits import Rate
from rota.values.model import LaneInfo

PACES = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
TURNS = st.builds(
    Turns,
    pace=PACES,
    weight=st.floats(0.01, 100),
    part=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)),
)


def dues(*lanes: Turns) -> list[float]:
    level = find_level(lanes)
    return [lane.due(level) for lane in lanes]


@given(st.lists(TURNS, min_size=1, max_size=20))
def test_all_that_is_due_is_all_that_was_given(lanes: list[Turns]) -> None:
    total = sum(lane.pace for lane in lanes)
    assert sum(dues(*lanes)) == pytest.approx(total, rel=1e-6)


@given(st.lists(TURNS, min_size=1, max_size=20))
def test_nobody_is_due_more_than_its_weights_part(lanes: list[Turns]) -> None:
    level = find_level(lanes)
    for lane in lanes:
        assert lane.due(level) <= level * lane.weight
        if lane.part == 1:
            assert lane.due(level) == level * lane.weight
        if lane.part == 0:
            assert lane.due(level) <= lane.pace
        assert lane.behind(level) <= lane.part + 1e-9


@pytest.mark.parametrize(
    ("lanes", "due"),
    [
        ([(5, 1, 1), (5, 1, 1)], [5, 5]),
        ([(9, 1, 1), (1, 1, 1)], [5, 5]),
        ([(2, 1, 1), (6, 3, 1)], [2, 6]),
        ([(2, 1, 0), (4, 1, 1), (4, 1, 1)], [2, 4, 4]),  # what it did not want goes to the others
        ([(8, 1, 0), (1, 1, 1), (0, 1, 1)], [3, 3, 3]),  # it wanted more than its part, and got it
        ([(0, 1, 0), (3, 1, 0), (9, 1, 0)], [0, 3, 9]),  # nobody was kept waiting
        ([(0, 1, 0), (0, 1, 1)], [0, 0]),
        ([(8, 1, 1), (0, 1, 0.25)], [6.4, 1.6]),  # it has been waiting for a quarter of the window
        ([(8, 1, 0.5)], [8]),
    ],
)
def test_who_is_due_what(lanes: list[tuple[float, float, float]], due: list[float]) -> None:
    assert dues(*(Turns(*lane) for lane in lanes)) == pytest.approx(due)


def test_nothing_is_due_to_nobody() -> None:
    assert find_level([]) == 0


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ([], None),
        ([1], None),
        ([0, 0], None),
        ([2, 2, 2], 1),
        ([1, 0], 0.5),
        ([0, 0, 0, 7], 0.25),
        ([1, 2, 3], 36 / 42),
    ],
)
def test_jains_index(values: list[float], index: float | None) -> None:
    paces = Paces()
    for value in values:
        paces.add(value)
    assert paces.index == (None if index is None else pytest.approx(index))


def lane(
    next_wait: float | None, *, in_ring: bool = True, served: int = 0, rate: Rate | None = None
) -> LaneInfo:
    return LaneInfo(
        name="a", waiting=1, delayed=0, running=0, ceiling=None, weight=1, paused=False,
        blocked_until=None, in_ring=in_ring, oldest_wait=500, next_wait=next_wait, served=served,
        rate=rate, window=80,
    )  # fmt: skip


def test_for_which_part_of_the_window_a_lane_was_kept_waiting() -> None:
    assert part_kept_waiting(lane(80)) == 1
    assert part_kept_waiting(lane(800)) == 1
    assert part_kept_waiting(lane(20)) == 0.25
    assert part_kept_waiting(lane(None)) == 0
    assert part_kept_waiting(lane(80, in_ring=False)) == 0
    rate = Rate(30, per=60)
    assert part_kept_waiting(lane(80, served=36, rate=rate)) == 0, "its rate holds it back"
    assert part_kept_waiting(lane(80, served=20, rate=rate)) == 1
