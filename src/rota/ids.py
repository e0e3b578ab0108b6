"""Names nobody else uses: of jobs, and of those who speak to the server."""

from __future__ import annotations

import os
import time


def new_id() -> str:
    """A fresh job id: 11 hex digits of milliseconds, so that ids sort by time, 60 random bits."""
    millis = time.time_ns() // 1_000_000
    return f"{millis:011x}{int.from_bytes(os.urandom(8)) >> 4:015x}"


def new_nonce() -> str:
    """A name nobody else uses: for a consumer, or one enqueue call."""
    return os.urandom(12).hex()
