"""Times and rates as they are typed."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from rota.errors import ConfigError
from rota.values.limits import Rate
from rota.values.names import shown
from rota.values.timing import duration

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_RATE = re.compile(r"(?P<n>\d+(?:\.\d+)?)(?:/(?P<per>[^:]+))?(?::(?P<burst>\d+))?")


def span(text: str, name: str) -> float:
    """Seconds of 90, 90s, 15m, 1h30m or 2d; raises ConfigError."""
    if _NUMBER.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ConfigError(
            f"{name}: expected a time such as 90, 90s, 15m or 2d, given {shown(text)}"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def instant(text: str, name: str) -> datetime | float:
    """Unix seconds, or an ISO date and time; raises ConfigError."""
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{name}: expected a time such as 2026-01-31T12:00Z, or Unix seconds, "
            f"given {shown(text)}"
        ) from None


def end_of(for_: str | None, until: str | None) -> datetime | float | None:
    """What --for and --until say, one of them at most; None: no end."""
    if for_ is not None and until is not None:
        raise ConfigError("expected --for or --until, given both")
    if for_ is not None:
        return time.time() + span(for_, "--for")
    return None if until is None else instant(until, "--until")


def rate(text: str) -> Rate:
    """100 (a second), 100/m, 5/10s, with the burst behind a colon; raises ConfigError."""
    found = _RATE.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"--rate: expected N, N/TIME or N/TIME:BURST, such as 100/m or 5/10s:2, "
            f"given {shown(text)}"
        )
    per = found["per"] or "1"
    seconds = float(_UNITS[per]) if per in _UNITS else span(per, "--rate")
    return Rate(
        float(found["n"]), per=seconds, burst=int(found["burst"]) if found["burst"] else None
    )


def lasting(seconds: float | None) -> str | None:
    """A length of time as people read it, where there is one."""
    return None if seconds is None else duration(seconds)


def ago(instant: float | None) -> str | None:
    """A past instant, where there is one."""
    return f"{duration(max(0.0, time.time() - instant))} ago" if instant else None


def moment(instant: float) -> str:
    """An instant in UTC, and how far away it is."""
    away = instant - time.time()
    near = f"in {duration(away)}" if away > 0 else f"{duration(-away)} ago"
    return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%d %H:%M:%SZ} ({near})"


def when(instant: float | None) -> str | None:
    """The same, where there is one."""
    return moment(instant) if instant else None
