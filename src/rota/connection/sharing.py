"""What the clients of a process have in common, by the server they call."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from rota.connection.steps import ROOMS, Room
from rota.connection.target import Address, Target

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


class Rooms(Generic[T]):
    """How many connections may be in use, by address and purpose: a node that stands still holds up
    no other, and no purpose another. At most `size` in each."""

    def __init__(self, semaphore: Callable[[int], T], size: int) -> None:
        self._semaphore = semaphore
        self._size = size
        self._known: dict[tuple[Address, Room], T] = {}

    def of(self, address: Address, name: Room) -> T:
        found = self._known.get((address, name))
        if found is None:
            made = self._semaphore(min(self._size, ROOMS[name]))
            found = self._known.setdefault((address, name), made)  # in one step, for threads
        return found


class Idle(Generic[T]):
    """Open connections that nobody uses at the moment, by address."""

    def __init__(self) -> None:
        self._since: dict[Address, list[tuple[float, T]]] = {}

    def add(self, address: Address, connection: T) -> bool:
        """Says whether there are several."""
        row = self._since.setdefault(address, [])
        row.append((time.monotonic(), connection))
        return len(row) > 1 or len(self._since) > 1

    def take(self, address: Address) -> T | None:
        """The one last used."""
        row = self._since.get(address)
        return row.pop()[1] if row else None

    def drop(self, address: Address | None) -> list[T]:
        """All of the address, or all; they are to be closed."""
        gone = [address] if address else list(self._since)
        return [connection for one in gone for _, connection in self._since.pop(one, [])]

    def drop_old(self) -> tuple[list[T], bool]:
        """Those unused for long, which are to be closed; and whether several are left."""
        rows = [(*one, address) for address, row in self._since.items() for one in row]
        rows.sort(key=lambda row: row[0])
        limit = time.monotonic() - IDLE_S
        kept = [row for i, row in enumerate(rows) if row[0] > limit or i == len(rows) - 1]
        self._since = {}
        for since, connection, address in kept:
            self._since.setdefault(address, []).append((since, connection))
        return [row[1] for row in rows[: len(rows) - len(kept)]], len(kept) > 1
