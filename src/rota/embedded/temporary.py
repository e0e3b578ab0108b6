"""A server for a while: its own directory, and nothing left of either afterwards."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rota.embedded.paths import running
from rota.embedded.server import EmbeddedServer, acquire
from rota.embedded.starting import POLL

_END_TIMEOUT = 15.0


@contextmanager
def temporary_server() -> Iterator[EmbeddedServer]:
    """A fresh server in a temporary directory; when the block ends, so do both. Blocking.

    The directory outlives the block only where another process still uses the server.
    Raises as `acquire` does.
    """
    directory = Path(tempfile.mkdtemp(prefix="rota-"))
    try:
        with acquire(directory) as server:
            yield server
    finally:
        _remove(directory)


def _remove(directory: Path) -> None:
    """The server writes until it has ended, so that comes first."""
    deadline = time.monotonic() + _END_TIMEOUT
    while running(directory):
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL)
    shutil.rmtree(directory, ignore_errors=True)
