"""Brings a server up: joins the one that runs, else starts one, one starter at a time."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from rota.embedded import supervisor
from rota.embedded.binary import ServerBinary, find_server
from rota.embedded.locks import FileLock, is_held
from rota.embedded.paths import DataDirectory
from rota.embedded.wire import Answer, ping
from rota.errors import Unavailable

Fsync = Literal["no", "always"]

POLL = 0.01
_PING_TIMEOUT = 1.0
_LOG_TAIL_BYTES = 4096
_LOG_TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look at the directory shows. `socket` is set once a server may listen there."""

    supervised: bool
    answer: Answer = Answer.NONE
    socket: Path | None = None


def bring_up(data: DataDirectory, fsync: Fsync, deadline: float) -> Path:
    """Returns the socket of a server that answers. The caller holds the users' lock.

    Raises Unavailable, with the end of the server's log, if it does not start; also when
    `deadline` (monotonic seconds) passes. May raise OSError.
    """
    trouble: str | None = None
    since = time.monotonic()
    while True:
        sight = look(data)
        if sight.socket is not None and sight.answer is Answer.READY:
            return sight.socket
        if time.monotonic() >= deadline:
            raise Unavailable(_late(data, sight, trouble, time.monotonic() - since))
        if not sight.supervised:
            trouble = _start(data, fsync, deadline) or trouble
        time.sleep(POLL)


def look(data: DataDirectory) -> Sight:
    """A server counts only under a supervisor: without one, or while a new supervisor
    waits for the end of an older server, what answers is about to end."""
    if not is_held(data.supervisor_lock):
        return Sight(supervised=False)
    socket = data.socket()
    if socket is None or not data.is_started():
        return Sight(supervised=True)
    return Sight(supervised=True, answer=ping(socket, _PING_TIMEOUT), socket=socket)


def _start(data: DataDirectory, fsync: Fsync, deadline: float) -> str | None:
    """One attempt, unless another starter is at it. Returns why it should be repeated."""
    with FileLock(data.start_lock) as lock:
        if not lock.try_exclusive() or is_held(data.supervisor_lock):
            return None
        log_start = data.trim_log()
        with _supervisor(data, find_server(), fsync, lock) as report:
            failure = _await_server(data, report, deadline)
    if failure is None:
        return None
    if not failure:
        return "the supervisor was killed while it started the server"
    if failure.startswith(supervisor.RETRY):
        return failure.removeprefix(supervisor.RETRY)
    raise Unavailable(
        f"the embedded server in {data.path} did not start: {failure}{_log_tail(data, log_start)}"
    )


@contextmanager
def _supervisor(
    data: DataDirectory, program: ServerBinary, fsync: Fsync, start_lock: FileLock
) -> Iterator[IO[bytes]]:
    """Launches the supervisor in a session of its own; yields what it has to report."""
    socket = data.place_socket()
    fd = start_lock.fileno()
    script = [_python(), "-I", "-S", str(Path(supervisor.__file__).resolve())]
    words = [str(data.path), str(socket), str(program.path), fsync, str(fd)]
    with subprocess.Popen(
        [*script, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[fd],
        start_new_session=True,
    ) as launched:
        assert launched.stdout is not None
        yield launched.stdout


def _await_server(data: DataDirectory, report: IO[bytes], deadline: float) -> str | None:
    """Waits for the server's first answer; returns the supervisor's report if it failed:
    empty if the supervisor was killed before it could say anything."""
    with selectors.DefaultSelector() as selector:
        selector.register(report, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if selector.select(POLL):
                return os.read(report.fileno(), _LOG_TAIL_BYTES).decode(errors="replace").strip()
            if look(data).answer is Answer.READY:
                return None
    return None


def _python() -> str:
    """The interpreter: not `sys.executable` as it stands, which may be a host such as uWSGI."""
    for path in (sys.executable, os.path.join(sys.prefix, "bin", "python3")):
        if path and "python" in os.path.basename(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("python3")
    if found is None:
        raise Unavailable("the embedded server needs a python3 program on PATH, found none")
    return found


def _late(data: DataDirectory, sight: Sight, trouble: str | None, waited: float) -> str:
    where = f"the embedded server in {data.path}"
    if sight.answer is Answer.LOADING:
        return f"{where} is still loading its data after {waited:.0f} s; give it more time"
    if trouble:
        return f"{where} did not start within {waited:.0f} s; {trouble}"
    return f"{where} did not answer within {waited:.0f} s; its log is {data.log}"


def _log_tail(data: DataDirectory, start: int) -> str:
    try:
        with data.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(start, end - _LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    except OSError:
        return ""
    return f"\nThe end of {data.log}:\n" + "\n".join(f"  {line}" for line in lines)
