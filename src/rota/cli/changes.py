"""Notices that source files below a folder change."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_FILES = 10_000
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})

State = dict[str, tuple[int, int]]
"""Each file's time of change and size."""


def folder_of(module: str) -> Path:
    """The folder in which the module's top-level package or file lies."""
    top = sys.modules[module.partition(".")[0]]
    file = getattr(top, "__file__", None)
    if file is None:
        return Path.cwd()
    return Path(file).resolve().parent


def look(folder: Path) -> State:
    """The Python files below the folder, hidden folders and environments apart."""
    found: State = {}
    for path in _files(folder):
        try:
            info = os.stat(path)
        except OSError:  # gone meanwhile
            continue
        found[path] = info.st_mtime_ns, info.st_size
        if len(found) >= MOST_FILES:
            break
    return found


def _files(folder: Path) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        for name in names:
            if name.endswith(".py"):
                yield os.path.join(here, name)


def changed(before: State, after: State) -> list[str]:
    """Files that are new, gone, or not as they were."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
