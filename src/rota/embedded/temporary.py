"""A server for a while: its own directory, and nothing left of either afterwards."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from rota.embedded.paths import running
from rota.embedded.server import EmbeddedServer, acquire
from rota.embedded.starting import POLL

_END_TIMEOUT = 10.0


@contextmanager
def temporary_server() -> Iterator[EmbeddedServer]:
    """A fresh server in a temporary directory; when the block ends, so do both. Blocking.

    Give clients the `socket_url`, not `embedded:`, so that one left open does not keep the
    server alive.

    The directory outlives the block only where another process still uses the server.
    Raises as `acquire` does.
    """
    directory = Path(tempfile.mkdtemp(prefix="rota-"))
    try:
        with acquire(directory) as server:
            yield server
    finally:
        _remove(directory)


def socket_url(server: EmbeddedServer) -> str:
    """Where the server listens, for clients that do not hold it."""
    return f"unix://{quote(str(server.socket))}"


def _remove(directory: Path) -> None:
    """The server writes until it has ended, so that comes first."""
    deadline = time.monotonic() + _END_TIMEOUT
    while running(directory):
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL)
    shutil.rmtree(directory, ignore_errors=True)
