"""Several worker processes under one parent, which starts them and holds their leashes.

A leash is a socket pair between parent and child: the child says through it that it works, and
the end of the parent, however it came, is the end of the stream. So nobody polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rota.telling import Logger

logger = Logger("rota.process")

LEASH_VARIABLE = "ROTA_INTERNAL_LEASH"
MAX_PROCESSES = 256
RESTART_PAUSE_S = 1.0
MAX_RESTART_PAUSE_S = 30.0
STOP_SPARE_S = 10.0
"""How much longer than its grace period a stopping child may take before it is killed."""
INTERRUPTED = 130


class Leash:
    """A child's end."""

    def __init__(self, connection: socket.socket, number: int) -> None:
        self.number = number
        self._connection = connection

    def ready(self) -> None:
        """Tells the parent that this process works."""
        with contextlib.suppress(OSError):
            self._connection.send(b"+")

    def watch(self, on_parent_gone: Callable[[], None]) -> None:
        """Calls back in the running loop, once, when the parent is gone."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            with contextlib.suppress(OSError):
                if self._connection.recv(16):
                    return
            loop.remove_reader(self._connection)
            on_parent_gone()

        self._connection.setblocking(False)
        loop.add_reader(self._connection, look)

    def unwatch(self) -> None:
        asyncio.get_running_loop().remove_reader(self._connection)


def find_leash() -> Leash | None:
    """The leash of this process if a parent started it. What it starts itself inherits nothing."""
    number, _, descriptor = os.environ.pop(LEASH_VARIABLE, "").partition(":")
    if not descriptor:
        return None
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)
    return Leash(connection, int(number))


@dataclass(slots=True, eq=False)
class _Child:
    number: int
    process: asyncio.subprocess.Process
    leash: socket.socket
    works: bool = False

    async def listen(self) -> None:
        """Until it works; returns also when it ends before."""
        with contextlib.suppress(OSError):
            self.works = bool(await asyncio.get_running_loop().sock_recv(self.leash, 16))

    def send(self, signal_number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal_number)


class Supervisor:
    """Runs `count` processes of one command until it is told to stop.

    The others start when the first works, so what is wrong with the command is said once. A
    process that ends without being told to is replaced after a second (longer, up to 30, as
    long as the replacements do not get to work). With `burst` a process that ends by itself
    has done its part; only one that a signal killed is replaced.
    """

    def __init__(
        self, command: Sequence[str], *, count: int, grace: float, burst: bool = False
    ) -> None:
        self._command = list(command)
        self._count = count
        self._grace = grace
        self._burst = burst
        self._children: dict[int, _Child] = {}
        self._stopping = asyncio.Event()
        self._first = asyncio.Event()
        self._interrupts = 0

    async def run(self) -> int:
        """Returns 0 when every process ended with 0, else the first other exit code."""
        with self._signals():
            keepers = [asyncio.create_task(self._keep(n)) for n in range(1, self._count + 1)]
            killer = asyncio.create_task(self._kill_the_slow())
            try:
                codes = await asyncio.gather(*keepers)
            finally:
                for task in [killer, *keepers]:
                    task.cancel()
                self._send_all(signal.SIGKILL)
        if self._interrupts > 1:
            return INTERRUPTED
        return next((code for code in codes if code), 0)

    def stop(self) -> None:
        """Tells every process to stop; `run` returns when they have ended."""
        if not self._stopping.is_set():
            logger.info("stopping %d processes", len(self._children))
        self._stopping.set()
        self._first.set()
        self._send_all(signal.SIGTERM)

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            self.stop()
        else:
            self._send_all(signal.SIGKILL)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            loop.remove_signal_handler(signal.SIGINT)

    def _send_all(self, signal_number: int) -> None:
        for child in self._children.values():
            child.send(signal_number)

    async def _kill_the_slow(self) -> None:
        await self._stopping.wait()
        await asyncio.sleep(self._grace + STOP_SPARE_S)
        for child in self._children.values():
            logger.error("process %d (pid %d) does not stop: killed", *_name(child))
            child.send(signal.SIGKILL)

    async def _keep(self, number: int) -> int:
        """Keeps one place filled; returns the last exit code."""
        if number > 1:
            await self._first.wait()
        pause, code = RESTART_PAUSE_S, 0
        while not self._stopping.is_set():
            child = await self._start(number)
            code = await self._until_ended(child)
            if self._is_final(child, code):
                break
            logger.warning(
                "process %d (pid %d) %s; another starts in %g s", *_name(child), _how(code), pause
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = RESTART_PAUSE_S if child.works else min(2 * pause, MAX_RESTART_PAUSE_S)
        return self._exit_code(code)

    async def _start(self, number: int) -> _Child:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, LEASH_VARIABLE: f"{number}:{theirs.fileno()}"},
                # A terminal's Ctrl-C then reaches the parent only, which tells the children.
                start_new_session=True,
            )
        child = self._children[number] = _Child(number, process, ours)
        if self._stopping.is_set():
            child.send(signal.SIGTERM)
        return child

    async def _until_ended(self, child: _Child) -> int:
        try:
            await child.listen()
            if child.works:
                self._first.set()
            return await child.process.wait()
        finally:
            child.leash.close()
            del self._children[child.number]

    def _is_final(self, child: _Child, code: int) -> bool:
        if self._stopping.is_set():
            return True
        if code < 0:
            return False
        if not self._first.is_set() and (code > 0 or not self._burst):
            self.stop()  # the first never got to work: the others would not either
            return True
        self._first.set()
        return self._burst

    def _exit_code(self, code: int) -> int:
        """A shell's: 128 + n for signal n; one told to stop before it could listen ended well."""
        if code >= 0:
            return code
        return 0 if code == -signal.SIGTERM and self._stopping.is_set() else 128 - code


def _name(child: _Child) -> tuple[int, int]:
    return child.number, child.process.pid


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
