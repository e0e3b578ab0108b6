"""Wait for a condition, never for a time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

from tests.support.times import IN_TIME

T = TypeVar("T")

_ONE_LOOK_S = 0.25
"""What one look may use up of the time to wait: while the machine stands still nobody looks."""


def eventually(
    predicate: Callable[[], T], message: str, timeout: float = IN_TIME, interval: float = 0.01
) -> T:
    """Call `predicate` until it answers something true, and return that.

    Raises AssertionError with `message` and the last answer after `timeout` seconds of looking.
    Only AssertionErrors of the predicate count as "not yet"; any other exception passes through.
    """
    patience = _Patience(timeout)
    while True:
        last: object
        try:
            value = predicate()
            if value:
                return value
            last = value
        except AssertionError as error:
            last = error
        if patience.is_over():
            raise AssertionError(_late(message, timeout, last))
        time.sleep(interval)


@overload
async def eventually_async(
    predicate: Callable[[], Coroutine[Any, Any, T]],
    message: str,
    timeout: float = ...,
    interval: float = ...,
) -> T: ...
@overload
async def eventually_async(
    predicate: Callable[[], T], message: str, timeout: float = ..., interval: float = ...
) -> T: ...
async def eventually_async(
    predicate: Callable[[], Any],
    message: str,
    timeout: float = IN_TIME,
    interval: float = 0.01,
) -> Any:
    """As `eventually`, on the running event loop; `predicate` may be a coroutine function."""
    patience = _Patience(timeout)
    while True:
        last: object
        try:
            answer = predicate()
            value = await answer if inspect.isawaitable(answer) else answer
            if value:
                return value
            last = value
        except AssertionError as error:
            last = error
        if patience.is_over():
            raise AssertionError(_late(message, timeout, last))
        await asyncio.sleep(interval)


class _Patience:
    """Seconds of looking."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._looked = time.monotonic()

    def is_over(self) -> bool:
        """Asked after each look."""
        now = time.monotonic()
        self._left -= min(now - self._looked, _ONE_LOOK_S)
        self._looked = now
        return self._left <= 0


def _late(message: str, timeout: float, last: object) -> str:
    return f"{message} (not within {timeout:g} s; last answer: {last!r})"
