"""What the Python contestants' programs share: the jobs, and how both sides are timed.

The standard library only: it runs in each contestant's own environment. Both clocks start after
a fifth of the jobs, by then everything is loaded and warm. The enqueuer prints its seconds (see
`enqueue.py`), the worker writes them to BENCH_REPORT.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

HOST = "127.0.0.1"
PORT = int(os.environ["BENCH_PORT"])
URL = f"redis://{HOST}:{PORT}/0"
LANES = 1_000
BATCH = 100
AT_ONCE = 50
NOTE = "x" * 70

Single = Callable[[int], object]
Some = Callable[[range], object]


def warm_up(jobs: int) -> int:
    """How many jobs come before the `jobs` that count."""
    return jobs // 4


def arguments(i: int) -> tuple[str, int, str]:
    """A job's arguments; about 100 bytes as JSON."""
    return f"tenant-{i % LANES:04}", i, NOTE


class Tally:
    """Counts the jobs a worker has handled, in any thread; times the BENCH_JOBS that count."""

    def __init__(self) -> None:
        jobs = int(os.environ.get("BENCH_JOBS", "0"))
        self._first = warm_up(jobs)
        self._last = self._first + jobs
        self._count = itertools.count(1)
        self._began = 0.0

    def hit(self) -> None:
        number = next(self._count)
        if number == self._first:
            self._began = time.perf_counter()
        elif number == self._last:
            self._tell(time.perf_counter() - self._began)

    def _tell(self, seconds: float) -> None:
        report = Path(os.environ["BENCH_REPORT"])
        unfinished = report.with_suffix(".part")
        unfinished.write_text(json.dumps({"seconds": seconds}))
        unfinished.replace(report)


def measure(*, single: Single | None = None, batch: Some | None = None) -> None:
    """The enqueuer of a client that blocks."""
    mode, jobs = sys.argv[1], int(sys.argv[2])

    def send(numbers: range) -> None:
        if mode == "batch" and batch is not None:
            for part in _parts(numbers):
                batch(part)
        else:
            assert single is not None
            for i in numbers:
                single(i)

    send(range(warm_up(jobs)))
    began = time.perf_counter()
    send(range(jobs))
    print(json.dumps({"seconds": time.perf_counter() - began}))


async def measure_async(
    *,
    single: Callable[[int], Awaitable[object]],
    batch: Callable[[range], Awaitable[object]] | None = None,
) -> None:
    """The enqueuer of a client with coroutines; `at_once`: 50 tasks share the jobs."""
    mode, jobs = sys.argv[1], int(sys.argv[2])

    async def one_by_one(numbers: range) -> None:
        for i in numbers:
            await single(i)

    async def send(numbers: range) -> None:
        if mode == "at_once":
            await asyncio.gather(*(one_by_one(numbers[first::AT_ONCE]) for first in range(AT_ONCE)))
        elif mode == "batch" and batch is not None:
            for part in _parts(numbers):
                await batch(part)
        else:
            await one_by_one(numbers)

    await send(range(warm_up(jobs)))
    began = time.perf_counter()
    await send(range(jobs))
    print(json.dumps({"seconds": time.perf_counter() - began}))


def _parts(numbers: range) -> list[range]:
    return [numbers[first : first + BATCH] for first in range(0, len(numbers), BATCH)]
