"""How a fetch loop calls its server: since when that fails, for how long it has not answered."""

from __future__ import annotations

import time
from typing import TypeVar

from rota.errors import LeaseLost, RotaError
from rota.observe.observer import SILENT
from rota.queue import Queue
from rota.script.loader import Operation
from rota.values.telling import Logger, safely
from rota.values.timing import Sparingly

T = TypeVar("T")
logger = Logger("rota.worker")

PATIENCE_S = 3.0
"""How long an answer may take until the server counts as gone."""


class Caller:
    """Carries out the operations of one queue's fetch loop, and notes how that goes."""

    def __init__(self, queue: Queue) -> None:
        self.observer = SILENT
        self._queue = queue
        self._asked_at: float | None = None
        self._failing_since: float | None = None
        self._logs = Sparingly()

    async def call(self, operation: Operation[T]) -> T:
        try:
            answer = await self._queue.link.run(operation)
        except LeaseLost:
            self._failing_since = None  # an answer as well
            raise
        except RotaError as error:
            self._note_failure(error)
            raise
        self._failing_since = None
        return answer

    async def timed(self, script: str, operation: Operation[T]) -> T:
        """As `call`, one at a time: the observer is told how long it took."""
        self._asked_at = began = time.monotonic()
        try:
            answer = await self.call(operation)
        finally:
            self._asked_at = None
        with safely:
            self.observer.called(script, time.monotonic() - began)
        return answer

    def _note_failure(self, error: Exception) -> None:
        with safely:
            self.observer.failed()
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        if self._logs.allows("queue", error):
            logger.warning("queue %s: %s; trying again", self._queue.name, error)

    @property
    def trouble(self) -> str | None:
        """What is wrong with it, for people; None where all is well. From any thread."""
        now, failing, asked = time.monotonic(), self._failing_since, self._asked_at
        if failing is not None:
            return f"it has not been reached for {now - failing:.0f} s"
        if asked is not None and now - asked > PATIENCE_S:
            return f"it has not answered for {now - asked:.0f} s"
        return None
