"""Brings a server up: joins the one that runs, else launches a supervisor that starts one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from rota.embedded import supervisor
from rota.embedded.binary import find_server
from rota.embedded.locks import is_held
from rota.errors import Unavailable

Fsync = Literal["no", "always"]

_PING_TIMEOUT = 1.0
_TAIL_BYTES = 4096
_TAIL_LINES = 12


def bring_up(data: Path, fsync: Fsync, deadline: float) -> Path:
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
