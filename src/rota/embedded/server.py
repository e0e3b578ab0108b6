"""The public face: a use of a directory's server, from `acquire` to `close`."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from rota.embedded import supervisor
from rota.embedded.binary import find_server
from rota.embedded.directory import prepare, refusal, running
from rota.embedded.locks import SharedLock, is_held
from rota.errors import ConfigError, Unavailable

Fsync = Literal["no", "always"]

_PING_TIMEOUT = 1.0
_TAIL_BYTES = 4096
_TAIL_LINES = 12
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
                self._hold(supervisor.USERS_LOCK, deadline)
                if self._fsync == "always":
                    self._hold(supervisor.ALWAYS_LOCK, deadline)
                self.socket = _bring_up(self.path, self._fsync, deadline)
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
                time.sleep(supervisor.POLL)
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
        reply = supervisor.ask(
            socket, "CONFIG", "SET", "appendfsync", "always", timeout=_SETTING_TIMEOUT
        )
    except OSError as error:
        reply = str(error)
    if reply != "+OK":
        raise Unavailable(f"the server at {socket} refused appendfsync=always: {reply}")


# ── bringing it up ──────────────────────────────────────────────────────────────────────────────


def _bring_up(data: Path, fsync: Fsync, deadline: float) -> Path:
    """Returns the socket of a server that answers. The caller holds the users' lock.

    Raises Unavailable, with the end of the server's log, if it does not start; also when
    `deadline` (monotonic seconds) passes. May raise OSError.
    """
    began, trouble, log_start = time.monotonic(), "", 0
    launched: subprocess.Popen[bytes] | None = None
    with ExitStack() as stack:
        while True:
            supervised = is_held(data / supervisor.SUPERVISOR_LOCK)
            loading = False
            if supervised and (socket := _noted_socket(data)) is not None:
                with suppress(OSError):
                    reply = supervisor.ask(socket, "PING", timeout=_PING_TIMEOUT)
                    loading = reply.startswith("-LOADING")
                    if not loading:  # a server that says BUSY or MISCONF does run
                        return socket
            if time.monotonic() >= deadline:
                raise Unavailable(_late(data, loading, trouble, time.monotonic() - began))
            failure = None if launched is None else _failure(launched)
            if failure is not None:
                launched = None
                trouble = _to_be_repeated(data, failure, log_start) or trouble
            elif launched is None and not supervised:
                log_start = _log_length(data)
                launched = stack.enter_context(_launch(data, fsync))
            time.sleep(supervisor.POLL)


def _noted_socket(data: Path) -> Path | None:
    """Where the server listens that the supervisor has started; None before it has.

    A server counts only with its supervisor: without one, or while a new one waits for the end of
    an older server, what answers is about to end.
    """
    note = (data / supervisor.SUPERVISOR_LOCK).read_bytes()
    return Path(os.fsdecode(note[:-1])) if note.endswith(b"\n") else None


def _launch(data: Path, fsync: Fsync) -> subprocess.Popen[bytes]:
    """A supervisor in a session of its own. Where another one came first, it ends at once."""
    script = [_python(), "-I", "-S", str(Path(supervisor.__file__).resolve())]
    launched = subprocess.Popen(
        [*script, str(data), str(find_server().path), fsync],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert launched.stdout is not None
    os.set_blocking(launched.stdout.fileno(), False)
    return launched


def _failure(launched: subprocess.Popen[bytes]) -> str | None:
    """What a supervisor says that has failed: '' where it was killed before it could say anything.
    None: it lives."""
    assert launched.stdout is not None
    try:
        said = os.read(launched.stdout.fileno(), _TAIL_BYTES)
    except BlockingIOError:
        return None
    return said.decode(errors="replace").strip()


def _to_be_repeated(data: Path, failure: str, log_start: int) -> str:
    """Why the start is to be tried again; '' where another supervisor came first. Raises
    Unavailable where that would not help."""
    if not failure:
        return "the supervisor was killed while it started the server"
    if failure.startswith(supervisor.RETRY):
        return failure.removeprefix(supervisor.RETRY).strip()
    raise Unavailable(
        f"the embedded server in {data} did not start: {failure}{_log_tail(data, log_start)}"
    )


def _python() -> str:
    """The interpreter: not `sys.executable` as it stands, which may be a host such as uWSGI."""
    for path in (sys.executable, os.path.join(sys.prefix, "bin", "python3")):
        if path and "python" in os.path.basename(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("python3")
    if found is None:
        raise Unavailable("the embedded server needs a python3 program on PATH, found none")
    return found


def _late(data: Path, loading: bool, trouble: str, waited: float) -> str:
    where = f"the embedded server in {data}"
    if loading:
        return f"{where} is still loading its data after {waited:.0f} s; give it more time"
    if trouble:
        return f"{where} did not start within {waited:.0f} s; {trouble}"
    return f"{where} did not answer within {waited:.0f} s; its log is {data / supervisor.LOG}"


def _log_length(data: Path) -> int:
    try:
        return (data / supervisor.LOG).stat().st_size
    except FileNotFoundError:
        return 0


def _log_tail(data: Path, start: int) -> str:
    """The last lines the server has written; a log that is shorter than before is a new one."""
    path = data / supervisor.LOG
    try:
        with path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(start if start <= end else 0, end - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:
        return ""
    return f"\nThe end of {path}:\n" + "\n".join(f"  {line}" for line in lines)


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
        time.sleep(supervisor.POLL)
    shutil.rmtree(directory, ignore_errors=True)
