"""Each contestant's own environment, installed once from the public package index.

Kept in a cache directory (ROTA_BENCH_CACHE, else ~/.cache/rota-bench); nothing is installed
anywhere else. What is half installed, or for other requirements, is made anew.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.catalogue import Contestant

PATIENCE_S = 600.0
READY = "ready"
"""A file in an environment that is whole; it says for what."""


class CannotRun(Exception):
    """A contestant cannot be installed or run; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`programs`: where its commands are; `modules`: where Node finds its packages."""

    programs: Path
    modules: Path

    def command(self, words: Sequence[str]) -> list[str]:
        """The words with the first one as the environment's own program."""
        own = self.programs / words[0]
        return [str(own) if own.exists() else words[0], *words[1:]]


def cache() -> Path:
    given = os.environ.get("ROTA_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "rota-bench"


def prepare(contestant: Contestant) -> Environment:
    """The contestant's environment, installed if need be; raises CannotRun."""
    folder = cache() / f"{contestant.name}-{contestant.version}"
    mark = "\n".join([_runtime(contestant), *contestant.requirements])
    ready = folder / READY
    if not ready.exists() or ready.read_text(encoding="utf-8") != mark:
        print(f"installing {contestant.title} into {folder}", flush=True)
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            _install(contestant, folder)
            ready.write_text(mark, encoding="utf-8")
        except OSError as error:
            raise CannotRun(f"cannot be installed: {error}") from error
    return Environment(folder / "bin", folder / "node_modules")


def this_one() -> Environment:
    """The environment that runs the benchmark."""
    programs = Path(sys.executable).parent
    return Environment(programs, programs)


def _runtime(contestant: Contestant) -> str:
    if not contestant.node:
        return f"python {platform.python_version()}"
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise CannotRun(f"{program} is not here")
    return "node"


def _install(contestant: Contestant, folder: Path) -> None:
    if contestant.node:
        _run("npm", "install", "--no-audit", "--no-fund", "--prefix", folder,
             *contestant.requirements)  # fmt: skip
        return
    _run(sys.executable, "-m", "venv", folder)
    _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet",
         "--disable-pip-version-check", *contestant.requirements)  # fmt: skip


def _run(*words: str | Path) -> None:
    try:
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotRun(f"cannot be installed: {words[0]} took over {PATIENCE_S:g} s") from None
    if done.returncode:
        raise CannotRun(f"cannot be installed: {last_line(done.stderr or done.stdout)}")


def last_line(output: str) -> str:
    """What a program said at its end, short."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
