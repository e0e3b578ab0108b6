"""What counts as a loop that hangs: as long as somebody looked, and no longer."""

from __future__ import annotations

import faulthandler
import os
from types import SimpleNamespace
from typing import Any

import pytest

from rota.work import watchdog
from rota.work.watchdog import HUNG_EXIT, LOOK_MOST_S, Watchdog


class Ended(Exception):
    """Instead of the process."""


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(watchdog, "time", clock)
    monkeypatch.setattr(faulthandler, "dump_traceback", lambda **_: None)
    monkeypatch.setattr(os, "_exit", end)
    return clock


def guard(timeout: float | None, grace: float) -> Watchdog:
    """Of a process that runs one job. Its loop does not turn as long as the test does not wait."""
    job: Any = SimpleNamespace(timeout=timeout, task="work")
    fetcher: Any = SimpleNamespace(running_jobs=[job])
    return Watchdog([fetcher], grace=grace)


async def test_a_process_that_was_suspended_does_not_end(clock: Clock) -> None:
    dog = guard(timeout=5, grace=5)
    dog.look()
    clock.now += 3600
    assert dog.hung == LOOK_MOST_S
    dog.look()
    assert dog.hung == LOOK_MOST_S


async def test_a_loop_that_hangs_longer_than_any_job_may_take_ends_the_process(
    clock: Clock,
) -> None:
    dog = guard(timeout=5, grace=5)
    dog.look()
    for _ in range(10):
        clock.now += 1
        dog.look()
    assert dog.hung == 10
    clock.now += 1
    with pytest.raises(Ended, match=str(HUNG_EXIT)):
        dog.look()


async def test_a_job_without_a_time_out_may_take_for_ever(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    dog = guard(timeout=None, grace=0)
    for _ in range(100):
        clock.now += 1
        dog.look()
    assert len([record for record in caplog.records if "has not turned" in record.message]) == 1
