"""Wait for a condition, never for a time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    predicate: Callable[[], T], message: str, timeout: float = 5.0, interval: float = 0.01
) -> T:
    """Call `predicate` until it answers something true, and return that.

    Raises AssertionError with `message` and the last answer after `timeout` seconds. Only
    AssertionErrors of the predicate count as "not yet"; any other exception passes through.
    """
    deadline = time.monotonic() + timeout
    while True:
        last: object
        try:
            value = predicate()
            if value:
                return value
            last = value
        except AssertionError as error:
            last = error
        if time.monotonic() >= deadline:
            raise AssertionError(_late(message, timeout, last))
        time.sleep(interval)


async def eventually_async(
    predicate: Callable[[], T | Awaitable[T]],
    message: str,
    timeout: float = 5.0,
    interval: float = 0.01,
) -> T:
    """As `eventually`, on the running event loop; `predicate` may be a coroutine function."""
    deadline = time.monotonic() + timeout
    while True:
        last: object
        try:
            answer = predicate()
            value: T = await answer if inspect.isawaitable(answer) else answer
            if value:
                return value
            last = value
        except AssertionError as error:
            last = error
        if time.monotonic() >= deadline:
            raise AssertionError(_late(message, timeout, last))
        await asyncio.sleep(interval)


def _late(message: str, timeout: float, last: object) -> str:
    return f"{message} (not within {timeout:g} s; last answer: {last!r})"
