"""The slots of a worker process, shared by its queues, which are asked in rotation; and whether a
queue's fetch loop asks: its place in the line for slots, and at the doorbell."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from rota.consume.bell import Bell
from rota.values.model import Exchanged

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


class Demand:
    """One fetch loop as the slots and the bell see it. `woken` lets the loop take a round."""

    def __init__(self, slots: Slots, bell: Bell, woken: asyncio.Event) -> None:
        self.burst = False
        """It ends when there is nothing more, instead of sleeping until it is poked."""
        self.fetching = True
        self.quiet = False
        self._woken = woken
        self._slots = slots
        self._bell = bell
        self._hungry = True
        self._idle = False
        self._claiming = False
        slots.add(self)

    def wake(self) -> None:
        self._woken.set()

    @property
    def wants_more(self) -> bool:
        """Whether it will ask again, or sleeps and may be poked."""
        return self.fetching and not (self.burst and not self._hungry)

    def ask(self) -> None:
        """It may find something: it stands in line for slots."""
        if self.fetching and not self.quiet:
            self._hungry = True
            self._slots.stand_in_line(self)

    def stop(self) -> None:
        """It asks for nothing any more, and sleeps no more."""
        self.fetching = False
        self._step_out()

    def quieten(self) -> None:
        """It asks for nothing any more, and stays."""
        self.quiet, self._hungry = True, False
        self._step_out()

    def _step_out(self) -> None:
        self._slots.step_out(self)
        self._bell.gone(self)
        self.wake()

    # ── from outside ────────────────────────────────────────────────────────────────────────

    def poke(self) -> None:
        self._idle = False
        self.ask()

    def squeezed(self) -> None:
        if self._claiming or not self.fetching:
            return
        self._bell.gone(self)  # also where it was poked: it cannot send now
        if self._idle:
            self._idle = False
            self.ask()

    # ── a claim ─────────────────────────────────────────────────────────────────────────────

    def share(self, *, settles: bool) -> int:
        """Slots to claim for: when it asked for them, or when settlements take a claim along."""
        wants = settles or self._slots.is_asked_by(self)
        return self._slots.take(self) if wants and self.fetching and not self.quiet else 0

    def sending(self, want: int) -> None:
        if want:
            self._bell.sending(self)
            self._idle, self._claiming = False, True

    def failed(self, want: int = 0) -> None:
        """A claim for `want` slots has no known outcome, or that of the last one is known now."""
        if want:
            self._slots.give_back(want)
        self._claiming = self._idle = False
        self._bell.failed(self)
        self.ask()

    def answered(self, want: int, reply: Exchanged) -> bool:
        """What a claim's answer says of the next one: full, ask again; short, sleep until poked.

        True: something is due now and has to be brought back first; then `ask`.
        """
        self._claiming = False
        self._slots.give_back(want - len(reply.entries))
        if reply.entries:
            self._slots.filled(self)
        if len(reply.entries) >= want:
            self._bell.busy(self, left=reply.left)
            self.ask()
        elif reply.due == 0:
            return True
        else:
            self._hungry = reply.left and self.burst and not self.quiet
            self._idle = self.fetching and not self.burst and not self.quiet
            self._bell.idle(self, due_in=reply.due, taken=bool(reply.entries), left=reply.left)
            if not self._idle:
                self._bell.gone(self)
            if self._hungry:
                self.ask()
        self.wake()
        return False
