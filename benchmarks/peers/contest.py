"""Runs one contestant's enqueuer and worker against the server, and reads their clocks.

Each clock is in the program that is measured: the enqueuer's runs while it enqueues, the worker's
from one job it handles to the last. Both start late, after a fifth of all jobs, so that neither
a program's start nor a compiler's warming up is in the figure.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.peers.catalogue import PROGRAMS, ROOT, Contestant
from benchmarks.peers.environments import CannotRun, Environment, last_line
from benchmarks.server import Server

Mode = Literal["batch", "at_once"]
"""Enqueueing in calls of 100, or one by one where there is no such call; fifty tasks at once."""

PATIENCE_S = 60.0
END_S = 5.0
LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Contest:
    """One contestant, installed, on one server."""

    contestant: Contestant
    environment: Environment
    server: Server

    @property
    def modes(self) -> Sequence[Mode]:
        return ("batch", "at_once") if self.contestant.coroutines else ("batch",)

    def enqueue(self, mode: Mode, jobs: int) -> float:
        """Jobs enqueued per second; they and those of the warm-up are on the server afterwards."""
        self.server.raw.flushall()
        program = self.contestant.program
        words = (
            ["node", str(PROGRAMS / program)]
            if self.contestant.node
            else ["python", str(PROGRAMS / "enqueue.py"), program]
        )
        command = self.environment.command([*words, mode, str(jobs)])
        try:
            done = subprocess.run(
                command, env=self._variables({}), cwd=PROGRAMS, capture_output=True, text=True,
                timeout=PATIENCE_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CannotRun(f"{jobs:,} jobs were not enqueued in {PATIENCE_S:g} s") from None
        if done.returncode:
            raise CannotRun(f"its enqueuer failed: {last_line(done.stderr)}")
        return jobs / _seconds(done.stdout.splitlines()[-1])

    def work(self, jobs: int) -> float:
        """Jobs handled per second by one worker process that finds them all waiting."""
        quickest: Mode = "batch" if self.contestant.batches or len(self.modes) == 1 else "at_once"
        self.enqueue(quickest, jobs)
        with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
            report, log = Path(folder, "report"), Path(folder, "log")
            with self._worker(log, BENCH_REPORT=str(report), BENCH_JOBS=str(jobs)) as process:
                deadline = time.monotonic() + PATIENCE_S
                while not report.exists():
                    said = last_line(log.read_text(errors="replace"))
                    if process.poll() is not None:
                        raise CannotRun(f"its worker ended: {said}")
                    if time.monotonic() > deadline:
                        raise CannotRun(f"no {jobs:,} jobs done in {PATIENCE_S:g} s: {said}")
                    time.sleep(LOOK_S)
            return jobs / _seconds(report.read_text())

    @contextmanager
    def _worker(self, log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
        words = [word.format(url=self.server.url) for word in self.contestant.worker]
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.environment.command(words), env=self._variables(variables), cwd=PROGRAMS,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            _end(process)

    def _variables(self, more: Mapping[str, str]) -> dict[str, str]:
        mine = {k: v for k, v in os.environ.items() if not k.startswith(("ROTA_", "PYTHON"))}
        return mine | {
            "BENCH_PORT": self.server.url.rpartition(":")[2],
            "NODE_PATH": str(self.environment.modules),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(PROGRAMS), str(ROOT / "src")]),
            **more,
        }


def _end(process: subprocess.Popen[bytes]) -> None:
    """The worker and the processes it started; it is of no more use, so it gets no long grace."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _seconds(told: str) -> float:
    seconds: float = json.loads(told)["seconds"]
    return seconds
