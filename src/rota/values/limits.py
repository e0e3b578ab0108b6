"""What a lane may do, as users say it and as scripts are told it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from rota.values import config, names
from rota.values.errors import ConfigError
from rota.values.names import shown
from rota.values.timing import number, seconds

MAX_PER_SECOND = 1_000_000
MAX_BURST = 1_000_000
BURST_S = 0.1
_YEAR_S = 366 * 86_400


N = TypeVar("N", int, float)


class Unset:
    """The type of `UNSET`: a limit that stays as it is."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a lane's jobs may start: `n` in any `per` seconds, `burst` of them at once.

    Starts are spread evenly, `per / n` apart, and a lane that was slower may catch up by `burst`
    jobs: in any stretch of t seconds at most `n / per * t + burst` start. `burst`: 1 … 1,000,000;
    None is a tenth of a second's worth, at least 1. From one a year to 1,000,000 a second.
    Retries count, each run is one; what was handed out and never started is given back.
    Raises ConfigError.
    """

    n: float
    per: float | timedelta = field(default=1, kw_only=True)
    burst: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        per = seconds(self.per, "per")
        n = number(self.n, 0, MAX_PER_SECOND * _YEAR_S, "rate")
        if n <= 0 or per <= 0 or not 1 / _YEAR_S <= n / per <= MAX_PER_SECOND:
            raise ConfigError(
                f"rate: expected from one a year to {MAX_PER_SECOND} a second, "
                f"given {shown(self.n)} per {shown(self.per)} s"
            )
        object.__setattr__(self, "per", per)
        burst = max(1, math.ceil(n / per * BURST_S)) if self.burst is None else self.burst
        object.__setattr__(self, "burst", config.whole(burst, 1, MAX_BURST, "burst"))

    @property
    def interval_ms(self) -> float:
        return seconds(self.per, "per") * 1000 / self.n

    @property
    def text(self) -> str:
        """As the server keeps it."""
        return f"{self.interval_ms!r},{self.burst},{self.n!r},{self.per!r}"

    @classmethod
    def parse(cls, text: object) -> Rate | None:
        """As the server keeps it; None where that cannot be read: claims take it for none, too."""
        try:
            _, burst, n, per = str(text).split(",")
            return cls(float(n), per=float(per), burst=int(burst))
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.n:g} per {seconds(self.per, 'per'):g} s, burst {self.burst}"


def rate(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, Rate):
        return value.text
    raise ConfigError(f"rate: expected a rota.Rate or None, given {shown(value)}")


def template(value: object) -> str | None:
    return None if value is None else names.template_name(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Limits that lanes refer to by name; None where the template says nothing."""

    ceiling: int | None = None
    weight: float | None = None
    rate: Rate | None = None
    backlog: int | None = None

    @classmethod
    def parse(cls, text: bytes) -> Template:
        """What cannot be read is as if the template did not say it: claims take it so, too."""
        try:
            found = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, ValueError, RecursionError):
            found = {}
        return cls(
            ceiling=stored(int, found.get("ceiling")),
            weight=stored(float, found.get("weight")),
            rate=Rate.parse(found.get("rate")),
            backlog=stored(int, found.get("backlog")),
        )


def stored(kind: Callable[[Any], N], value: object) -> N | None:
    """A number that the server keeps; None where there is none, or no number."""
    try:
        return kind(value)
    except (TypeError, ValueError):
        return None


Change = dict[str, str]
"""A change of limits as scripts are told it, by name: '' unchanged, '-' removed, else the value."""

_CHECKS = {
    "ceiling": config.ceiling,
    "weight": config.weight,
    "rate": rate,
    "backlog": config.backlog,
    "template": template,
}
LIMITS = tuple(_CHECKS)
REMOVAL: Change = dict.fromkeys(LIMITS, "-")


def change(**given: Any) -> Change:
    """Checks limits; UNSET ones stay as they are, None removes. Raises ConfigError."""
    return settings(given, _CHECKS)


def settings(given: Mapping[str, Any], checks: Mapping[str, Callable[[Any], object]]) -> Change:
    """The same of any settings; what is not given is unset."""
    return {name: _setting(given.get(name, UNSET), check) for name, check in checks.items()}


def _setting(value: object, check: Callable[[Any], object]) -> str:
    if isinstance(value, Unset):
        return ""
    checked = check(value)
    if checked is None:
        return "-"
    return checked if isinstance(checked, str) else repr(checked)
