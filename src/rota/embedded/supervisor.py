"""The parent of one private server: starts it, waits until no user is left, ends it.

Run as a script, with nothing but the standard library, in a session of its own:

    supervisor.py DATA_DIRECTORY SOCKET SERVER_PROGRAM FSYNC START_LOCK_FD

Locks, all in the data directory:

    users.lock       shared by every user; this process waits for it exclusively and keeps
                     it until the server has ended, so that newcomers wait that long
    start.lock       inherited from the starter: nobody else starts a server meanwhile,
                     even if the starter is killed; closed once the server runs
    supervisor.lock  exclusive while this process lives; holds its pid once the server runs
    server.lock      exclusive, inherited by the server: held exactly as long as that
                     process lives, so no two servers write one append-only file
    always.lock      shared by the users that asked for fsync=always

What went wrong is written to standard output, which the starter reads until the server
answers: one line, beginning with `retry: ` where the server was merely killed.
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

USERS_LOCK = "users.lock"
START_LOCK = "start.lock"
SUPERVISOR_LOCK = "supervisor.lock"
SERVER_LOCK = "server.lock"
ALWAYS_LOCK = "always.lock"
LOG = "server.log"
RETRY = "retry: "

NO_USER_LEFT = signal.SIGUSR1
TICK = signal.SIGALRM
EVENTS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, NO_USER_LEFT, TICK)

PR_SET_PDEATHSIG = 1
# All acknowledged writes have reached the kernel, so a kill after the grace loses none.
STOP_GRACE = 10
LOOK_EVERY = 5
OLD_SERVER_GRACE = 30.0
POLL = 0.01


class Refused(Exception):
    """The server cannot be started here; the message says why."""


def main(argv: list[str]) -> None:
    data, socket, program, fsync, start_lock = argv
    os.set_inheritable(int(start_lock), False)
    os.umask(0o077)
    os.chdir(data)
    if os.fork():
        os._exit(0)  # the starter waits for this half only, and has no child to reap
    for event in EVENTS:
        signal.signal(event, lambda *_: None)  # an ignored signal cannot be waited for
    signal.pthread_sigmask(signal.SIG_BLOCK, EVENTS)
    try:
        mark = lock_exclusively(SUPERVISOR_LOCK)
        os.ftruncate(mark, 0)
        server = start(socket, server_command(data, socket, program, fsync))
        os.pwrite(mark, b"%d\n" % os.getpid(), 0)
    except (OSError, Refused) as error:
        report(str(error))
        os._exit(1)
    os.close(int(start_lock))
    status = supervise(server, socket)
    remove_socket(data, socket)
    report_end(status)
    os._exit(0)


def lock_exclusively(name: str) -> int:
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def is_shared(name: str) -> bool:
    """Whether somebody holds the lock."""
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def server_command(data: str, socket: str, program: str, fsync: str) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": socket,
        "unixsocketperm": "700",
        "dir": data,
        "logfile": os.path.join(data, LOG),
        "daemonize": "no",
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always" if is_shared(ALWAYS_LOCK) else fsync,
        "aof-load-truncated": "yes",
        "maxmemory-policy": "noeviction",
        # A listpack is searched from its front: a claim asks such hashes for a hundred fields, an
        # enqueue looks for the place in its lane.
        "hash-max-listpack-entries": "16",
        "zset-max-listpack-entries": "32",
    }
    return [program, *(word for key, value in options.items() for word in (f"--{key}", value))]


def start(socket: str, command: list[str]) -> int:
    """Forks the server off and returns its pid."""
    lock = lock_for_server(socket)
    make_room(socket)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    parent = os.getpid()
    server = os.fork()
    if server == 0:
        try:
            become_server(parent, lock, log, command)
        finally:
            os._exit(127)
    os.close(log)
    os.close(lock)
    return server


def lock_for_server(socket: str) -> int:
    """Waits until the server before, of a supervisor that was killed, has ended."""
    fd = os.open(SERVER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + OLD_SERVER_GRACE
    asked = False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Refused(
                    f"an older server still runs in this directory after {OLD_SERVER_GRACE:.0f} s"
                ) from None
        if not asked:
            asked = ask_to_end(socket)
        time.sleep(POLL)


def ask_to_end(socket: str) -> bool:
    """For systems where a server does not get a signal when its parent dies."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as connection:
        connection.settimeout(1)
        try:
            connection.connect(socket)
            connection.sendall(b"SHUTDOWN NOSAVE\r\n")
            connection.recv(1024)
        except OSError:
            return False
    return True


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


def become_server(parent: int, lock: int, log: int, command: list[str]) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.set_inheritable(lock, True)
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
    lock_exclusively(USERS_LOCK)
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
        report(f"{RETRY}the server was ended while it started")
    else:
        report(f"the server program died of signal {-code}")


def report(line: str) -> None:
    """The starter may have gone, or have heard enough, long ago."""
    with contextlib.suppress(OSError):
        os.write(1, line.encode(errors="replace") + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
