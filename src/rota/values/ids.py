"""Names nobody else uses: of jobs, and of those who speak to the server."""

from __future__ import annotations

import os
import time

_BATCH = 256
_DIGITS = 15
_random: list[str] = []
"""60 random bits each, in hex, taken once: asking the system for every job's costs more than all
else of its id. A forked child must not use those of its parent."""

_stamp = 0, ""
"""The last millisecond in which an id was made, and its text: bulks are made by the hundred in
each. Another thread may replace it at any time, by its own, which is as good."""

os.register_at_fork(after_in_child=_random.clear)


def new_id() -> str:
    """A fresh job id: 11 hex digits of milliseconds, so that ids sort by time, 60 random bits."""
    global _stamp
    millis = time.time_ns() // 1_000_000
    if millis != _stamp[0]:
        _stamp = millis, f"{millis:011x}"
    return _stamp[1] + _digits()


def new_nonce() -> str:
    """A name nobody else uses: for a consumer, or one call."""
    return _digits() + _digits()[:9]


def _digits() -> str:
    while True:
        try:
            return _random.pop()
        except IndexError:  # and other threads may take what is put here
            text = os.urandom(_BATCH * _DIGITS // 2).hex()
            _random.extend(text[i : i + _DIGITS] for i in range(0, _BATCH * _DIGITS, _DIGITS))
