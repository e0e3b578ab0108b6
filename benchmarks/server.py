"""A private server for one part of the benchmarks, and what it says of its own work."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from rota.connection import AsyncClient, Client, parse_url
from rota.embedded import find_server

START_PATIENCE_S = 10.0
STOP_PATIENCE_S = 10.0
SENT_BY_CLIENTS = frozenset({"evalsha", "blpop", "script|load", "lpush", "ping", "client|setinfo"})
"""Commands that rota's clients send; every other one is called inside a script."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a server has done so far: microseconds of its main thread, and calls per command."""

    cpu_us: float
    calls: Mapping[str, int]
    usec: Mapping[str, int]

    def since(self, before: Work) -> Work:
        return Work(
            self.cpu_us - before.cpu_us,
            {name: n - before.calls.get(name, 0) for name, n in self.calls.items()},
            {name: n - before.usec.get(name, 0) for name, n in self.usec.items()},
        )

    @property
    def script_us(self) -> int:
        """Time inside scripts by the wall clock, the calls they make included."""
        return self.usec.get("evalsha", 0)

    @property
    def command_us(self) -> int:
        """Time inside commands sent one by one, by the wall clock."""
        return sum(n for name, n in self.usec.items() if name != "evalsha")

    @property
    def sent(self) -> int:
        """Commands that arrived over connections."""
        return sum(n for name, n in self.calls.items() if name in SENT_BY_CLIENTS)


class Server:
    """A running server: `url` for rota, `raw` for everything else."""

    def __init__(self, url: str, raw: redis.Redis, binary: str, pid: int) -> None:
        self.url = url
        self.raw = raw
        self.binary = binary
        self.pid = pid

    def work(self) -> Work:
        info = self.raw.info("all")
        stats = {
            name.removeprefix("cmdstat_"): row
            for name, row in info.items()
            if name.startswith("cmdstat_")
        }
        cpu = info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]
        return Work(
            cpu * 1e6,
            {name: int(row["calls"]) for name, row in stats.items()},
            {name: int(row["usec"]) for name, row in stats.items()},
        )

    def client(self) -> Client:
        return Client(parse_url(self.url))

    def async_client(self) -> AsyncClient:
        return AsyncClient(parse_url(self.url))


@contextmanager
def private_server(*, tcp: bool = False) -> Iterator[Server]:
    """Starts a server that keeps nothing on disk; it and its directory go with the block.

    Its other settings are those of the embedded server.

    Listens on a Unix socket, or with `tcp` on a free port of the loopback.
    """
    binary = find_server()
    folder = Path(tempfile.mkdtemp(prefix="rota-bench-"))
    port = _free_port() if tcp else 0
    path = folder / "s"
    url = f"redis://127.0.0.1:{port}" if tcp else f"unix://{path}"
    command = [binary.path, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
    command += ["--save", "", "--appendonly", "no", "--logfile", folder / "log"]
    command += ["--hash-max-listpack-entries", "16", "--zset-max-listpack-entries", "32"]
    command += [] if tcp else ["--unixsocket", path]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    raw = redis.Redis.from_url(url, socket_timeout=120)
    try:
        _await_answer(raw, process, folder / "log")
        yield Server(url, raw, str(binary), process.pid)
    finally:
        raw.close()
        process.terminate()
        try:
            process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await_answer(raw: redis.Redis, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_PATIENCE_S
    while True:
        try:
            raw.ping()
        except redis.ConnectionError:
            if process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            said = log.read_text(errors="replace")[-2000:] if log.exists() else "nothing"
            raise RuntimeError(f"the server did not start; its log says: {said}") from None
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
