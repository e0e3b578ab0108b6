"""Whether a fetch loop asks for work: its place in the line for slots, and at the doorbell."""

from __future__ import annotations

import asyncio

from rota.consume.bell import Bell
from rota.values.model import Exchanged
from rota.work.slots import Slots


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
            self._rest(reply)
        self.wake()
        return False

    def _rest(self, reply: Exchanged) -> None:
        self._hungry = reply.left and self.burst and not self.quiet
        self._idle = self.fetching and not self.burst and not self.quiet
        self._bell.idle(self, due_in=reply.due, taken=bool(reply.entries), left=reply.left)
        if not self._idle:
            self._bell.gone(self)
        if self._hungry:
            self.ask()
