"""Durations, instants and back-off at and beyond their limits."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import ConfigError
from rota.values.timing import (
    MAX_DELAY_S,
    Backoff,
    backoff_delay,
    check_backoff,
    instant,
    milliseconds,
    seconds,
)

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0),
        (0.25, 0.25),
        (3, 3.0),
        (timedelta(minutes=2), 120.0),
        (timedelta(microseconds=1), 1e-6),
        (MAX_DELAY_S, float(MAX_DELAY_S)),
    ],
)
def test_durations(value: float | timedelta, expected: float) -> None:
    assert seconds(value, "delay") == expected
    assert type(seconds(value, "delay")) is float


@pytest.mark.parametrize(
    "value",
    [-1, -0.001, NAN, INF, -INF, True, "5", None, timedelta(days=-1), timedelta.max, 10**400]
    + [MAX_DELAY_S + 1, date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)],
    ids=lambda value: str(value)[:20],
)
def test_absurd_durations_are_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="grace: expected seconds or a timedelta .* given"):
        seconds(value, "grace")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (0.0004, 1), (1e-9, 1), (0.0014, 1), (0.0015, 2), (1, 1000), (0.9996, 1000)],
)
def test_milliseconds_round_half_up_and_never_to_nothing(value: float, expected: int) -> None:
    assert milliseconds(value) == expected


# --- instants

ZONES = ["UTC", "America/New_York", "Australia/Sydney", "Asia/Kathmandu"]
WALLS = [
    datetime(2026, 1, 15, 12),
    datetime(2026, 7, 15, 12),
    datetime(2026, 3, 8, 2, 30),  # the gap in New York
    datetime(2026, 11, 1, 1, 30),  # twice in New York
    datetime(2026, 10, 4, 2, 30),  # the gap in Sydney
    datetime(2026, 4, 5, 2, 30),  # twice in Sydney
]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("wall", WALLS, ids=str)
@pytest.mark.parametrize("fold", [0, 1])
def test_all_aware_forms_of_an_instant_agree(zone: str, wall: datetime, fold: int) -> None:
    there = wall.replace(tzinfo=ZoneInfo(zone), fold=fold)
    offset = there.utcoffset()
    assert offset is not None
    unix = int(((wall - offset) - datetime(1970, 1, 1)).total_seconds())
    forms: list[datetime | float] = [
        there,
        there.astimezone(UTC),
        there.astimezone(timezone(timedelta(hours=-11, minutes=-30))),
        unix,
        float(unix),
    ]
    assert [instant(form, "at") for form in forms] == [unix * 1000] * len(forms)


def test_the_two_readings_of_a_double_hour_differ() -> None:
    wall = datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"))
    assert instant(wall.replace(fold=1), "at") - instant(wall, "at") == 3_600_000


def test_instants_are_rounded_to_the_millisecond() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 123_500, tzinfo=UTC)
    assert instant(moment, "at") % 1000 == 124
    assert instant(moment.timestamp(), "at") == instant(moment, "at")
    assert instant(0, "at") == 0


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (datetime(2026, 1, 1), "without a time zone"),
        (date(2026, 1, 1), "a date"),
        ("2026-01-01T00:00:00Z", "a str"),
        ("1767225600", "a str"),
        (True, "a bool"),
        (None, "a NoneType"),
        (NAN, "outside the years"),
        (INF, "outside the years"),
        (-1, "outside the years"),
        (10**400, "outside the years"),
        (datetime(1969, 12, 31, tzinfo=UTC), "outside the years"),
        (datetime(2201, 1, 1, tzinfo=UTC), "outside the years"),
        (1_767_225_600_000, "looks like milliseconds"),
        (1_767_225_600_000.5, "looks like milliseconds"),
        (timedelta(seconds=5), "a timedelta"),
    ],
    ids=lambda value: str(value)[:25],
)
def test_what_is_not_clearly_an_instant_is_refused(value: float, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"at: expected an aware datetime .*{hint}"):
        instant(value, "at")


# --- back-off


@pytest.mark.parametrize("factor", [1, 1.5, 2, 5, 100, 1000])
@pytest.mark.parametrize("base", [0.001, 1, 3600])
def test_no_attempt_overflows_or_passes_the_cap(factor: float, base: float) -> None:
    rule = Backoff(base=base, factor=factor, max=3600)
    for attempt in [*range(1, 5001), 10**6, 10**30, 10**400]:
        low, high = rule.delay(attempt, lambda: 0.0), rule.delay(attempt, lambda: 1.0)
        assert 0 < low < high <= 3600
        middle = base if factor == 1 else min(3600, base * factor ** min(attempt - 1, 100))
        assert high - low == pytest.approx(0.4 * middle)


def test_delays_grow_from_base() -> None:
    rule = Backoff(base=timedelta(seconds=2), factor=3, max=timedelta(minutes=1), jitter=0)
    assert [rule.delay(n) for n in (-5, 0, 1, 2, 3, 4, 5)] == [2, 2, 2, 6, 18, 54, 60]
    assert Backoff(base=0).delay(5000) == 0
    assert Backoff(base=timedelta(seconds=2)) == Backoff(base=2)


@pytest.mark.parametrize("attempt", [1, 5, 12, 13, 5000])
def test_a_thousand_that_fail_together_do_not_come_back_together(attempt: int) -> None:
    rule, rand = Backoff(), random.Random(attempt).random
    delays = sorted(rule.delay(attempt, rand) for _ in range(1000))
    middle = min(3600, 2 ** (attempt - 1))
    assert delays[-1] - delays[0] >= 0.2 * middle
    assert delays[-1] <= 3600
    gaps = [later - sooner for sooner, later in pairwise(delays)]
    assert max(gaps) < 0.02 * middle, "no two heaps with nothing between"


def test_full_jitter_stays_above_zero() -> None:
    rule = Backoff(base=10, jitter=1, max=15)
    assert [rule.delay(1, lambda: r) for r in (0.0, 1.0)] == [0, 15]


@pytest.mark.parametrize(
    "options",
    [
        {"base": -1}, {"base": NAN}, {"base": True}, {"base": "1"}, {"factor": 0.5},
        {"factor": NAN}, {"factor": 1001}, {"factor": "2"}, {"max": -1}, {"max": INF},
        {"base": 10, "max": 5}, {"jitter": -0.1}, {"jitter": 1.1}, {"jitter": NAN},
        {"jitter": True}, {"max": timedelta.max}, {"factor": None},
    ],
    ids=str,
)  # fmt: skip
def test_an_absurd_backoff_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"Backoff \w+: expected"):
        Backoff(**options)


def raising(attempt: int) -> float:
    raise ZeroDivisionError


def exits(_attempt: int) -> float:
    raise SystemExit


async def coroutine(attempt: int) -> float:
    return 5.0


FAULTY: list[Callable[[int], object]] = [
    raising,
    exits,
    coroutine,
    lambda _: None,
    lambda _: -1,
    lambda _: NAN,
    lambda _: INF,
    lambda _: "5",
    lambda _: True,
    lambda _: 10**400,
    lambda _: timedelta(days=-1),
    cast("Callable[[int], object]", lambda: 5),  # takes no attempt
]


@pytest.mark.parametrize("rule", FAULTY)
def test_a_faulty_rule_means_the_default_and_a_logged_error(
    rule: Callable[[int], float], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "rota.timing"):
        delay = backoff_delay(rule, 3)
    assert 3.2 <= delay <= 4.8
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "attempt 3" in caplog.text


def test_a_good_rule_is_taken_at_its_word(caplog: pytest.LogCaptureFixture) -> None:
    assert backoff_delay(lambda attempt: attempt * 2, 3) == 6.0
    assert backoff_delay(lambda _: timedelta(seconds=1.5), 1) == 1.5
    assert backoff_delay(Backoff(base=7, jitter=0), 1) == 7.0
    assert not caplog.records


@given(st.integers(), st.floats(0, 1000), st.floats(1, 1000), st.floats(0, 1))
@settings(deadline=None)
def test_a_backoff_never_fails(attempt: int, base: float, factor: float, jitter: float) -> None:
    delay = backoff_delay(Backoff(base, factor, 1000, jitter), attempt)
    assert math.isfinite(delay)
    assert 0 <= delay <= 1000 * (1 + 1e-9)


def test_what_may_be_a_rule() -> None:
    check_backoff(Backoff())
    check_backoff(lambda attempt: 1)
    for rule in (5, None, "fast", Backoff):
        with pytest.raises(ConfigError, match=r"backoff: expected a rota\.Backoff or a function"):
            check_backoff(rule)
