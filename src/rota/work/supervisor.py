"""Several worker processes under one parent, which starts them and holds their leashes.

A leash is a socket pair between parent and child. The child says through it that it works, and what
it holds, so that the parent can give that to others when it dies; the parent says when to stop. The
end of the parent, however it came, is the end of the stream. So nobody polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from rota.connection import AsyncClient, Target
from rota.errors import RotaError
from rota.queue import Queue
from rota.script.keys import Keys
from rota.store import Store
from rota.values.telling import Logger

logger = Logger("rota.process")

LEASH_VARIABLE = "ROTA_INTERNAL_LEASH"
MAX_PROCESSES = 256
RESTART_PAUSE_S = 1.0
MAX_RESTART_PAUSE_S = 30.0
STOP_SPARE_S = 10.0
"""How much longer than its grace periods, of jobs and of lifespans, a stopping child may take; then
it is killed."""
HURRY_S = 1.5
"""How long a process that was told twice to stop may take to give its jobs back."""
HURRY_SPARE_S = 0.4
"""How much longer before its parent kills it."""
TELL_S = 1.5
"""How long the end of all waits for the server to be told who has died."""
INTERRUPTED = 130


def stop_signals() -> tuple[signal.Signals, ...]:
    """Those that mean a stop; not the hang-up where it is ignored, as under nohup."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return numbers[:2] if ignored else numbers


@contextlib.contextmanager
def told_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Meanwhile the running loop calls `stop` at each signal that means it."""
    loop, numbers = asyncio.get_running_loop(), stop_signals()
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class _Lease(msgspec.Struct, frozen=True):
    """Under which identity a child works on a queue; None: it has left it."""

    target: Target
    prefix: str
    queue: str
    consumer: str | None

    def line(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)


Word = Literal["works", "introduced", "listens"]
"""What a child says of itself: that it works, that people were told what it works on, that it hears
its parent, who need not send signals."""


class Leash:
    """A child's end. `introduces`: whether it is to tell people what it works on."""

    def __init__(self, connection: socket.socket, number: int, *, introduces: bool) -> None:
        self.number = number
        self.introduces = introduces
        self._connection = connection

    def say(self, word: Word) -> None:
        self._send(word.encode())

    def holding(self, queue: Queue, consumer: str | None) -> None:
        """Tells the parent whose lease to end when this process dies."""
        keys = queue.link.keys
        self._send(_Lease(queue.link.target, keys.prefix, keys.queue, consumer).line())

    def _send(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # a parent that stands still must not hold it up
            self._connection.send(line + b"\n", socket.MSG_DONTWAIT)

    def fileno(self) -> int:
        return self._connection.fileno()

    def hear(self) -> int | None:
        """How often the parent has been told to stop; None when it is gone. Blocks."""
        with contextlib.suppress(OSError):
            words = self._connection.recv(16)
            if words:
                return max(words)
        return None


def find_leash() -> Leash | None:
    """The leash of this process if a parent started it. What it starts itself inherits nothing."""
    words = os.environ.pop(LEASH_VARIABLE, "").split(":")
    if len(words) != 3:
        return None
    connection = socket.socket(fileno=int(words[1]))
    connection.set_inheritable(False)
    return Leash(connection, int(words[0]), introduces=words[2] == "1")


class Child:
    """A worker's process, and the parent's end of its leash."""

    def __init__(self, number: int, leash: socket.socket) -> None:
        self.number = number
        self.process: asyncio.subprocess.Process
        self.said: set[str] = set()
        self.spoke = asyncio.Event()
        """Set when it works, or has ended."""
        self._leash = leash
        self._heard = b""
        self._leases: dict[bytes, _Lease] = {}
        self._killed = False

    @classmethod
    async def start(cls, command: Sequence[str], number: int, *, introduces: bool) -> Child:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        child = cls(number, ours)
        words = (number, theirs.fileno(), int(introduces))
        with theirs:
            child.process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, LEASH_VARIABLE: ":".join(map(str, words))},
                # A terminal's Ctrl-C then reaches the parent only, which tells the children.
                start_new_session=True,
            )
        asyncio.get_running_loop().add_reader(ours, child._listen)
        return child

    def __str__(self) -> str:
        return f"process {self.number} (pid {self.process.pid})"

    @property
    def works(self) -> bool:
        return "works" in self.said

    def _listen(self) -> bool:
        """Reads what it has said; False where there is nothing more."""
        try:
            data = self._leash.recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._leash)
            return False
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            self.said.add(line.decode(errors="replace"))
            if self.works:
                self.spoke.set()
            return
        try:
            lease = msgspec.json.decode(line, type=_Lease, dec_hook=lambda kind, text: kind(text))
        except msgspec.DecodeError:
            return  # cut: it was said while this process stood still
        queue = msgspec.structs.replace(lease, consumer=None).line()
        if lease.consumer is None:
            self._leases.pop(queue, None)
        else:
            self._leases[queue] = lease

    def stop(self, times: int) -> None:
        """Tells it to stop, for the `times`th time. Where it listens it is told by the leash: what
        tells a whole group of processes to stop reaches it as well, and would count twice."""
        if "listens" not in self.said:
            self._send(signal.SIGTERM)
            return
        with contextlib.suppress(OSError):
            self._leash.send(bytes([times]))

    def kill(self) -> None:
        """Its jobs are not to blame."""
        self._killed = True
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def ended(self) -> int:
        """Waits for its end; the exit code. Call it once."""
        try:
            code = await self.process.wait()
            while self._listen():
                pass
            return code
        finally:
            self.spoke.set()
            asyncio.get_running_loop().remove_reader(self._leash)
            self._leash.close()

    async def end_leases(self) -> None:
        """Gives what it held to others, who need not wait until its leases run out. What had
        started counts a death, as when they run out, unless its parent killed it."""
        for lease in self._leases.values():
            assert lease.consumer is not None
            client = AsyncClient(lease.target, size=1)
            store = Store(Keys(lease.queue, lease.prefix))
            try:
                await client.run(store.leave(lease.consumer, died=not self._killed))
            except RotaError as error:
                message = "queue %s: the lease of %s cannot be ended, it will run out: %s"
                logger.warning(message, lease.queue, self, error)
            finally:
                await client.close()


