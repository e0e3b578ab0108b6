"""The bell for threads: consumers of code without an event loop. See `bell.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

from rota.connection import Client
from rota.consume.bell import FIRST_PAUSE_S, HANG_UP_S, MAX_PAUSE_S, SPARE_S, Bell
from rota.link import Link


class ThreadBell(Bell):
    """Its blocker is a thread that runs while consumers use it."""

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
        with closing(client):
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
