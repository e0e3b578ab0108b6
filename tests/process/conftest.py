"""Fixtures for tests of the command line: real processes in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.queue import Queue
from tests.process.programs import Programs
from tests.support.servers import Server


@pytest.fixture
def rota(tmp_path: Path, valkey: Server, queue_name: str) -> Iterator[Programs]:
    """Runs `rota …` in `tmp_path`, on the shared Valkey unless the arguments say otherwise."""
    programs = Programs(tmp_path, valkey.url, queue_name)
    yield programs
    programs.close()


@pytest.fixture
def queue(valkey: Server, queue_name: str) -> Iterator[Queue]:
    """The test's queue in this process; it has no tasks."""
    queue = Queue(queue_name, url=valkey.url)
    yield queue
    queue.sync.close()
