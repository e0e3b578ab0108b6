"""What a handler raises to steer its own job. Signals are no errors: nothing went wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from rota.errors import ConfigError
from rota.names import shown
from rota.timing import seconds


class Signal(Exception):
    """Root of the signals a handler may raise. What they are given is checked: ConfigError."""


class Retry(Signal):
    """Give the job back and count the attempt.

    `delay` is seconds or a `timedelta`; None asks the task's back-off. At the last attempt the
    job goes to the dead instead. `error` is kept with the job.
    """

    def __init__(self, delay: float | timedelta | None = None, error: str | None = None) -> None:
        self.delay = None if delay is None else seconds(delay, "delay")
        self.error = None if error is None else _text(error, "error")
        super().__init__(error or f"retry in {'back-off' if delay is None else self.delay}")


class Release(Signal):
    """Give the job back to its place without counting an attempt, `delay` seconds from now."""

    def __init__(self, delay: float | timedelta = 0) -> None:
        self.delay = seconds(delay, "delay")
        super().__init__(f"release in {self.delay} s")


class RateLimited(Signal):
    """Give the job back uncounted and block its lane, or its sequence, for `delay` seconds.

    A block only ever extends; what is in flight goes on. In an ordered lane both scopes are
    the same.
    """

    def __init__(
        self, delay: float | timedelta, scope: Literal["lane", "sequence"] = "lane"
    ) -> None:
        self.delay = seconds(delay, "delay")
        if scope not in ("lane", "sequence"):
            raise ConfigError(f"scope: expected 'lane' or 'sequence', given {shown(scope)}")
        self.scope: Literal["lane", "sequence"] = scope
        super().__init__(f"{scope} blocked for {self.delay} s")


class Bury(Signal):
    """Send the job to the dead at once, whatever attempts it has left, with this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = _text(reason, "reason")
        super().__init__(reason)


def _text(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    raise ConfigError(f"{name}: expected text, given {shown(value)}")
