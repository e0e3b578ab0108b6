"""A queue's time in a test's hand.

`library()` assembles the scripts as they are shipped, but for the clock: they read the time from
field `clock` of the queue's `config` hash. `Clock` writes it, by a raw client; `on_test_clock`
gives a queue these scripts.
"""

from __future__ import annotations

from functools import cache

import redis

import rota
from rota.script.keys import Keys
from rota.script.loader import Library

START_MS = 1_700_000_000_000


@cache
def library() -> Library:
    return Library({"clock": "local now = tonumber(redis.call('HGET', k_config, 'clock'))\n"})


def on_test_clock(queue: rota.Queue) -> rota.Queue:
    """The queue, whose server takes the time from its `Clock`. Before its first use."""
    queue.link.library = library()
    return queue


class Clock:
    """The time of one queue, in whole Unix milliseconds. It moves only when told to."""

    def __init__(self, raw: redis.Redis, keys: Keys, start: int = START_MS) -> None:
        self._raw = raw
        self._config = keys.config
        self._now = start
        self.set(start)

    @property
    def now(self) -> int:
        return self._now

    def set(self, now: int) -> None:
        self._now = now
        self._raw.hset(self._config, "clock", str(now))

    def advance(self, ms: int) -> int:
        """Move on by `ms` milliseconds; returns the new time."""
        self.set(self._now + ms)
        return self._now
