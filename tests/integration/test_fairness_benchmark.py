"""The fairness benchmark in small: its arithmetic, its arrivals, and what the queue decides."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rota
from benchmarks import arrivals
from benchmarks.arrivals import Arrival
from benchmarks.fairness import (
    Beside,
    Service,
    beside_flood,
    contention,
    in_one_line,
    in_turns,
    jain,
    play,
    served,
)
from tests.support.servers import Server

FLOOD = 2_000
SERVICE = Service(rate=1_000, batch=10)
Open = Callable[[str], rota.Queue]


@pytest.fixture
def opened(server: Server, queue_name: str) -> Iterator[Open]:
    """Queues of this test, closed at its end."""
    queues: list[rota.Queue] = []

    def open_queue(suffix: str) -> rota.Queue:
        queues.append(rota.Queue(f"{queue_name}-{suffix}", url=server.url))
        return queues[-1]

    yield open_queue
    for queue in queues:
        queue.sync.close()


@pytest.mark.parametrize(
    ("shares", "index"),
    [
        ([3, 3, 3], 1.0),
        ([0.5], 1.0),
        ([1, 0, 0, 0], 0.25),
        ([1, 2, 3], 36 / (3 * 14)),
        ([0, 0], 1.0),
        ([], 1.0),
    ],
)
def test_jains_index(shares: list[float], index: float) -> None:
    assert jain(iter(shares)) == pytest.approx(index)


def test_a_wait_is_that_of_the_named_share() -> None:
    waits = Beside([float(n) for n in range(1, 101)], flood_end=1)
    assert [waits.wait(share) for share in (0.01, 0.5, 0.95, 1.0)] == [1, 50, 95, 100]


def test_the_generator_makes_the_same_heavy_tailed_arrivals_again() -> None:
    made = arrivals.generated(100)
    assert made == arrivals.generated(100) != arrivals.generated(100, seed=1)
    times = [job.at for job in made.jobs]
    assert times == sorted(times)
    assert 0 <= times[0] < 1
    assert 99 < times[-1] <= 100
    counts = sorted(made.counts.values())
    assert (len(counts), len(times)) == (arrivals.TENANTS, arrivals.JOBS)
    assert counts[-1] > 0.2 * len(times), "one tenant sends much"
    assert counts[len(counts) // 2] <= 3, "most send little"


def test_recorded_events_are_scaled_to_the_span(tmp_path: Path) -> None:
    events = [{"at": at, "tenant": f"t{at}"} for at in (70, 10, 20)]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert arrivals.recorded(path, 6).jobs == [
        Arrival(0, "t10"),
        Arrival(1, "t20"),
        Arrival(6, "t70"),
    ]


def test_small_tenants_wait_for_a_flood_in_one_line_and_not_in_turns(opened: Open) -> None:
    small = arrivals.generated(FLOOD / SERVICE.rate, jobs=100, tenants=20).jobs
    turns = beside_flood(opened("turns"), FLOOD, small, in_turns, SERVICE)
    line = beside_flood(opened("line"), FLOOD, small, in_one_line, SERVICE)
    assert line.wait(0.95) >= 10 * turns.wait(0.95)
    assert line.flood_end == pytest.approx(2.0)
    assert turns.flood_end <= 2.1 + SERVICE.batch / SERVICE.rate


def test_the_same_arrivals_are_served_alike_again(opened: Open) -> None:
    jobs = arrivals.generated(0.5, jobs=300, tenants=30).jobs
    first, again = (play(opened(name), jobs, in_turns, service=SERVICE) for name in ("a", "b"))
    assert first == again
    assert all(start >= job.at for start, job in zip(first, jobs, strict=True))


@pytest.mark.parametrize("weights", [(1,), (1, 2, 5)])
def test_shares_follow_weights_in_turns_and_backlogs_in_one_line(
    opened: Open, weights: tuple[int, ...]
) -> None:
    counts = Counter({f"t{i}": n for i, n in enumerate([1500, 400, 90, 8, 2, 1])})
    jobs = contention(counts, least=100, times=1)
    weight = {tenant: weights[i % len(weights)] for i, tenant in enumerate(counts)}
    queue = opened("turns")
    queue.sync.set_lanes({tenant: {"weight": w} for tenant, w in weight.items()})
    turns = served(queue, jobs, in_turns, SERVICE, limit=203)
    shares = [n / weight[tenant] for tenant, n in turns.items()]
    assert sum(turns.values()) == 203
    assert max(shares) - min(shares) <= 1
    assert jain(shares) > 0.999
    line = served(opened("line"), jobs, in_one_line, SERVICE, limit=203)
    assert jain(n / weight[tenant] for tenant, n in line.items()) < 0.5


def test_a_window_in_which_a_tenant_runs_dry_is_refused(opened: Open) -> None:
    jobs = contention(Counter({"a": 50, "b": 5}), least=1, times=1)
    with pytest.raises(RuntimeError, match=r"\['b'\] had nothing left"):
        served(opened("turns"), jobs, in_turns, SERVICE, limit=20)


def test_the_chart_is_small_and_says_nothing_of_where_and_when(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks import chart

    waits = [n / 100 for n in range(20_000)]
    for name in ("a", "b"):
        chart.write(tmp_path / name, waits, [10 * wait for wait in waits], 1_000_000)
    text = (tmp_path / "a").read_text()
    assert text == (tmp_path / "b").read_text()
    assert len(text) < 100_000
    assert "first in, first out" in text
    assert "1,000,000 jobs" in text
    assert not re.search(r"20\d\d-\d\d|/home|/tmp|dc:date", text)
