"""The bell for an event loop: its idle consumers share one blocker, a task. See `bell.py`."""

from __future__ import annotations

import asyncio
import contextlib
import time

from rota.connection import AsyncClient
from rota.consume.bell import FIRST_PAUSE_S, HANG_UP_S, MAX_PAUSE_S, SPARE_S, Bell
from rota.link import Link

PATIENCE_S = 2.0
"""How much longer than its wait it may take until the doorbell counts as down."""
LEAVE_S = 1.0
"""How long the last one to leave tries to pass a token on; then others' beats have to do."""


class LoopBell(Bell):
    """All methods are called in that loop."""

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
