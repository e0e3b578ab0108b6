"""One server process."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.times import IN_TIME

CLIENT_NAME = "harness"
START_TIMEOUT = 20.0
STOP_TIMEOUT = 20.0

Address = Path | int
"""A unix socket's path, or a port on the loopback."""


class NotStarted(Exception):
    """The server process ended, or did not answer in time; the message holds its log's end."""


@dataclass(slots=True)
class Node:
    """A server of one process, on a unix socket or a loopback port, with its own folder.

    Stopping, killing and starting again keep the address and the files.
    """

    binary: str
    folder: Path
    address: Address
    config: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        """Start and wait until it answers. Raises NotStarted."""
        if self.alive:
            raise RuntimeError(f"the server on {self.address} runs already")
        command = [self.binary, *self._options()]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self.folder / "pid").write_text(str(self.process.pid))
        try:
            self._await_answer(self.process)
        except NotStarted:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM, as an operator would; kill if it does not end. No-op when not running."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._ended()

    def kill(self) -> None:
        """kill -9. No-op when not running."""
        if self.process is None:
            return
        self.process.kill()
        self._ended()

    def freeze(self) -> None:
        """Stop the process without ending it: the system accepts connections, nobody answers."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def client(self, decode: bool = True, timeout: float = IN_TIME) -> redis.Redis:
        """A new client of this process alone, without retries; close it."""
        on_port = isinstance(self.address, int)
        return redis.Redis(
            host="127.0.0.1",
            port=self.address if isinstance(self.address, int) else 0,
            unix_socket_path=None if on_port else str(self.address),
            decode_responses=decode,
            client_name=CLIENT_NAME,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )

    def log_tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _options(self) -> list[str]:
        on_port = isinstance(self.address, int)
        options = {
            "bind": "127.0.0.1",
            "port": str(self.address) if on_port else "0",
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "enable-debug-command": "local",
        }
        if not on_port:
            options |= {"unixsocket": str(self.address), "unixsocketperm": "700"}
        options |= self.config
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        with self.client() as client:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise NotStarted(f"no answer in {START_TIMEOUT:g} s:\n{self.log_tail()}")
                try:
                    # Another process may have taken the port a moment before ours.
                    if client.info("server")["process_id"] == process.pid:
                        return
                except redis.RedisError:
                    pass
                time.sleep(0.005)
        raise NotStarted(f"ended with {process.returncode}:\n{self.log_tail()}")

    def _ended(self) -> None:
        assert self.process is not None
        self.process.wait(STOP_TIMEOUT)
        self.process = None
        (self.folder / "pid").unlink(missing_ok=True)


def free_port() -> int:
    """A loopback port nobody listens on, outside the range of outgoing connections.

    Another process may take it before it is used: who starts a server has to try again.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