class Supervisor:
    """Runs `count` processes of one command until it is told to stop.

    The others start when the first works, so what is wrong with the command is said once. A
    process that ends without being told to is replaced after a second (longer, up to 30, as
    long as the replacements do not get to work), and what it held goes to others at once. With
    `burst` a process that ends by itself has done its part; only one that a signal killed is
    replaced.
    """

    def __init__(
        self, command: Sequence[str], *, count: int, grace: float, burst: bool = False
    ) -> None:
        self._command = list(command)
        self._count = count
        self._grace = grace
        self._burst = burst
        self._children: dict[int, Child] = {}
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._first = asyncio.Event()
        self._introduced = False
        self._stops = 0
        self._tellers: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Returns 0 when every process ended with 0, else the first other exit code; 130 where a
        second stop cut it short."""
        with told_to_stop(self.stop):
            keepers = [asyncio.create_task(self._keep(n)) for n in range(1, self._count + 1)]
            killer = asyncio.create_task(self._kill_the_slow())
            try:
                codes = await asyncio.gather(*keepers)
                if self._tellers and self._stops < 3:
                    await asyncio.wait(self._tellers, timeout=TELL_S)
            finally:
                for task in [killer, *keepers, *self._tellers]:
                    task.cancel()
                for child in self._children.values():
                    child.kill()
        if self._stops > 1:
            return INTERRUPTED
        return next((code for code in codes if code), 0)

    def stop(self) -> None:
        """Tells every process to stop; `run` returns when they have ended. A second time they have
        no time to end their jobs, a third time they are killed."""
        self._stops += 1
        if self._stops == 1:
            logger.info("stopping %d processes", len(self._children))
        self._stopping.set()
        self._first.set()
        if self._stops > 1:
            self._hurrying.set()
        for child in self._children.values():
            if self._stops > 2:
                child.kill()
            else:
                child.stop(self._stops)

    async def _kill_the_slow(self) -> None:
        await self._stopping.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * self._grace + STOP_SPARE_S):
                await self._hurrying.wait()
                await asyncio.sleep(HURRY_S + HURRY_SPARE_S)
        for child in self._children.values():
            logger.error("%s does not stop: killed", child)
            child.kill()

    async def _keep(self, number: int) -> int:
        """Keeps one place filled; returns the last exit code."""
        if number > 1:
            await self._first.wait()
        pause, code = RESTART_PAUSE_S, 0
        while not self._stopping.is_set():
            introduces = number == 1 and not self._introduced
            child = await Child.start(self._command, number, introduces=introduces)
            self._children[number] = child
            if self._stopping.is_set():
                child.stop(self._stops)
            code = await self._until_ended(child)
            if self._is_final(child, code):
                break
            logger.warning("%s %s; another starts in %g s", child, _how(code), pause)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = RESTART_PAUSE_S if child.works else min(2 * pause, MAX_RESTART_PAUSE_S)
        return self._exit_code(code)

    async def _until_ended(self, child: Child) -> int:
        ended = asyncio.create_task(child.ended())
        try:
            await child.spoke.wait()
            if child.works:
                self._first.set()
            return await ended
        finally:
            ended.cancel()
            self._introduced = self._introduced or "introduced" in child.said
            del self._children[child.number]
            teller = asyncio.create_task(child.end_leases())
            self._tellers.add(teller)
            teller.add_done_callback(self._tellers.discard)

    def _is_final(self, child: Child, code: int) -> bool:
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


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
