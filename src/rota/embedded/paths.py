"""The data directory: its files, who may use it, and where its socket goes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from rota.embedded import supervisor
from rota.embedded.locks import is_held
from rota.errors import ConfigError, RotaError, Unavailable

# Bytes of a socket's path, without the closing NUL: what the kernel's address holds.
SOCKET_PATH_LIMIT = 103 if sys.platform == "darwin" else 107

_SOCKET = "server.sock"
_SOCKET_RECORD = "socket.path"
_APPEND_ONLY = "appendonlydir"
_LOG_LIMIT = 8 * 1024 * 1024
_BAD_PATH = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
_NO_LOCKS = {errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A resolved directory and the files in it."""

    path: Path

    @property
    def users_lock(self) -> Path:
        return self.path / supervisor.USERS_LOCK

    @property
    def start_lock(self) -> Path:
        return self.path / supervisor.START_LOCK

    @property
    def supervisor_lock(self) -> Path:
        return self.path / supervisor.SUPERVISOR_LOCK

    @property
    def server_lock(self) -> Path:
        return self.path / supervisor.SERVER_LOCK

    @property
    def always_lock(self) -> Path:
        return self.path / supervisor.ALWAYS_LOCK

    @property
    def log(self) -> Path:
        return self.path / supervisor.LOG

    def socket(self) -> Path | None:
        """Where the running server listens; None if none has run here yet."""
        inside = self.path / _SOCKET
        if _fits(inside):
            return inside
        try:
            return Path(os.fsdecode((self.path / _SOCKET_RECORD).read_bytes()))
        except FileNotFoundError:
            return None

    def is_started(self) -> bool:
        """Whether the supervisor, if one lives, has got as far as starting its server."""
        try:
            return bool(self.supervisor_lock.read_bytes())
        except FileNotFoundError:
            return False

    def place_socket(self) -> Path:
        """Chooses where the next server listens. Only the holder of the start lock may.

        A path too long for a socket gets a short directory elsewhere, and a note here: the
        users' environments may differ, so only one of them decides.
        """
        inside = self.path / _SOCKET
        if _fits(inside):
            return inside
        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        home = f"rota-{os.geteuid()}-{name}"
        outside = next(p for base in _runtime_bases() if _fits(p := base / home / _SOCKET))
        note = self.path / f"{_SOCKET_RECORD}.new"
        note.write_bytes(os.fsencode(outside))
        note.replace(self.path / _SOCKET_RECORD)
        return outside

    def trim_log(self) -> int:
        """Sets a big log aside; returns the log's length."""
        try:
            length = self.log.stat().st_size
        except FileNotFoundError:
            return 0
        if length < _LOG_LIMIT:
            return length
        self.log.replace(self.log.with_suffix(".log.1"))
        return 0


def prepare(path: str | os.PathLike[str]) -> DataDirectory:
    """Resolves `path`, creates the directory if only its parent exists, and makes it private.

    Raises ConfigError if it cannot be used.
    """
    resolved = _resolve(path)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(resolved, 0o700)
        _make_private(resolved)
    except FileNotFoundError:
        raise ConfigError(
            f"embedded server directory {resolved}: its parent must exist, and does not"
        ) from None
    except OSError as error:
        raise refusal(resolved, error) from error
    return DataDirectory(resolved)


def refusal(path: Path, error: OSError) -> RotaError:
    """The typed error for what the operating system says about a file under `path`."""
    where = f"embedded server directory {path}"
    if error.errno in _NO_LOCKS:
        return ConfigError(
            f"{where}: its file system knows no locks ({error.strerror}); "
            "expected a directory on a local file system"
        )
    if error.errno in _BAD_PATH:
        return ConfigError(f"{where}: expected a directory that can be written, got: {error}")
    return Unavailable(f"{where}: {error}")


def running(path: str | os.PathLike[str]) -> bool:
    """Whether a server or its supervisor lives in that directory. Creates nothing."""
    data = DataDirectory(_resolve(path))
    try:
        return is_held(data.supervisor_lock) or is_held(data.server_lock)
    except OSError as error:
        raise refusal(data.path, error) from error


def has_run(path: str | os.PathLike[str]) -> bool:
    """Whether a server runs in that directory, or has left data there. Creates nothing."""
    try:
        return running(path) or (_resolve(path) / _APPEND_ONLY).is_dir()
    except OSError as error:
        raise refusal(_resolve(path), error) from error


def _resolve(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    if not name or "\0" in name:
        raise ConfigError(f"embedded server directory: expected a path, got {name!r}")
    try:
        return Path(name).resolve()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"embedded server directory {name!r}: {error}") from error


def _make_private(path: Path) -> None:
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is not a directory", str(path))
    if found.st_uid != os.geteuid():
        raise ConfigError(
            f"embedded server directory {path} must belong to user {os.geteuid()}, "
            f"and belongs to user {found.st_uid}"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        _check_ours(path)
        path.chmod(0o700)


def _check_ours(path: Path) -> None:
    """Refuses to close a directory to others that holds something else, such as a home."""
    names = set(os.listdir(path))
    if names and not names & {supervisor.USERS_LOCK, _APPEND_ONLY}:
        raise ConfigError(
            f"embedded server directory {path}: expected a new, empty or private directory, "
            f"got one that others may read and that holds {min(names)!r}"
        )


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_LIMIT


def _runtime_bases() -> list[Path]:
    """Directories with short names; the last always fits."""
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    bases = [Path("/tmp")]
    with contextlib.suppress(OSError):
        if os.path.isabs(named) and os.stat(named).st_uid == os.geteuid():
            bases.insert(0, Path(named))
    return bases
