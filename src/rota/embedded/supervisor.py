"""The parent of one private server: starts it, waits until no user is left, ends it.

Run as a script, with nothing but the standard library, in a session of its own:

    supervisor.py DATA_DIRECTORY SERVER_PROGRAM FSYNC

Locks, all in the data directory:

    users.lock       shared by every user; this process waits for it exclusively and keeps
                     it until the server has ended, so that newcomers wait that long
    supervisor.lock  exclusive while this process lives: where several are launched at once,
                     one stays; says where the server listens, once it has been started
    server.lock      exclusive, inherited by the server: held exactly as long as that
                     process lives, so no two servers write one append-only file
    always.lock      shared by the users that asked for fsync=always

What went wrong is written to standard output, which the starter reads until the server
answers: one line, beginning with `retry:` where the server was merely killed, or another
supervisor came first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket as sockets
import stat
import sys
import threading
import time
from collections.abc import Callable

USERS_LOCK = "users.lock"
SUPERVISOR_LOCK = "supervisor.lock"
SERVER_LOCK = "server.lock"
ALWAYS_LOCK = "always.lock"
LOG = "server.log"
LOG_LIMIT = 8 * 1024 * 1024
SOCKET = "server.sock"
# Bytes of a socket's path, without the closing NUL: what the kernel's address holds.
SOCKET_PATH_LIMIT = 103 if sys.platform == "darwin" else 107
RETRY = "retry:"

NO_USER_LEFT = signal.SIGUSR1
TICK = signal.SIGALRM
EVENTS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, NO_USER_LEFT, TICK)

PR_SET_PDEATHSIG = 1
# All acknowledged writes have reached the kernel, so a kill after the grace loses none.
STOP_GRACE = 10
LOOK_EVERY = 5
OLD_SERVER_GRACE = 30.0
# Whoever looks whether a supervisor lives holds its lock for an instant.
LOCK_PATIENCE = 0.2
POLL = 0.01
REPLY_LIMIT = 4096


class Refused(Exception):
    """The server cannot be started here; the message says why."""


def main(argv: list[str]) -> None:
    data, program, fsync = argv
    os.umask(0o077)
    os.chdir(data)
    if os.fork():
        os._exit(0)  # the starter waits for this half only, and has no child to reap
    for event in EVENTS:
        signal.signal(event, lambda *_: None)  # an ignored signal cannot be waited for
    signal.pthread_sigmask(signal.SIG_BLOCK, EVENTS)
    try:
        note = lock(SUPERVISOR_LOCK, LOCK_PATIENCE)
        if note is None:
            raise Refused(RETRY)
        before = os.fsdecode(os.pread(note, 4096, 0)).strip()
        os.ftruncate(note, 0)  # a server that still answers there is about to end
        socket = place_socket(data)
        server = start(socket, before, server_command(data, socket, program, fsync))
        os.pwrite(note, os.fsencode(socket) + b"\n", 0)
    except (OSError, Refused) as error:
        report(str(error))
        os._exit(1)
    status = supervise(server, socket)
    remove_socket(data, socket)
    report_end(status)
    os._exit(0)


def lock(name: str, patience: float, meanwhile: Callable[[], object] = lambda: None) -> int | None:
    """The file, locked exclusively; None where somebody holds it for longer than that."""
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        if time.monotonic() >= deadline:
            os.close(fd)
            return None
        meanwhile()
        time.sleep(POLL)


def place_socket(data: str) -> str:
    """Where the server listens: a path too long for a socket gets a short directory elsewhere."""
    inside = os.path.join(data, SOCKET)
    if fits(inside):
        return inside
    import hashlib

    name = f"rota-{os.geteuid()}-{hashlib.sha256(os.fsencode(data)).hexdigest()[:16]}"
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    with contextlib.suppress(OSError):
        if os.path.isabs(named) and os.stat(named).st_uid == os.geteuid():
            outside = os.path.join(named, name, SOCKET)
            if fits(outside):
                return outside
    return os.path.join("/tmp", name, SOCKET)


def fits(path: str) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_LIMIT


def server_command(data: str, socket: str, program: str, fsync: str) -> list[str]:
    always = lock(ALWAYS_LOCK, 0)
    if always is None:
        fsync = "always"
    else:
        os.close(always)
    options = {
        "port": "0",
        "unixsocket": socket,
        "unixsocketperm": "700",
        "dir": data,
        "logfile": os.path.join(data, LOG),
        "daemonize": "no",
        "save": "",
        "appendonly": "yes",
        "appendfsync": fsync,
        "aof-load-truncated": "yes",
        "maxmemory-policy": "noeviction",
        # A listpack is searched from its front: a claim asks such hashes for a hundred fields, an
        # enqueue looks for the place in its lane.
        "hash-max-listpack-entries": "16",
        "zset-max-listpack-entries": "32",
    }
    return [program, *(word for key, value in options.items() for word in (f"--{key}", value))]


def start(socket: str, before: str, command: list[str]) -> int:
    """Forks the server off and returns its pid. One that outlived its supervisor, and listens there
    or `before`, has to end first."""
    held = lock(SERVER_LOCK, OLD_SERVER_GRACE, lambda: ask_to_end(before, socket))
    if held is None:
        raise Refused(
            f"an older server still runs in this directory after {OLD_SERVER_GRACE:.0f} s"
        )
    make_room(socket)
    set_log_aside()
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    parent = os.getpid()
    server = os.fork()
    if server == 0:
        try:
            become_server(parent, held, log, command)
        finally:
            os._exit(127)
    os.close(log)
    os.close(held)
    return server


def ask_to_end(*places: str) -> None:
    """For systems where a server does not get a signal when its parent dies."""
    for place in places:
        with contextlib.suppress(OSError):
            ask(place, "SHUTDOWN", "NOSAVE", timeout=1)


def ask(path: str | os.PathLike[str], *words: str, timeout: float) -> str:
    """Sends one command, returns the first line of its reply. Raises OSError."""
    request = f"*{len(words)}\r\n" + "".join(f"${len(w.encode())}\r\n{w}\r\n" for w in words)
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(os.fspath(path))
        connection.sendall(request.encode())
        reply = b""
        while not reply.endswith(b"\n") and len(reply) < REPLY_LIMIT:
            chunk = connection.recv(REPLY_LIMIT)
            if not chunk:
                raise ConnectionResetError("the server hung up")
            reply += chunk
    return reply.decode(errors="replace").strip()


def make_room(socket: str) -> None:
    """A directory for the socket that belongs to this user alone, without a stale socket."""
    home = os.path.dirname(socket)
    with contextlib.suppress(FileExistsError):
        os.mkdir(home, 0o700)
    found = os.lstat(home)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Refused(f"{home} must be a directory of user {os.geteuid()}, and is not")
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(home, 0o700)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket)


def set_log_aside() -> None:
    """A big one: what the server says at its start begins a new one."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(LOG).st_size >= LOG_LIMIT:
            os.replace(LOG, f"{LOG}.1")


