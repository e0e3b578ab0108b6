"""Names nobody else uses: of jobs, and of those who speak to the server."""

from __future__ import annotations

import os
import time

_BATCH = 256
_DIGITS = 15
_random: list[str] = []
"""60 random bits each, in hex, taken once: asking the system for every job's costs more than all
else of its id. A forked child must not use those of its parent."""

os.register_at_fork(after_in_child=_random.clear)


def new_id() -> str:
    """A fresh job id: 11 hex digits of milliseconds, so that ids sort by time, 60 random bits."""
    millis = hex(time.time_ns() // 1_000_000)[2:].zfill(11)
    while True:
        try:
            return millis + _random.pop()
        except IndexError:
            _collect()  # and other threads may have taken all of it


def new_nonce() -> str:
    """A name nobody else uses: for a consumer, or one enqueue call."""
    return os.urandom(12).hex()


def _collect() -> None:
    text = os.urandom(_BATCH * _DIGITS // 2).hex()
    _random.extend(text[i : i + _DIGITS] for i in range(0, _BATCH * _DIGITS, _DIGITS))
