"""The bell of a queue in one process: what drives the rules of `doorbell.Doorbell`.

All idle consumers of an event loop share one wait at the server, the blocker, a task; those of code
without a loop share another, a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rota.connection import AsyncClient, Client
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
PATIENCE_S = 2.0
"""How much longer than its wait it may take until the doorbell counts as down."""
LEAVE_S = 1.0
"""How long the last one to leave tries to pass a token on; then others' beats have to do."""


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


class LoopBell(Bell):
    """The bell for an event loop, in which all methods are called."""

    def __init__(self, link: Link, *, beat: float) -> None:
        super().__init__(link, beat=beat, lock=contextlib.nullcontext())
        self._client: AsyncClient | None = None
        self._blocker: asyncio.Task[None] | None = None
        self._parked: set[AsyncClient] = set()
        self._passing: asyncio.Task[None] | None = None
        self._pass_again = False
        self._may_park = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._down = False
        self._parked_at: float | None = None

    def enter(self) -> None:
        """One more consumer uses it."""
        self._users += 1
        if self._blocker is None:
            self._blocker = asyncio.get_running_loop().create_task(self._block(), name="rota-bell")

    async def leave(self) -> None:
        """One consumer less; with the last the blocker ends.

        A token that came for it meanwhile is still read and passed on.
        """
        self._users -= 1
        if self._users > 0 or self._blocker is None:
            return
        blocker, self._blocker = self._blocker, None
        client, self._client = self._client, None
        told = False
        try:
            while not blocker.done():
                if client in self._parked:
                    client.hang_up()
                elif not told:
                    blocker.cancel()
                told = True
                await asyncio.wait([blocker], timeout=HANG_UP_S)
            if self._passing is not None:
                await asyncio.wait([self._passing], timeout=LEAVE_S)
        finally:  # also where who leaves will not wait for an answer
            blocker.cancel()
            if self._users == 0:
                self._cancel_timer()
                if self._passing is not None:
                    self._passing.cancel()

    @property
    def trouble(self) -> str | None:
        """What is wrong with the doorbell, for people; None where it hangs, or nobody needs it."""
        blocker = self._blocker
        if self._users and (blocker is None or blocker.done()):
            return "its loop has ended"
        if self._down and self.rules.is_needed():
            return "its connection is down"
        waited = 0.0 if self._parked_at is None else time.monotonic() - self._parked_at
        return f"no answer for {waited:.0f} s" if waited > self._beat + PATIENCE_S else None

    # ── carrying out ────────────────────────────────────────────────────────────────────────

    def _pass_on_soon(self) -> None:
        self._pass_again = True
        if self._passing is None:
            self._passing = asyncio.get_running_loop().create_task(self._pass_on())

    def _refresh(self) -> None:
        if self.rules.wants_park():
            self._may_park.set()
        else:
            self._may_park.clear()
        due = self.rules.next_timer()
        if due != self._timer_at:
            self._cancel_timer()
            if due is not None:
                loop = asyncio.get_running_loop()
                self._timer_at = due
                self._timer = loop.call_later(max(0.0, due - time.monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        self._do(self.rules.timer(time.monotonic()), "timer")

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_at = None

    async def _pass_on(self) -> None:
        try:
            while self._pass_again:
                self._pass_again = False
                try:
                    await self._link.run(self._link.store.pass_on(beat_ms=round(self._beat * 1000)))
                except Exception as error:
                    self._note(error)
                    if self._users == 0:
                        return
                    await asyncio.sleep(FIRST_PAUSE_S)
                    self._do(self.rules.lost(), "lost")
        finally:
            self._passing = None

    async def _block(self) -> None:
        client = self._client = self._link.apart(timeout=self._beat + SPARE_S).async_client
        try:
            await self._keep_parked(client)
        finally:
            await client.close()

    async def _keep_parked(self, client: AsyncClient) -> None:
        pause = FIRST_PAUSE_S
        this = asyncio.current_task()
        while self._blocker is this:
            await self._may_park.wait()
            await asyncio.sleep(0)  # the handlers that the last claim brought start first
            if not self._may_park.is_set():
                continue
            try:
                if await self._park(client):
                    self._do(self.rules.token(), "token")
                else:
                    self._do(self.rules.beat(), "beat")
                pause = FIRST_PAUSE_S
                self._down = False
            except Exception as error:  # whatever it was: this loop must go on
                if self._blocker is not this:
                    return
                self._down = True
                self._note(error)
                await self._link.async_client.drop_idle()
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
                self._do(self.rules.lost(), "lost")

    async def _park(self, client: AsyncClient) -> bool:
        self._parked.add(client)
        self._parked_at = time.monotonic()
        try:
            return await client.park(self._link.keys, self._beat)
        finally:
            self._parked_at = None
            self._parked.discard(client)


class ThreadBell(Bell):
    """The bell for threads. Its blocker is one that runs while consumers use it."""

    def __init__(self, link: Link, *, beat: float) -> None:
        self._change = threading.Condition(threading.RLock())
        super().__init__(link, beat=beat, lock=self._change)
        self._thread: threading.Thread | None = None
        self._client: Client | None = None
        self._parked = False
        self._pass_wanted = False

    def enter(self) -> None:
        with self._change:
            self._users += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._block, name="rota-bell", daemon=True)
                self._thread.start()

    def leave(self) -> None:
        """One consumer less; with the last the blocker ends."""
        with self._change:
            self._users -= 1
            thread, client = self._thread, self._client
            if self._users or thread is None:
                return
            self._thread = self._client = None
            self._change.notify_all()
        deadline = time.monotonic() + self._beat + SPARE_S
        while thread.is_alive() and time.monotonic() < deadline:
            if client is not None:
                client.hang_up()
            thread.join(HANG_UP_S)

    def wait(self, woken: Callable[[], bool], deadline: float) -> bool:
        """Blocks the calling thread until it was poked; False when the deadline passed first.

        Waiting threads keep the timer between them: whoever sees it come asks for one poke.
        """
        with self._change:
            while not woken():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                due = self.rules.next_timer()
                if due is not None and due <= time.monotonic():
                    self._do(self.rules.timer(time.monotonic()), "timer")
                    continue
                self._change.wait(left if due is None else min(left, due - time.monotonic()))
            return True

    def _refresh(self) -> None:
        self._change.notify_all()

    def _pass_on_soon(self) -> None:
        self._pass_wanted = True
        if self._parked and self._client is not None:
            self._client.hang_up()  # the blocker is to pass it on now

    def _block(self) -> None:
        client = self._link.apart(timeout=self._beat + SPARE_S, resend=False).client
        this = threading.current_thread()
        with self._change:
            if self._thread is this:
                self._client = client
        with contextlib.closing(client):
            self._keep_parked(client, this)

    def _keep_parked(self, client: Client, this: threading.Thread) -> None:
        pause = FIRST_PAUSE_S
        while True:
            with self._change:
                while self._thread is this and not (self._pass_wanted or self.rules.wants_park()):
                    self._change.wait()
                passing, self._pass_wanted = self._pass_wanted, False
                if self._thread is not this and not passing:
                    return
                self._parked = not passing
            try:
                if passing:
                    beat_ms = round(self._beat * 1000)
                    client.run(self._link.store.pass_on(beat_ms=beat_ms))
                    continue
                rang = client.park(self._link.keys, self._beat)
            except Exception as error:  # whatever it was: this loop must go on
                if self._thread is not this or self._pass_wanted:
                    continue  # hung up
                self._note(error)
                self._link.client.drop_idle()
                time.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
                with self._change:
                    self._do(self.rules.lost(), "lost")
            else:
                pause = FIRST_PAUSE_S
                with self._change:
                    if rang:
                        self._do(self.rules.token(), "token")
                    else:
                        self._do(self.rules.beat(), "beat")
            finally:
                self._parked = False
