"""The slots of a worker process, shared by its queues, which are asked in rotation."""

from __future__ import annotations

from collections import deque
from typing import Protocol

MAX_ENTRIES = 400
"""The most entries one claim asks for."""
SPLIT = 50
"""From so many slots on a claim asks for half of them at most: while the server works on one half,
the handlers of the other run. With fewer slots the calls would cost more than that gains."""


class Asker(Protocol):
    """A queue's fetch loop, as the slots see it."""

    def wake(self) -> None:
        """A slot is free and it is this one's turn to ask."""

    def squeezed(self) -> None:
        """No slot is left: it cannot answer the doorbell any more."""

    def __hash__(self) -> int: ...


class Slots:
    """Counts what is free. An asker that wants slots stands in line, so none starves another."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = size
        self._most = min(MAX_ENTRIES, (size + 1) // 2 if size >= SPLIT else size)
        self._askers: list[Asker] = []
        self._line: deque[Asker] = deque()

    def add(self, asker: Asker) -> None:
        self._askers.append(asker)

    def stand_in_line(self, asker: Asker) -> None:
        """It wants slots as soon as it is its turn."""
        if asker not in self._line:
            self._line.append(asker)
        if self.free and self._line[0] is asker:
            asker.wake()

    def is_asked_by(self, asker: Asker) -> bool:
        return asker in self._line

    def step_out(self, asker: Asker) -> None:
        """It knows of nothing to fetch."""
        if asker in self._line:
            self._line.remove(asker)
            self._wake_next()

    def take(self, asker: Asker) -> int:
        """An even share of what is free among those that want; 0 when it is another's turn."""
        if not self.free or (self._line and asker not in self._line):
            return 0
        share = min(self._most, max(1, self.free // max(1, len(self._line))))
        if asker in self._line:
            self._line.remove(asker)
        self.free -= share
        self._wake_next()
        return share

    def filled(self, asker: Asker) -> None:
        """What it took is in use. Not told of slots that were only asked for: two idle queues
        would squeeze each other without end."""
        if not self.free:
            for other in self._askers:
                if other is not asker:
                    other.squeezed()

    def give_back(self, n: int) -> None:
        self.free += n
        self._wake_next()

    def _wake_next(self) -> None:
        if self.free and self._line:
            self._line[0].wake()
