"""The bell of a queue in one process: what drives the rules of `doorbell.Doorbell`.

All idle consumers of a process share one wait at the server, the blocker. `loop_bell.py` has the
driver for an event loop, `thread_bell.py` the one for threads.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rota.consume.doorbell import Actions, Doorbell, PassOn, Poke
from rota.link import Link
from rota.values.telling import Logger
from rota.values.timing import Sparingly

logger = Logger("rota.doorbell")

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0
SPARE_S = 5.0
"""How much longer than its wait a blocked read may take before the link counts as broken."""
HANG_UP_S = 0.05
"""How often a wait that is to end is hung up: it may not have begun yet."""


class Waiter(Protocol):
    """An idle consumer. Compared by identity."""

    def poke(self) -> None:
        """Lets it send a claim now."""

    def __hash__(self) -> int: ...


class Bell(ABC):
    """What a driver is told of consumers. `lock` is held while the rules are asked."""

    def __init__(self, link: Link, *, beat: float, lock: AbstractContextManager[Any]) -> None:
        self.rules: Doorbell[Waiter] = Doorbell(beat=beat)
        self.wakeups: dict[str, int] = {}
        """How often it woke a consumer, by cause: a token, a due time (`timer`), the `beat`, a
        doorbell that was `lost`, or another's claim that found more (`work`)."""
        self.errors = 0
        self._link = link
        self._beat = beat
        self._lock = lock
        self._users = 0
        self._logs = Sparingly()

    def sending(self, waiter: Waiter) -> None:
        with self._lock:
            self.rules.sending(waiter)
            self._refresh()

    def idle(self, waiter: Waiter, *, due_in: float | None, taken: bool, left: bool) -> None:
        now = time.monotonic()
        with self._lock:
            self._do(self.rules.idle(waiter, due_in=due_in, taken=taken, left=left, now=now))

    def busy(self, waiter: Waiter, *, left: bool) -> None:
        with self._lock:
            self._do(self.rules.busy(waiter, left=left, now=time.monotonic()))

    def gone(self, waiter: Waiter) -> None:
        with self._lock:
            self._do(self.rules.gone(waiter, now=time.monotonic()))

    def failed(self, waiter: Waiter) -> None:
        with self._lock:
            self._do(self.rules.failed(waiter, now=time.monotonic()))

    def _do(self, actions: Actions[Waiter], cause: str = "work") -> None:
        for action in actions:
            match action:
                case Poke():
                    self.wakeups[cause] = self.wakeups.get(cause, 0) + 1
                    action.waiter.poke()
                case PassOn():
                    self._pass_on_soon()
        self._refresh()

    @abstractmethod
    def _refresh(self) -> None:
        """After each event: whether to park, and when to look next, may have changed."""

    @abstractmethod
    def _pass_on_soon(self) -> None:
        """A token is to be passed on."""

    def _note(self, error: Exception) -> None:
        self.errors += 1
        if self._logs.allows("doorbell", error):
            root = self._link.keys.root
            logger.warning("the doorbell of %s failed, trying again: %s", root, error)
