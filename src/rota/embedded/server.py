"""The public face: a process holds a directory's server once, however often it asks."""

from __future__ import annotations

import math
import os
import threading
import time
from pathlib import Path
from types import TracebackType

from rota.embedded.locks import FileLock
from rota.embedded.paths import DataDirectory, prepare, refusal
from rota.embedded.starting import POLL, Fsync, bring_up
from rota.embedded.wire import ask
from rota.errors import ConfigError, Unavailable

_SETTING_TIMEOUT = 5.0


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
    """One use of a directory's server. The server ends when no process uses it any more.

    After a fork the child is no user until it calls `ensure`.
    """

    def __init__(self, data: DataDirectory, fsync: Fsync, start_timeout: float) -> None:
        self._fsync: Fsync = fsync
        self._start_timeout = start_timeout
        self._holder = _HOLDERS.enter(data, self)

    @property
    def path(self) -> Path:
        """The data directory."""
        return self._holder.data.path

    @property
    def socket(self) -> Path:
        """The unix socket, as of the last `ensure` in this process."""
        return self._holder.socket

    def ensure(self) -> Path:
        """Makes sure that a server runs, starting one if it has died; returns the socket.

        Raises as `acquire` does, and Unavailable after `close`.
        """
        return self._holder.ensure(self, self._fsync, self._start_timeout)

    def close(self) -> None:
        """Ends this use; does not wait for the server to end. Idempotent."""
        _HOLDERS.leave(self._holder, self)

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Holder:
    """This process's locks on one directory, for all its uses together."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data
        self.socket = data.path  # until the first `ensure`
        self.uses: set[EmbeddedServer] = set()
        self.guard = threading.Lock()
        self._users: FileLock | None = None
        self._always: FileLock | None = None

    def ensure(self, use: EmbeddedServer, fsync: Fsync, timeout: float) -> Path:
        deadline = time.monotonic() + timeout
        with self.guard:
            if use not in self.uses:
                raise Unavailable(
                    f"the embedded server in {self.data.path} was closed in this process"
                )
            try:
                self._users = _hold(self._users, self.data.users_lock, deadline)
                if fsync == "always" or self._always is not None:
                    self._always = _hold(self._always, self.data.always_lock, deadline)
                self.socket = bring_up(self.data, fsync, deadline)
            except OSError as error:
                raise refusal(self.data.path, error) from error
            if self._always is not None:
                _demand_fsync(self.socket)
            return self.socket

    def close_if_unused(self) -> None:
        with self.guard:
            if not self.uses:
                for lock in (self._users, self._always):
                    if lock is not None:
                        lock.close()
                self._users = self._always = None


class _Holders:
    """The holders of this process, one per directory."""

    def __init__(self) -> None:
        self._by_path: dict[Path, _Holder] = {}
        self._guard = threading.Lock()
        os.register_at_fork(after_in_child=self._renew_guards)

    def enter(self, data: DataDirectory, use: EmbeddedServer) -> _Holder:
        with self._guard:
            holder = self._by_path.setdefault(data.path, _Holder(data))
            holder.uses.add(use)
            return holder

    def leave(self, holder: _Holder, use: EmbeddedServer) -> None:
        with self._guard:
            holder.uses.discard(use)
            if not holder.uses and self._by_path.get(holder.data.path) is holder:
                del self._by_path[holder.data.path]
        holder.close_if_unused()

    def _renew_guards(self) -> None:
        """A thread that held one does not exist in the child."""
        self._guard = threading.Lock()
        for holder in self._by_path.values():
            holder.guard = threading.Lock()


def _hold(lock: FileLock | None, path: Path, deadline: float) -> FileLock:
    """The shared lock on `path`: the given one if still open, else a new one."""
    if lock is not None and lock.is_open:
        return lock
    lock = FileLock(path)
    try:
        while not lock.try_shared():
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"the embedded server in {path.parent} has been ending for too long; "
                    f"{path.name} is still locked"
                )
            time.sleep(POLL)
    except BaseException:
        lock.close()
        raise
    return lock


def _demand_fsync(socket: Path) -> None:
    """The server may have been started by a user who did not ask for it."""
    try:
        reply = ask(socket, "CONFIG", "SET", "appendfsync", "always", timeout=_SETTING_TIMEOUT)
    except OSError as error:
        reply = str(error)
    if reply != "+OK":
        raise Unavailable(f"the server at {socket} refused appendfsync=always: {reply}")


_HOLDERS = _Holders()
