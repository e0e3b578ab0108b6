"""What a handler raises to steer its own job. Signals are no errors: nothing went wrong.

A group of nothing but signals, as of an `asyncio.TaskGroup`, is the strongest of them: `Bury`
before `RateLimited`, `Retry`, `Release`; of several alike the one with the longest delay, else the
first. A group that holds an error besides is a failure.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from rota.values.errors import ConfigError
from rota.values.names import shown
from rota.values.timing import seconds


class Signal(Exception):
    """Root of the signals a handler may raise. What they are given is checked: ConfigError.

    They survive pickling, as a handler may hand its work to a process pool.
    """

    _text = ""

    def __str__(self) -> str:
        return self._text or super().__str__()


class Retry(Signal):
    """Give the job back and count the attempt.

    `delay` is seconds or a `timedelta`; None asks the task's back-off. At the last attempt the
    job goes to the dead instead. `error` is kept with the job.
    """

    def __init__(self, delay: float | timedelta | None = None, error: str | None = None) -> None:
        self.delay = None if delay is None else seconds(delay, "delay")
        self.error = None if error is None else _checked(error, "error")
        super().__init__(delay, error)
        self._text = error or ("retry" if self.delay is None else f"retry in {self.delay:g} s")


class Release(Signal):
    """Give the job back to its place without counting an attempt, `delay` seconds from now.

    A job released without a delay over and over stays away by itself: for 1 s after the third time
    without a failed attempt between, then twice as long each time, up to 60 s. A delay is kept.
    """

    def __init__(self, delay: float | timedelta = 0) -> None:
        self.delay = seconds(delay, "delay")
        super().__init__(delay)
        self._text = f"release in {self.delay:g} s"


class RateLimited(Signal):
    """Give the job back uncounted and block its lane, or its sequence, for `delay` seconds.

    A block only ever extends; what is in flight goes on. In an ordered lane both scopes are
    the same; a job without a sequence waits alone with scope "sequence".
    """

    def __init__(
        self, delay: float | timedelta, scope: Literal["lane", "sequence"] = "lane"
    ) -> None:
        self.delay = seconds(delay, "delay")
        if scope not in ("lane", "sequence"):
            raise ConfigError(f"scope: expected 'lane' or 'sequence', given {shown(scope)}")
        self.scope: Literal["lane", "sequence"] = scope
        super().__init__(delay, scope)
        self._text = f"{scope} blocked for {self.delay:g} s"


class Bury(Signal):
    """Send the job to the dead at once, whatever attempts it has left, with this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = _checked(reason, "reason")
        super().__init__(reason)
        self._text = self.reason


def _checked(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    raise ConfigError(f"{name}: expected text, given {shown(value)}")


_BY_STRENGTH = (Bury, RateLimited, Retry, Release)


def strongest(group: BaseExceptionGroup[BaseException]) -> Signal | None:
    """What a group comes to; None where it holds anything but these signals."""
    leaves: list[Signal] = []
    rest: list[BaseException] = [group]
    seen = set[int]()
    while rest:
        one = rest.pop()
        if isinstance(one, BaseExceptionGroup):
            if id(one) not in seen:  # one group may stand in many places
                seen.add(id(one))
                rest += reversed(one.exceptions)
        elif isinstance(one, _BY_STRENGTH):
            leaves.append(one)
        else:
            return None
    return min(leaves, key=_weakness)


def _weakness(signal: Signal) -> tuple[int, float]:
    rank = next(n for n, kind in enumerate(_BY_STRENGTH) if isinstance(signal, kind))
    delay = getattr(signal, "delay", None)  # of a Retry, None leaves it to the back-off
    return rank, 1.0 if delay is None else -delay
