"""The data directory: who may use it, and whether a server lives or has lived there."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from rota.embedded.locks import is_held
from rota.embedded.supervisor import SERVER_LOCK, SUPERVISOR_LOCK, USERS_LOCK
from rota.errors import ConfigError, RotaError, Unavailable

_APPEND_ONLY = "appendonlydir"
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


def prepare(path: str | os.PathLike[str]) -> Path:
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
    return resolved


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
    data = _resolve(path)
    try:
        return any(is_held(data / name) for name in (SUPERVISOR_LOCK, SERVER_LOCK))
    except OSError as error:
        raise refusal(data, error) from error


def has_run(path: str | os.PathLike[str]) -> bool:
    """Whether a server runs in that directory, or has left data there. Creates nothing."""
    return running(path) or os.path.isdir(_resolve(path) / _APPEND_ONLY)


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
    if names and not names & {USERS_LOCK, _APPEND_ONLY}:
        raise ConfigError(
            f"embedded server directory {path}: expected a new, empty or private directory, "
            f"got one that others may read and that holds {min(names)!r}"
        )
