"""Shared locks on whole files (flock) that neither an exec nor a fork carries along.

A flock belongs to the open file, and a fork shares open files: a child would keep its
parent's lock for as long as it lives. So the process keeps a book of its open lock files,
and a fresh child closes its copies, also those another thread was holding for a moment.
A lock ends only by closing its file: an explicit unlock in a child would end the parent's.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from contextlib import closing
from pathlib import Path


class SharedLock:
    """A lock file, held once `try_take` has said so. Ends by `close`, or in a forked child."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """Raises OSError if the file cannot be opened."""
        self.path = path
        with _BOOK.guard:
            # Close-on-exec is Python's default for new descriptors.
            self._fd = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
            _BOOK.open_files.add(self)

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def try_take(self) -> bool:
        """False while somebody holds it exclusively. Raises OSError if the file system knows no
        locks."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
                return False
            raise
        return True

    def close(self) -> None:
        with _BOOK.guard:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)
                _BOOK.open_files.discard(self)


def is_held(path: Path) -> bool:
    """Whether somebody holds the file's lock exclusively. No file: no."""
    try:
        with closing(SharedLock(path, create=False)) as lock:
            return not lock.try_take()
    except FileNotFoundError:
        return False


class _Book:
    """The open lock files of this process. A fork waits until no thread is writing in it."""

    def __init__(self) -> None:
        self.open_files: set[SharedLock] = set()
        self.guard = threading.RLock()
        os.register_at_fork(
            before=lambda: self.guard.acquire(),
            after_in_parent=lambda: self.guard.release(),
            after_in_child=self._close_copies,
        )

    def _close_copies(self) -> None:
        self.guard = threading.RLock()
        for lock in tuple(self.open_files):
            lock.close()


_BOOK = _Book()
