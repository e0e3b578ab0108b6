"""The public face: a use of a directory's server, from `acquire` to `close`."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from rota.embedded.directory import prepare, refusal, running
from rota.embedded.locks import SharedLock
from rota.embedded.starting import Fsync, bring_up
from rota.embedded.supervisor import ALWAYS_LOCK, POLL, USERS_LOCK, ask
from rota.errors import ConfigError, Unavailable

_SETTING_TIMEOUT = 5.0
_END_TIMEOUT = 10.0


def acquire(
    path: str | os.PathLike[str], *, fsync: Fsync = "no", start_timeout: float = 20
) -> EmbeddedServer:
    """Starts the server of the directory `path`, or joins it; returns once it answers.

    The directory is created if its parent exists; a relative one counts from the current
    directory. With `fsync="always"` writes survive a loss of power too, for all users, as
    long as one user asks for it. `start_timeout` is in seconds and holds for later
    restarts as well. Blocking and thread-safe.

    Raises ConfigError for a directory that cannot be used, ServerTooOld, and Unavailable
    if there is no server program or the server does not start.
    """
    if fsync not in ("no", "always"):
        raise ConfigError(f"fsync must be 'no' or 'always', got {fsync!r}")
    if not (0 < start_timeout < math.inf):
        raise ConfigError(f"start_timeout must be a number of seconds above 0, got {start_timeout}")
    server = EmbeddedServer(prepare(path), fsync, start_timeout)
    try:
        server.ensure()
    except BaseException:
        server.close()
        raise
    return server


class EmbeddedServer:
    """One use of a directory's server. The server ends when no use is left in any process.

    After a fork the child is no user until it calls `ensure`.
    """

    def __init__(self, path: Path, fsync: Fsync, start_timeout: float) -> None:
        self.path = path
        """The data directory."""
        self.socket = path
        """The unix socket, as of the last `ensure` in this process."""
        self._fsync: Fsync = fsync
        self._start_timeout = start_timeout
        self._locks: dict[str, SharedLock] = {}
        self._closed = False
        self._guards: dict[int, threading.Lock] = {}

    @property
    def _guard(self) -> threading.Lock:
        """One for each process: after a fork a thread that held it may not be there."""
        return self._guards.setdefault(os.getpid(), threading.Lock())

    def ensure(self) -> Path:
        """Makes sure that a server runs, starting one if it has died; returns the socket.

        Raises as `acquire` does, and Unavailable after `close`.
        """
        deadline = time.monotonic() + self._start_timeout
        with self._guard:
            if self._closed:
                raise Unavailable(f"the embedded server in {self.path} was closed in this process")
            try:
                self._hold(USERS_LOCK, deadline)
                if self._fsync == "always":
                    self._hold(ALWAYS_LOCK, deadline)
                self.socket = bring_up(self.path, self._fsync, deadline)
            except OSError as error:
                raise refusal(self.path, error) from error
            if self._fsync == "always":
                _demand_fsync(self.socket)
            return self.socket

    def _hold(self, name: str, deadline: float) -> None:
        if name in self._locks and self._locks[name].is_open:
            return
        lock = self._locks[name] = SharedLock(self.path / name)
        try:
            while not lock.try_take():
                if time.monotonic() >= deadline:
                    raise Unavailable(
                        f"the embedded server in {self.path} has been ending for too long; "
                        f"{name} is still locked"
                    )
                time.sleep(POLL)
        except BaseException:
            lock.close()
            raise

    def close(self) -> None:
        """Ends this use; does not wait for the server to end. Idempotent."""
        with self._guard:
            self._closed = True
            for lock in self._locks.values():
                lock.close()

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _demand_fsync(socket: Path) -> None:
    """The server may have been started by a user who did not ask for it."""
    try:
        reply = ask(socket, "CONFIG", "SET", "appendfsync", "always", timeout=_SETTING_TIMEOUT)
    except OSError as error:
        reply = str(error)
    if reply != "+OK":
        raise Unavailable(f"the server at {socket} refused appendfsync=always: {reply}")


# ── a server for a while ────────────────────────────────────────────────────────────────────────


@contextmanager
def temporary_server() -> Iterator[EmbeddedServer]:
    """A fresh server in a temporary directory; when the block ends, so do both. Blocking.

    Give clients the `socket_url`, not `embedded:`, so that one left open does not keep the
    server alive.

    The directory outlives the block only where another process still uses the server.
    Raises as `acquire` does.
    """
    directory = Path(tempfile.mkdtemp(prefix="rota-"))
    try:
        with acquire(directory) as server:
            yield server
    finally:
        _remove(directory)


def socket_url(server: EmbeddedServer) -> str:
    """Where the server listens, for clients that do not hold it."""
    return f"unix://{quote(str(server.socket))}"


def _remove(directory: Path) -> None:
    """The server writes until it has ended, so that comes first."""
    deadline = time.monotonic() + _END_TIMEOUT
    while running(directory):
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL)
    shutil.rmtree(directory, ignore_errors=True)
