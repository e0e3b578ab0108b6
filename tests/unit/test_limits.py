"""Rates, templates and changes of limits as users say them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rota.errors import ConfigError
from rota.values.limits import REMOVAL, UNSET, Rate, Template, change
from rota.values.model import read_note


@pytest.mark.parametrize(
    ("rate", "interval", "burst"),
    [
        (Rate(100, per=60), 600.0, 1),
        (Rate(100, per=60, burst=20), 600.0, 20),
        (Rate(100, per=timedelta(minutes=1)), 600.0, 1),
        (Rate(10), 100.0, 1),
        (Rate(11), 1000 / 11, 2),
        (Rate(2000), 0.5, 200),
        (Rate(1_000_000), 0.001, 100_000),
        (Rate(0.5), 2000.0, 1),
        (Rate(1, per=366 * 86_400), 366 * 86_400_000.0, 1),
    ],
)
def test_a_rate_is_an_interval_and_a_burst(rate: Rate, interval: float, burst: int) -> None:
    assert (rate.interval_ms, rate.burst) == (interval, burst)
    assert Rate.parse(rate.text) == rate


@pytest.mark.parametrize(
    ("n", "how"),
    [
        (0, {}),
        (-1, {}),
        (True, {}),
        ("10", {}),
        (float("nan"), {}),
        (float("inf"), {}),
        (10, {"per": 0}),
        (10, {"per": -1}),
        (10, {"per": "minute"}),
        (10, {"burst": 0}),
        (10, {"burst": 1.5}),
        (10, {"burst": True}),
        (10, {"burst": 1_000_001}),
        (1_000_001, {}),
        (1, {"per": 367 * 86_400}),
    ],
)
def test_a_rate_outside_the_rules_is_refused(n: Any, how: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"expected .*, given"):
        Rate(n, **how)


def test_a_rate_is_read_by_people() -> None:
    assert str(Rate(100, per=60, burst=20)) == "100 per 60 s, burst 20"


def test_a_change_says_what_is_set_left_and_removed() -> None:
    said = change(ceiling=3, weight=None, rate=UNSET, backlog=10, template="pro")
    wanted = {"ceiling": "3", "weight": "-", "rate": "", "backlog": "10", "template": "pro"}
    assert said == wanted
    assert change() == dict.fromkeys(wanted, "")
    assert dict.fromkeys(wanted, "-") == REMOVAL


@pytest.mark.parametrize(
    "given",
    [
        {"ceiling": -1},
        {"ceiling": 1.0},
        {"weight": 0},
        {"weight": 101},
        {"rate": 10},
        {"rate": "10/s"},
        {"backlog": True},
        {"template": ""},
        {"template": 5},
        {"template": "a\nb"},
    ],
)
def test_a_limit_outside_the_rules_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"expected .*, given"):
        change(**given)


def test_a_template_is_read_back() -> None:
    text = b'{"ceiling":"2","rate":"600.0,20,100,60.0"}'
    assert Template.parse(text) == Template(ceiling=2, rate=Rate(100, per=60, burst=20))
    assert Template.parse(b"{}") == Template()


def test_what_is_stored_too_deep_to_be_read_says_nothing() -> None:
    """It must not hide what it belongs to."""
    deep = b'{"ceiling":' + b"[" * 100_000
    assert Template.parse(deep) == Template()
    assert read_note(deep).keys() == {"error"}
