"""The thread of a process in which its leases are kept, on an event loop of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from rota.values.telling import Logger, safely

logger = Logger("rota.lease")

RETRY_PAUSE_S = 0.5
WATCH_S = 1.0


class Keeper(Protocol):
    """What runs in it: a task for each. Compared by identity."""

    changed: asyncio.Event

    @property
    def is_needed(self) -> bool: ...

    async def keep(self) -> None:
        """While it is needed."""

    def __hash__(self) -> int: ...


class LeaseThread:
    """It runs while a keeper is needed or someone watches. Whatever ends of it meanwhile, itself
    included, is begun anew."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a child process, which has no thread yet."""
        self._lock = threading.Lock()
        self._keepers: set[Keeper] = set()
        self._watches: Counter[Callable[[], None]] = Counter()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def serve(self, keeper: Keeper) -> None:
        with self._lock:
            self._keepers.add(keeper)
            self._start()
        self.wake(keeper)

    def watch(self, look: Callable[[], None]) -> None:
        """Calls `look` from the thread about once a second."""
        with self._lock:
            self._watches[look] += 1
            self._start()

    def unwatch(self, look: Callable[[], None]) -> None:
        with self._lock:
            self._watches -= Counter([look])
        self.wake(None)

    def _start(self) -> None:
        if not self.is_alive:
            self._loop = None
            self._thread = threading.Thread(target=self._run, name="rota-lease", daemon=True)
            self._thread.start()

    @property
    def is_alive(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def wake(self, keeper: Keeper | None) -> None:
        """Something has changed: for a keeper, or for the thread as a whole."""
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._stir, keeper)
            except RuntimeError:
                pass  # it has just ended; what is still needed begins anew

    def _stir(self, keeper: Keeper | None) -> None:
        if keeper is not None:
            keeper.changed.set()
        self._changed.set()

    # ── the thread ──────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        this = threading.current_thread()
        while self._thread is this:
            try:
                asyncio.run(self._serve())
            except BaseException as error:  # a SystemExit of somebody's log filter, for instance
                logger.error("the thread that keeps leases failed, it begins anew: %r", error)
                time.sleep(RETRY_PAUSE_S)

    async def _serve(self) -> None:
        tasks: dict[Keeper, asyncio.Task[None]] = {}
        self._changed = changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                with self._lock:
                    self._keepers = {one for one in self._keepers if one.is_needed}
                    tasks = {keeper: task for keeper, task in tasks.items() if not task.done()}
                    if not self._keepers and not self._watches:
                        self._thread = self._loop = None
                        return
                    keepers, looks = list(self._keepers), list(self._watches)
                for keeper in keepers:
                    if keeper not in tasks:
                        task = tasks[keeper] = asyncio.create_task(keeper.keep())
                        task.add_done_callback(lambda _: changed.set())  # it may be needed again
                for look in looks:
                    with safely:
                        look()
                await until_set(changed, WATCH_S)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)


async def until_set(event: asyncio.Event, seconds: float) -> None:
    """Waits for it, at most so long, and clears it."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        pass
    event.clear()


lease_thread = LeaseThread()
os.register_at_fork(after_in_child=lease_thread.forget)
