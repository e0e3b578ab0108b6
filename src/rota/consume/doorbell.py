"""The rules of one process's doorbell in one queue, without I/O, clock or task.

A *waiter* is a consumer with free slots that wants to sleep until there is work. All waiters of
a process share one blocker (at most one `BLPOP wake` outstanding), which a driver owns. The
driver tells `Doorbell` what happened and carries out the actions it gets back, in order. It
serialises the calls; the class itself is neither thread-safe nor bound to a loop.

A waiter's life here::

    sending ──► idle ──► (Poke) ──► sending ──► …        look first, then sleep
       │          └───► gone                              cancelled, stopping, slots taken
       ├────► busy                                        its claim came back full
       └────► failed                                      its claim has no known outcome

The one idea: whatever says "there may be something" (a token, a due time, a doubt) is a *debt*.
It is paid by a claim sent after it and answered with free slots left, for only such an answer
says both that nothing more can be taken and when the next thing falls due. A debt always rests
somewhere: on a poked waiter, on a claim in flight, or, passed on, with the server.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Poke(Generic[W]):
    """Let this waiter send a claim now.

    Drop it if the waiter has meanwhile sent one by itself or was reported gone.
    """

    waiter: W


@dataclass(frozen=True, slots=True)
class PassOn:
    """Run the `pass_on` script, after everything received so far.

    It must not be forgotten: if it fails, back off, then report `lost`. One that waits to be
    sent covers those asked for meanwhile; one already sent does not.
    """


Action: TypeAlias = Poke[W] | PassOn
Actions: TypeAlias = tuple[Action[W], ...]


@dataclass(slots=True)
class _Flight:
    """A claim in flight: does a debt rest on it, and has no other claim of this process told a
    due time since it was sent?"""

    owes: bool = False
    newest: bool = True


class Doorbell(Generic[W]):
    """Who is idle, who was poked, which claims are in flight, and when to look next.

    `beat` is the fallback period in seconds; every `now` and the answer of `next_timer` are
    seconds of one monotonic clock.
    """

    def __init__(self, *, beat: float) -> None:
        self._beat = beat
        self._idle: dict[W, None] = {}  # in the order of their falling asleep: who waits longest
        self._poked: dict[W, None] = {}
        self._flying: dict[W, _Flight] = {}
        self._due: float | None = None
        self._blind = False

    # ── what the driver asks ────────────────────────────────────────────────────────────────

    def wants_park(self) -> bool:
        """Whether to issue a BLPOP if none is outstanding; ask after each event.

        Without an idle waiter nobody could answer the token. After an error a claim must have
        been answered first: bells rung meanwhile were not heard, and a server that cannot
        answer a claim would end each BLPOP as fast as it is issued.
        """
        return bool(self._idle) and not self._blind

    def is_needed(self) -> bool:
        """Whether a waiter is here that a token may have to wake, or one could have been missed."""
        return bool(self._idle or self._poked or self._flying or self._blind)

    def next_timer(self) -> float | None:
        """When to call `timer`; ask after each event."""
        return self._due

    # ── what happens to a waiter ────────────────────────────────────────────────────────────

    def sending(self, waiter: W) -> None:
        """It sends a claim with `want` > 0 now, poked or of its own accord.

        Also for the next claim of one that will not rest after an answer (it came back full
        but there are slots, or told something already due): the debt goes along.
        """
        before = self._flying.get(waiter)
        owes = waiter in self._poked or (before is not None and before.owes)
        self._forget(waiter)
        self._flying[waiter] = _Flight(owes=owes)

    def idle(
        self, waiter: W, *, due_in: float | None, taken: bool, left: bool, now: float
    ) -> Actions[W]:
        """Its claim was answered with free slots left; it waits from now on.

        One that does not wait after all: call `gone` next.
        """
        flight = self._flying.get(waiter)
        self._forget(waiter)
        self._idle[waiter] = None
        self._blind = False
        self._learn(flight, None if due_in is None else now + due_in)
        # The next one only if there was something and there is more: no herd. Nobody may fall
        # asleep without a look either: work could lie there whose bell others have answered.
        return self._owe() if flight is None or (taken and left) else ()

    def busy(self, waiter: W, *, left: bool, now: float) -> Actions[W]:
        """Its claim was answered and came back full: it waits no more."""
        flight = self._flying.get(waiter)
        self._forget(waiter)
        self._blind = False
        if left:
            # The script has rung for what it left, so others come if nobody here can.
            return self._leave(owes=bool(self._idle), rung=True, now=now)
        # A full claim does not tell what falls due. If it was to pay a debt, that may have
        # been the bell of a delayed job, so one more has to look.
        return self._leave(owes=flight is not None and flight.owes, now=now)

    def gone(self, waiter: W, *, now: float) -> Actions[W]:
        """It waits no more: cancelled, timed out, stopping, or its slots went to another queue.

        In flight too, once its claim can no longer act on the server: then its answer, with
        the tokens it deleted and the due time it was told, has found no reader.
        """
        owes = waiter in self._poked or waiter in self._flying
        self._forget(waiter)
        return self._leave(owes=owes, now=now)

    def failed(self, waiter: W, *, now: float) -> Actions[W]:
        """Its claim was refused, broke off or has an unknown outcome.

        Call it at once, so that the debt does not wait for a reconnect, and again when the
        claim can no longer act on the server (reconciled, or the lease is lost): a late
        claim may delete a token after the first call, and its answer has no reader. Owed
        even by a claim on which no debt rested, for the same reason.
        """
        self._forget(waiter)
        return self._leave(owes=True, now=now)

    # ── what happens to the blocker and the timer ───────────────────────────────────────────

    def token(self) -> Actions[W]:
        """BLPOP brought a token."""
        # A claim already in flight may have passed the ring before the token was rung.
        return self._owe()

    def beat(self) -> Actions[W]:
        """BLPOP timed out. A look by the next idle waiter, the safety net: even if another was
        poked and, by some fault, never sent."""
        return self._poke() if self._idle else ()

    def lost(self) -> Actions[W]:
        """The blocker or a `PassOn` failed, or the server's role changed: after any back-off."""
        # The server may have popped a token for the connection that broke.
        self._blind = True
        return self._owe()

    def timer(self, now: float) -> Actions[W]:
        """`next_timer` may have come; too early is harmless."""
        if self._due is None or now < self._due:
            return ()
        self._due = None
        return self._owe()

    # ── rules ───────────────────────────────────────────────────────────────────────────────

    def _owe(self) -> Actions[W]:
        """There is a debt from now on: find who pays."""
        if self._poked:
            return ()  # its claim is still to be sent, so it pays this debt too
        if self._idle:
            return self._poke()
        return (PassOn(),)

    def _poke(self) -> Actions[W]:
        waiter = next(iter(self._idle))
        self._forget(waiter)
        self._poked[waiter] = None
        return (Poke(waiter),)

    def _leave(self, *, owes: bool, now: float, rung: bool = False) -> Actions[W]:
        """A waiter has left; the last one hands the time over.

        A full process is busy and its timers late, so another is to keep what falls due within
        a beat. `pass_on` does not ring for later times; sleepers learn those at their own
        beat, and this process keeps them until then.
        """
        due_soon = self._due is not None and self._due <= now + self._beat
        if due_soon and not (self._idle or self._poked or self._flying):
            self._due = None
            owes = owes or not rung
        return self._owe() if owes else ()

    def _learn(self, flight: _Flight | None, due: float | None) -> None:
        """A claim told when the next thing falls due.

        If no other did since it was sent, it is the server's newest word and may also move the
        time back. Otherwise either may be the newer: keep the earlier, for looking once in
        vain is cheap, and a token that announced the earlier one may be deleted already.
        """
        if flight is not None and flight.newest:
            self._due = due
        elif due is not None:
            self._due = due if self._due is None else min(self._due, due)
        for other in self._flying.values():
            other.newest = False

    def _forget(self, waiter: W) -> None:
        self._idle.pop(waiter, None)
        self._poked.pop(waiter, None)
        self._flying.pop(waiter, None)
