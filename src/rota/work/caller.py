"""A fetch loop's contact with its server: when it asked, since when it fails, what is wrong."""

from __future__ import annotations

import time

from rota.observe.meter import SILENT, Observer
from rota.values.telling import Logger, safely
from rota.values.timing import Sparingly

logger = Logger("rota.worker")

PATIENCE_S = 3.0
"""How long an answer may take until the server counts as gone."""


class Contact:
    """Told of every question and every answer of one queue's fetch loop."""

    def __init__(self, queue: str, observer: Observer = SILENT) -> None:
        self.observer = observer
        self._queue = queue
        self._asked_at: float | None = None
        self._failing_since: float | None = None
        self._logs = Sparingly()

    def asks(self) -> None:
        self._asked_at = time.monotonic()

    def answered(self, script: str) -> None:
        asked_at, self._asked_at = self._asked_at, None
        self._failing_since = None
        if asked_at is not None:
            with safely:
                self.observer.called(script, time.monotonic() - asked_at)

    def dropped(self) -> None:
        """Nobody waits for the answer any more."""
        self._asked_at = None

    def failed(self, error: Exception) -> None:
        with safely:
            self.observer.failed()
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        if self._logs.allows("queue", error):
            logger.warning("queue %s: %s; trying again", self._queue, error)

    @property
    def trouble(self) -> str | None:
        """What is wrong with it, for people; None where all is well. From any thread."""
        now, failing, asked = time.monotonic(), self._failing_since, self._asked_at
        if failing is not None:
            return f"it has not been reached for {now - failing:.0f} s"
        if asked is not None and now - asked > PATIENCE_S:
            return f"it has not answered for {now - asked:.0f} s"
        return None
