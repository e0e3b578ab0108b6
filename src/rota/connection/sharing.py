"""What the clients of a process have in common, by the server they call."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from rota.connection.target import Target

T = TypeVar("T")


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
