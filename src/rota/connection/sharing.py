"""What the clients of a process have in common, by the server they call."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, NoReturn, Protocol, TypeVar
from weakref import WeakValueDictionary

from rota import embedded
from rota.connection.faults import ErrorReply, NotAReply, NotSent, lost, not_sent, refusal
from rota.connection.steps import ROOMS
from rota.connection.target import Address, Target
from rota.errors import Unavailable
from rota.script.loader import Room

T = TypeVar("T")

IDLE_S = 60.0
"""After how long a connection that nobody uses is closed; the last one used stays."""


class Shared(Generic[T]):
    """One for each server, made at its first use, and kept while somebody holds it. A child process
    begins with none."""

    def __init__(self, make: Callable[[Target], T]) -> None:
        self._make = make
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[Target, T] = WeakValueDictionary()

    def to(self, target: Target) -> T:
        with self._lock:
            found = self._known.get(target)
            if found is None:
                found = self._known[target] = self._make(target)
            return found


class Connection(Protocol):
    """An open connection of either driver. One caller at a time."""

    @property
    def is_lost(self) -> bool:
        """Whether the server has closed it, or has sent what nobody asked for."""

    def hang_up(self) -> None:
        """Says that nothing more will be sent: a wait ends, what is on its way is still read."""

    def close(self) -> None:
        """To be used by nobody any more, after its last reply."""

    def abort(self) -> None:
        """As `close`, with a call under way: what is not sent yet never will be."""


class Timer(Protocol):
    def cancel(self) -> None: ...


C = TypeVar("C", bound=Connection)


class Pool(ABC, Generic[C, T]):
    """Connections to one server: which are in use, and idle ones by address. A driver adds how
    they are opened and waited for.

    A semaphore for each address and purpose says how many may be in use, at most `size`: a node
    that stands still holds up no other, and no purpose another.
    """

    def __init__(self, target: Target, semaphore: Callable[[int], T], size: int) -> None:
        self._target = target
        self._semaphore = semaphore
        self._size = size
        self._rooms: dict[tuple[Address, Room], T] = {}
        self._lock = threading.Lock()
        self._busy: set[C] = set()
        self._idle: dict[Address, list[tuple[float, C]]] = {}
        self._timer: Timer | None = None
        self._closed = False

    @abstractmethod
    def _later(self, seconds: float, do: Callable[[], None]) -> Timer | None:
        """Has it done then, if the pool is still there."""

    def _room(self, address: Address, name: Room) -> T:
        found = self._rooms.get((address, name))
        if found is None:
            made = self._semaphore(min(self._size, ROOMS[name]))
            found = self._rooms.setdefault((address, name), made)  # in one step, for threads
        return found

    def _take(self, address: Address) -> C | None:
        """The idle connection used last. One that the server has closed meanwhile cannot have taken
        a call along: to send by it would leave an outcome unknown for nothing."""
        while True:
            with self._lock:
                row = self._idle.get(address)
                if not row:
                    return None
                connection = row.pop()[1]
            if not connection.is_lost:
                self._busy.add(connection)
                return connection
            connection.close()

    def _put_back(self, address: Address, connection: C) -> None:
        """After its call was answered."""
        if self._closed or connection not in self._busy:  # hung up meanwhile
            self._busy.discard(connection)
            connection.close()
            return
        self._busy.discard(connection)
        with self._lock:
            row = self._idle.setdefault(address, [])
            row.append((time.monotonic(), connection))
            if self._timer is None and (len(row) > 1 or len(self._idle) > 1):
                self._timer = self._later(IDLE_S, self._close_old)

    def _give_up(self, address: Address, connection: C, error: BaseException) -> NoReturn:
        """After a call that has failed, or was cancelled with its reply on its way: the next one
        must not read it."""
        self._busy.discard(connection)
        connection.abort()
        if isinstance(error, OSError):
            if not isinstance(error, NotAReply):
                self.drop(address)  # what broke one has broken the others, most likely
            raise lost(error, address) from error
        raise error

    def _not_opened(self, address: Address, connection: C | None, error: BaseException) -> NoReturn:
        """Nobody is there, or does not let us in."""
        if connection is not None:
            connection.abort()
        if isinstance(error, OSError):
            raise not_sent(error, address) from error
        if isinstance(error, ErrorReply):
            kind = NotSent if refusal(error) == "passing" else Unavailable
            raise kind(f"{self._target.display} refused the connection: {error}") from error
        raise error

    def hang_up(self) -> None:
        """Ends the waits under way."""
        for connection in self._busy.copy():
            self._busy.discard(connection)
            connection.hang_up()

    def drop(self, address: Address | None = None) -> list[C]:
        """Closes idle connections, those to one address or all; the ones that are closing."""
        with self._lock:
            gone = [address] if address else list(self._idle)
            dropped = [connection for one in gone for _, connection in self._idle.pop(one, [])]
            if address is None and self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for connection in dropped:
            connection.close()
        return dropped

    def _close_old(self) -> None:
        """Closes those unused for long, but the last one used."""
        with self._lock:
            rows = [(*one, address) for address, row in self._idle.items() for one in row]
            rows.sort(key=lambda row: row[0])
            old = [row for row in rows[:-1] if row[0] <= time.monotonic() - IDLE_S]
            for since, connection, address in old:
                self._idle[address].remove((since, connection))
            several = len(rows) - len(old) > 1
            self._timer = self._later(IDLE_S, self._close_old) if several else None
        for _, connection, _ in old:
            connection.close()


class EmbeddedUse:
    """The use of the embedded server its target names."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._server: embedded.EmbeddedServer | None = None

    def address(self) -> Address:
        """Starts or joins the server, or starts it again where it has gone. Blocks."""
        with self._lock:
            if self._server is None:
                self._server = embedded.acquire(self._target.directory, fsync=self._target.fsync)
                return Address(path=str(self._server.socket))
            return Address(path=str(self._server.ensure()))

    def close(self) -> None:
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None
