"""What all consumers of a process share in one queue: the lease keeper and the bells."""

from __future__ import annotations

import asyncio
import os
import threading
from weakref import WeakKeyDictionary

from rota.consume.lease import LeaseKeeper
from rota.consume.loop_bell import LoopBell
from rota.consume.thread_bell import ThreadBell
from rota.link import Link


class Consuming:
    """Made with its queue; a child process gets its own parts on first use."""

    def __init__(self, link: Link, *, beat: float) -> None:
        self.link = link
        self.beat = beat
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._keeper = LeaseKeeper(self.link, beat=self.beat)
        self._threads = ThreadBell(self.link, beat=self.beat)
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBell] = WeakKeyDictionary()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self._renew()

    @property
    def keeper(self) -> LeaseKeeper:
        self._check_process()
        return self._keeper

    @property
    def thread_bell(self) -> ThreadBell:
        self._check_process()
        return self._threads

    def bell(self) -> LoopBell:
        """The running loop's."""
        self._check_process()
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._loops.get(loop)
            if found is None:
                for other in [one for one in self._loops if one.is_closed()]:
                    del self._loops[other]  # its bell knows its loop: neither would go
                found = self._loops[loop] = LoopBell(self.link, beat=self.beat)
            return found
