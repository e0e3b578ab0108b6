"""Starts `rota …` as a user would, and knows what its jobs have written."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

from typer.main import get_command

from rota.cli.app import app
from tests.support.times import IN_TIME, PATIENCE
from tests.support.waiting import eventually

COMMAND: Any = get_command(app)
"""`rota`, to be called in this process; made once, which takes longer than most calls."""

SOURCE = Path(__file__).parents[2] / "src"

MODULE = """
import asyncio, os, sys, time
import rota
queue = rota.Queue({queue!r}, beat=1)
FAST = "FAST" in os.environ
def note(*words):
    line = " ".join([repr(time.time()), str(os.getpid()), *map(str, words)]) + "\\n"
    file = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)
"""


class Program:
    """A running command. `errors` is what it has written to stderr so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def errors(self) -> str:
        return "".join(self._errors)

    def says(self, text: str, timeout: float = PATIENCE) -> None:
        """Waits until stderr holds `text`."""
        eventually(
            lambda: text in self.errors or self._check_alive(text),
            f"never said {text!r}",
            timeout=timeout,
        )

    def _check_alive(self, text: str) -> bool:
        if self.process.poll() is not None:
            self._reader.join(IN_TIME)
            if text not in self.errors:
                raise RuntimeError(
                    f"ended with {self.process.returncode} before {text!r}:\n{self.errors}"
                )
        return False

    def signal(self, number: int) -> float:
        """Sends it and returns when (Unix seconds)."""
        sent = time.time()
        self.process.send_signal(number)
        return sent

    def wait(self, timeout: float = PATIENCE) -> int:
        code = self.process.wait(timeout)
        self._reader.join(IN_TIME)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(IN_TIME)
        self._reader.join(IN_TIME)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


class Programs:
    """Commands in one folder, all ended by `close`."""

    def __init__(self, folder: Path, url: str, queue: str) -> None:
        self.folder = folder
        self.url = url
        self.queue = queue
        self.log = folder / "log.txt"
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("ROTA_")},
            "PYTHONPATH": str(SOURCE),
            "PYTHONUNBUFFERED": "1",
            "ROTA_URL": url,
        }
        self._running: list[Program] = []

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def module(self, body: str, name: str = "app") -> None:
        """A module with `queue`, `note(…)` and what `body` adds."""
        head = MODULE.format(queue=self.queue, log=str(self.log))
        self.write(f"{name}.py", head + textwrap.dedent(body))

    def __call__(
        self, *words: object, input: str | bytes | None = None, timeout: float = 30, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        done = subprocess.run(
            self._command(words),
            cwd=self.folder,
            env=self._environment | env,
            input=input.encode() if isinstance(input, str) else input or b"",
            capture_output=True,
            timeout=timeout,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def start(self, *words: object, **env: str) -> Program:
        """Starts a command and returns at once."""
        process = subprocess.Popen(
            self._command(words),
            cwd=self.folder,
            env=self._environment | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(Program(process))
        return self._running[-1]

    def worker(self, *words: object, **env: str) -> Program:
        """Starts `rota worker app:queue …` and waits until it works."""
        program = self.start("worker", "app:queue", *words, **env)
        program.says("rota.worker: working")
        return program

    def _command(self, words: tuple[object, ...]) -> list[str]:
        return [sys.executable, "-m", "rota", *map(str, words)]

    def notes(self) -> list[list[str]]:
        """What the jobs wrote, in order: time, process id, words."""
        if not self.log.exists():
            return []
        return [line.split() for line in self.log.read_text().splitlines()]

    def words(self) -> list[str]:
        return [" ".join(note[2:]) for note in self.notes()]

    def kill_noted(self) -> None:
        """Ends the processes that wrote notes: a parent's children, if a test failed."""
        for pid in {int(note[1]) for note in self.notes()}:
            if _is_rota(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill_noted()
        for program in self._running:
            program.close()


def _is_rota(pid: int) -> bool:
    """Whether the process is still a worker of ours; where that cannot be told, it is left."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"rota" in command
