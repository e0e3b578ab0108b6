"""A folder for what the tests of this process start, removed with all of it in any event."""

from __future__ import annotations

import subprocess
import tempfile
from itertools import count
from pathlib import Path

# Reads until the last holder of the pipe is gone, however it went, then ends what is left.
_JANITOR = """
cat > /dev/null
for file in "$1"/*/pid; do
    [ -e "$file" ] && kill -9 "$(cat "$file")" 2> /dev/null
done
rm -rf -- "$1"
"""

# A unix socket's path may have 107 bytes; half of them are left to the files below.
_LONGEST_ROOT = 50


class Workplace:
    """A temporary folder with a janitor.

    Each server has a sub-folder with its process id in the file `pid`. The janitor is a shell in
    a session of its own that waits for the end of this process: also after kill -9 of it no
    server and no file stays behind.
    """

    def __init__(self) -> None:
        parent = tempfile.gettempdir()
        short = parent if len(parent) <= _LONGEST_ROOT else "/tmp"
        self.root = Path(tempfile.mkdtemp(prefix="rota-test-", dir=short))
        self._numbers = count(1)
        self._janitor = subprocess.Popen(
            ["/bin/sh", "-c", _JANITOR, "janitor", str(self.root)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def folder(self, name: str) -> Path:
        """A new empty folder."""
        path = self.root / f"{name}{next(self._numbers)}"
        path.mkdir()
        return path

    def close(self) -> None:
        """Let the janitor do its work, and wait for it."""
        if self._janitor.stdin is not None:
            self._janitor.stdin.close()
        self._janitor.wait(timeout=10)
