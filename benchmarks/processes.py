"""Do two worker processes do more than one, while the server has room?

`rota worker` with one and with two processes, 100 slots each, over the same jobs on 1,000 lanes,
whose handlers take some hundred microseconds of a core; counted is what the server has completed,
from a tenth to nine tenths of the jobs, so that starting and stopping are left out. On two cores
the server, the workers and this program share them: the ratio says as much of the machine as of
rota. Beside it no-op jobs, of which one process fills the server. Not shown: more than two.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing

from benchmarks import workers
from benchmarks.report import Figure, Plan, figure, ratio
from benchmarks.server import Server
from rota.connection import Client, parse_url
from rota.script.keys import Keys
from rota.store.inspector import Inspector
from rota.task import AnyTask

LEAST = 1.4
PATIENCE_S = 60.0


def run(server: Server, plan: Plan) -> list[Figure]:
    workers.queue.link.use(server.url)
    figures: list[Figure] = []
    for task, words, jobs, least in (
        (workers.reckon, "handlers that reckon", plan.size(20_000, 8_000), LEAST),
        (workers.noop, "no-op", plan.size(60_000, 20_000), None),
    ):
        rates: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(plan.runs):
            for processes, found in rates.items():
                found.append(_rate(server, task, jobs, processes))
        figures += [
            figure(f"{n} worker process(es), {words}", found, "jobs/s")
            for n, found in rates.items()
        ]
        figures.append(ratio(f"two : one, {words}", rates[2], rates[1], at_least=least))
    workers.queue.sync.close()
    return figures


def _rate(server: Server, task: AnyTask, jobs: int, processes: int) -> float:
    made = [task.spec(f"tenant-{n % workers.LANES}", n) for n in range(jobs)]
    workers.queue.sync.enqueue_many(made)
    command = [sys.executable, "-m", "rota", "worker", "benchmarks.workers:queue", "--url"]
    command += [server.url, "-c", "100", "-p", str(processes)]
    with closing(Client(parse_url(server.url))) as client:
        before = _completed(client)
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "ROTA_LOG_LEVEL": "warning"},
        )
        try:
            return _speed(client, before, jobs)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _speed(client: Client, before: int, jobs: int) -> float:
    """From a tenth of the jobs to nine tenths of them."""
    marks: list[tuple[float, int]] = []
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = _completed(client) - before
        if done >= jobs / 10:
            marks.append((time.perf_counter(), done))
        if done >= jobs * 9 / 10:
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"{done} of {jobs} jobs done within {PATIENCE_S:g} s")
        time.sleep(0.01)
    while _completed(client) - before < jobs:
        time.sleep(0.01)
    (began, first), (ended, last) = marks[0], marks[-1]
    return (last - first) / (ended - began)


def _completed(client: Client) -> int:
    info = client.run(Inspector(Keys("processes")).queue())
    return info.totals.get("completed", 0)