def become_server(parent: int, held: int, log: int, command: list[str]) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.set_inheritable(held, True)
    for event in EVENTS:
        signal.signal(event, signal.SIG_DFL)  # a signal before the exec must end this process
    die_with_parent(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())


def die_with_parent(parent: int) -> None:
    """Linux: SIGTERM for this process when its parent is gone, however it went."""
    if sys.platform != "linux":
        return
    try:
        import ctypes
    except ImportError:
        return  # a Python without ctypes: as on macOS, the next start ends a left server
    zero = ctypes.c_ulong(0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), zero, zero, zero)
    if os.getppid() != parent:
        os._exit(0)


def supervise(server: int, socket: str) -> int:
    """Returns the server's wait status once it has ended: by itself, because no user is
    left, or because somebody removed its socket, so that no user could find it any more."""
    threading.Thread(target=await_no_user, daemon=True).start()
    stopping = listening = False
    signal.alarm(LOOK_EVERY)
    while True:
        event = signal.sigwait(EVENTS)
        if event == signal.SIGCHLD:
            ended, status = os.waitpid(server, os.WNOHANG)
            if ended:
                return status
        elif event == TICK and stopping:
            os.kill(server, signal.SIGKILL)
        elif event == TICK and (os.path.exists(socket) or not listening):
            listening = os.path.exists(socket)
            signal.alarm(LOOK_EVERY)
        elif not stopping:
            stopping = True
            os.kill(server, signal.SIGTERM)
            signal.alarm(STOP_GRACE)


def await_no_user() -> None:
    fd = os.open(USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)  # kept until this process ends
    os.kill(os.getpid(), NO_USER_LEFT)


def remove_socket(data: str, socket: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(socket)
    home = os.path.dirname(socket)
    if home != data:
        with contextlib.suppress(OSError):
            os.rmdir(home)


def report_end(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code > 0:
        report(f"the server program exited with status {code}")
    elif -code in (0, signal.SIGTERM, signal.SIGKILL):
        report(f"{RETRY} the server was ended while it started")
    else:
        report(f"the server program died of signal {-code}")


def report(line: str) -> None:
    """The starter may have gone, or have heard enough, long ago."""
    with contextlib.suppress(OSError):
        os.write(1, line.encode(errors="replace") + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
