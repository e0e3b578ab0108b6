"""Durations, instants and back-off: what users give, in the units the server keeps.

Durations come as seconds or `timedelta`, instants as aware `datetime` or Unix seconds; the
server keeps whole milliseconds. Anything doubtful (a naive datetime, a bool, NaN, text) is a
`ConfigError`, never a guess.
"""

from __future__ import annotations

import inspect
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, TypeGuard

from rota.values.errors import ConfigError
from rota.values.names import shown
from rota.values.telling import Logger

logger = Logger("rota.timing")

LOG_EVERY_S = 60.0
MAX_DELAY_S = 10 * 366 * 86400
MAX_FACTOR = 1000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_INSTANT_S = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp())
# 1.0 to any power up to this one is exact, and what overflows at all overflows before it.
_MAX_EXPONENT = 2**53


def seconds(value: object, name: str) -> float:
    """A duration in seconds, from 0 to ten years; `name` opens the error's message."""
    number: object = value.total_seconds() if isinstance(value, timedelta) else value
    # Compared before the conversion: a huge int has no float.
    if _is_number(number) and 0 <= number <= MAX_DELAY_S:
        return float(number)
    raise ConfigError(
        f"{name}: expected seconds or a timedelta from 0 to {MAX_DELAY_S} s (ten years), "
        f"given {shown(value)}"
    )


def number(value: object, low: float, high: float, name: str) -> float:
    """A plain number from low to high; a bool, NaN or anything else is refused."""
    if not (_is_number(value) and low <= value <= high):
        raise ConfigError(f"{name}: expected a number from {low} to {high}, given {shown(value)}")
    return int(value) if isinstance(value, int) else float(value)


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, halves rounded up; a duration above 0 never becomes 0."""
    rounded = math.floor(seconds * 1000 + 0.5)
    return max(rounded, 1) if seconds > 0 else rounded


def instant(value: datetime | float, name: str) -> int:
    """Unix milliseconds of an aware `datetime` or of Unix seconds, from 1970 to 2200.

    All aware forms of one instant give the same number. Milliseconds given by mistake lie
    beyond the range and are refused with that hint.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise _not_an_instant(name, value, "a datetime without a time zone")
        millis = (value - _EPOCH + timedelta(microseconds=500)) // timedelta(milliseconds=1)
        if 0 <= millis <= _LAST_INSTANT_S * 1000:
            return millis
    elif not _is_number(value):
        raise _not_an_instant(name, value, f"a {type(value).__name__}")
    elif 0 <= value <= _LAST_INSTANT_S:
        return math.floor(value * 1000 + 0.5)
    elif _LAST_INSTANT_S < value <= _LAST_INSTANT_S * 1000:
        raise _not_an_instant(name, value, "what looks like milliseconds")
    raise _not_an_instant(name, value, "an instant outside the years 1970 to 2200")


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a failed job waits: `base * factor ** (attempt - 1)`, at most `max`, spread.

    `base` and `max` are seconds or `timedelta` (kept as seconds), `factor` is from 1 to 1000.
    `jitter`, from 0 to 1, spreads delays evenly over that share below and above. The cap holds
    for the spread delay too: a window that would reach beyond `max` keeps its width and ends
    there, so jobs at the cap do not come back in step.
    """

    base: float | timedelta = 1
    factor: float = 2
    max: float | timedelta = 3600
    jitter: float = 0.2

    def __post_init__(self) -> None:
        base, cap = seconds(self.base, "Backoff base"), seconds(self.max, "Backoff max")
        number(self.factor, 1, MAX_FACTOR, "Backoff factor")
        number(self.jitter, 0, 1, "Backoff jitter")
        if cap < base:
            raise ConfigError(f"Backoff max: expected at least base, {base:g} s, given {cap:g} s")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "max", cap)

    def delay(self, attempt: int, rand: Callable[[], float] = random.random) -> float:
        """Seconds to wait after the `attempt`-th failure (1 = the first); any int will do."""
        middle, cap = self._middle(attempt), _float(self.max)
        spread = middle * self.jitter
        high = min(cap, middle + spread)
        low = max(0.0, high - 2 * spread)
        return low + (high - low) * rand()

    def _middle(self, attempt: int) -> float:
        base, cap = _float(self.base), _float(self.max)
        if not base:
            return 0.0
        exponent = min(max(attempt - 1, 0), _MAX_EXPONENT)
        try:
            return min(cap, base * float(self.factor) ** exponent)
        except OverflowError:
            return cap


BackoffRule: TypeAlias = Backoff | Callable[[int], float | timedelta]
"""A `Backoff`, or a function from the attempt (1 = the first) to seconds or a `timedelta`."""


def check_backoff(rule: object) -> None:
    """Raise `ConfigError` unless `rule` is a `Backoff` or can be called."""
    if isinstance(rule, type) or not (isinstance(rule, Backoff) or callable(rule)):
        raise ConfigError(
            f"backoff: expected a rota.Backoff or a function of the attempt, given {shown(rule)}"
        )


def backoff_delay(rule: BackoffRule, attempt: int) -> float:
    """Seconds to wait by `rule`; raises nothing, whatever it does.

    A function's answer is taken as it is, without jitter. One that raises or answers anything
    but a valid duration gives the delay of the default `Backoff`, and an error is logged.
    """
    try:
        if isinstance(rule, Backoff):
            return rule.delay(attempt)
        return _answer(rule(attempt))
    except BaseException:  # as what a handler raises past Exception
        logger.exception(
            "back-off rule %s failed at attempt %s; the default back-off is used",
            shown(rule),
            shown(attempt),
        )
        return Backoff().delay(attempt)


def _answer(value: object) -> float:
    if isinstance(value, int | float | timedelta):
        return seconds(value, "back-off")
    if inspect.iscoroutine(value):
        value.close()  # never to be awaited, which would warn
    raise ConfigError(f"back-off: expected seconds or a timedelta, given {shown(value)}")


def duration(span: float) -> str:
    """Seconds as people read them: 0.4s, 12s, 3m 20s, 5h 1m, 2d 3h."""
    if span < 10:
        return f"{span:.1f}s"
    whole_seconds = round(span)
    for size, unit, smaller, small in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole_seconds >= size:
            return f"{whole_seconds // size}{unit} {whole_seconds % size // smaller}{small}"
    return f"{whole_seconds}s"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _float(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _not_an_instant(name: str, value: object, given: str) -> ConfigError:
    return ConfigError(
        f"{name}: expected an aware datetime or Unix seconds in the years 1970 to 2200, "
        f"given {given}: {shown(value)}"
    )


class Sparingly:
    """Lets each kind of trouble be logged once in `every` seconds: an outage must not flood the
    log, nor hide another kind of trouble."""

    def __init__(self, every: float = LOG_EVERY_S) -> None:
        self._every = every
        self._last: dict[tuple[str, ...], float] = {}

    def allows(self, what: str, error: BaseException) -> bool:
        cause = error.__cause__ or error
        kind = (what, type(cause).__name__, str(cause).partition(" ")[0])
        now = time.monotonic()
        if now - self._last.get(kind, -self._every) < self._every:
            return False
        self._last[kind] = now
        return True
