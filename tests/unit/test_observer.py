"""What is counted, and that a worker's usual observer counts nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from rota.observe import observer as observing
from rota.observe.observer import SILENT, Histogram, JobCounts, Observer
from rota.values.model import Action, Claimed, Exchanged, Job


def job(task: str = "work", attempt: int = 1) -> Job:
    return Job(
        id="j", task=task, lane="a", ordering_key=None, priority=0, attempt=attempt,
        max_attempts=5, timeout=None, on_dead="skip", charge="cost", expires=None,
        enqueued_at=0.0, payload=b"{}", delivery="1", suspect=False, place=1,
    )  # fmt: skip


def handed_out(*jobs: Claimed, now: int = 10_000) -> Exchanged:
    return Exchanged(
        status="ok", now=now, due=None, left=False, answers=[], entries=[[one] for one in jobs]
    )


def record(available: int) -> bytes:
    return b"+0000000000000042,%013d,%013d\n{}\n" % (available, available)


def test_a_value_on_a_bound_belongs_below_it() -> None:
    histogram = Histogram((1, 2, 5))
    for value in (0, 1, 1.5, 5, 6):
        histogram.observe(value)
    assert (histogram.counts, histogram.total) == ([2, 1, 1, 1], 13.5)


def test_waits_are_those_before_the_first_run() -> None:
    counts = JobCounts()
    counts.claimed(
        handed_out(
            Claimed("first", record(9_000), 0, suspect=False),
            Claimed("again", record(9_000), 1, suspect=False),
            Claimed("ahead", record(11_000), 0, suspect=False),
            Claimed("gone", None, 0, suspect=False),
            Claimed("damaged", b"+00", 0, suspect=False),
            Claimed("never", record(0), 0, suspect=False),
        )
    )
    assert sum(counts.waits.counts) == 2
    assert counts.waits.total == 1.0


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        ("complete", "completed"),
        ("retry", "retried"),
        ("release", "released"),
        ("bury", "buried"),
        ("block_lane", "blocked"),
        ("block_sequence", "blocked"),
        ("cancel", "cancelled"),
    ],
)
def test_every_ending_has_its_outcome(action: Action, outcome: str) -> None:
    counts = JobCounts()
    counts.settled(job(), action, "ok")
    counts.settled(job(), action, "settled")
    counts.settled(job(), action, "lost")
    assert counts.jobs == {("work", outcome): 2, ("work", "lost"): 1}
    ended = action in ("complete", "bury")
    assert sum(sum(one.counts) for one in counts.attempts.values()) == (2 if ended else 0)


def test_the_silent_observer_knows_all_that_counts_are_told() -> None:
    told = {name for name in vars(Observer) if not name.startswith("_")}
    assert told == {name for name in vars(JobCounts) if callable(vars(JobCounts)[name])} - {
        "__init__"
    }
    assert not hasattr(SILENT, "__dict__")
    assert set(get_args(Action)) == set(observing.OUTCOMES)


def test_rota_needs_neither_prometheus_nor_opentelemetry() -> None:
    """The client library imports OpenTelemetry by itself where it finds it."""
    program = """
import sys
sys.modules["prometheus_client"] = sys.modules["opentelemetry"] = None
import rota, rota.health, rota.observe.tracing, rota.cli.app
from rota.observe import tracing
assert not tracing.is_on()
spec = rota.JobSpec(task="t")
with tracing.sending("q", spec) as same, tracing.sending_many("q", [spec]) as many:
    assert same is spec and many == [spec] and b"trace" not in spec.body
try:
    import rota.metrics
except ModuleNotFoundError as error:
    assert "pip install 'rota[metrics]'" in str(error)
else:
    sys.exit("imported")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
