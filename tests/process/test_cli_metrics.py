"""`rota metrics`, and the port and the logs of `rota worker`, as processes."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request

import pytest

from rota.queue import Queue
from rota.values.jobspec import JobSpec
from tests.process.conftest import Here
from tests.process.programs import Program, Programs
from tests.support.node import free_port
from tests.support.times import PATIENCE
from tests.support.waiting import eventually


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def port_of(program: Program) -> str:
    """The URL a program has said it serves."""
    program.says("/metrics")
    found = re.search(r"(http://[\d.]+:\d+)/metrics", program.errors)
    assert found
    return found[1]


MODULE = """
    @queue.task
    async def add(n): note("ran", n)
"""


def test_the_exporter_serves_until_it_is_stopped(rota: Programs, queue: Queue) -> None:
    queue.sync.enqueue_many([JobSpec(task="t", lane=f"l{n}") for n in range(4)])
    program = rota.start("metrics", queue.name, "--port", 0, "--top", 2)
    url = port_of(program)
    assert url.startswith("http://127.0.0.1:")
    status, text = get(f"{url}/metrics")
    assert status == 200
    assert f'rota_queue_jobs{{queue="{queue.name}",state="waiting"}} 4.0' in text
    assert f'rota_top_lane_waiting{{lane="",queue="{queue.name}",rank="other"}} 2.0' in text
    assert get(f"{url}/healthz")[0] == get(f"{url}/readyz")[0] == 200
    program.signal(signal.SIGTERM)
    assert program.wait() == 0


def test_options_come_from_the_environment(rota: Programs, queue: Queue) -> None:
    port = free_port()
    program = rota.start("metrics", queue.name, ROTA_METRICS_PORT=str(port), ROTA_METRICS_TOP="3")
    assert port_of(program) == f"http://127.0.0.1:{port}"
    program.signal(signal.SIGINT)
    assert program.wait() == 0


def test_once_prints_and_ends(here: Here, queue: Queue) -> None:
    queue.sync.set(ceiling=100)
    code, out, err = here("metrics", queue.name, "--once")
    assert (code, err) == (0, "")
    assert f'rota_queue_up{{queue="{queue.name}"}} 1.0' in out
    code, out, _ = here("metrics", queue.name, "--once", "--url", "redis://127.0.0.1:1")
    assert code == 3
    assert f'rota_queue_up{{queue="{queue.name}"}} 0.0' in out


def test_what_is_refused_is_said(rota: Programs, here: Here, queue: Queue) -> None:
    rota.module(MODULE)
    with_port = ("worker", "app:queue", "--burst", "--metrics-port")
    for words, text in [
        (("metrics",), "Missing argument 'QUEUE...'"),
        (("metrics", "a{b"), "queue: expected a name without"),
        (("metrics", queue.name, "--top", 101), "top: expected a whole number from 0 to 100"),
        (("metrics", queue.name, "--port", 70_000), "metrics port: expected a whole number"),
        (("metrics", queue.name, "--host", "256.1.1.1"), "cannot serve metrics on 256.1.1.1"),
        ((*with_port, 65_535, "-p", 2), "metrics port: expected a whole number"),
        ((*with_port, "x"), "--metrics-port"),
        (("worker", "app:queue", "--log-format", "xml"), "--log-format"),
    ]:
        code, _, err = here(*words)
        assert (code, text in err) == (2, True), (words, err)


def test_the_missing_extra_is_one_line(rota: Programs, queue: Queue) -> None:
    rota.module(MODULE)
    gone = "raise ModuleNotFoundError('gone', name='prometheus_client')"
    rota.write("prometheus_client.py", gone)
    for words in (
        ("metrics", queue.name),
        ("worker", "app:queue", "--burst", "--metrics-port", 0),
    ):
        done = rota(*words)
        assert done.returncode == 2
        assert "pip install 'rota[metrics]'" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
    assert rota("worker", "app:queue", "--burst").returncode == 0, "without a port it needs none"


def test_a_worker_serves_its_numbers_and_its_health(rota: Programs, queue: Queue) -> None:
    rota.module(MODULE)
    queue.sync.enqueue_many([JobSpec(task="add", payload=b'{"n": 1}') for _ in range(5)])
    program = rota.worker("--metrics-port", 0, "-c", 3)
    url = port_of(program)
    done = f'{{outcome="completed",queue="{queue.name}",task="add"}} 5.0'

    def counted() -> bool:
        return f"rota_jobs_settled_total{done}" in get(f"{url}/metrics")[1]

    eventually(counted, "the jobs are not counted")
    assert "rota_worker_slots 3.0" in get(f"{url}/metrics")[1]
    status, text = get(f"{url}/readyz")
    assert (status, json.loads(text)["ok"]) == (200, True)
    names = {check["name"] for check in json.loads(text)["checks"]}
    assert f"{queue.name}: doorbell" in names
    program.signal(signal.SIGTERM)
    assert program.wait() == 0


def test_each_process_has_a_port_of_its_own(rota: Programs, queue: Queue) -> None:
    rota.module(MODULE)
    port = free_port()
    program = rota.start("worker", "app:queue", "-p", 2, ROTA_METRICS_PORT=str(port))
    eventually(
        lambda: program.errors.count("rota.worker: working") == 2, "not both work", timeout=PATIENCE
    )
    for number in range(2):
        assert get(f"http://127.0.0.1:{port + number}/readyz")[0] == 200
    program.signal(signal.SIGTERM)
    assert program.wait() == 0


def test_a_port_that_is_taken_ends_the_worker(rota: Programs, queue: Queue) -> None:
    rota.module(MODULE)
    first = rota.worker("--metrics-port", 0)
    port = port_of(first).rpartition(":")[2]
    done = rota("worker", "app:queue", "--metrics-port", port)
    assert done.returncode == 2
    assert f"cannot serve metrics on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize("level", ["info", "warning"])
def test_logs_are_json_on_request(rota: Programs, queue: Queue, level: str) -> None:
    rota.module(MODULE)
    queue.sync.enqueue(JobSpec(task="add", payload=b'{"n": 1}', lane="t7", id="j1"))
    done = rota("worker", "app:queue", "--burst", "--log-format", "json", ROTA_LOG_LEVEL=level)
    assert done.returncode == 0
    rows = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    said = [row for row in rows if row["logger"] == "rota.job"]
    if level == "warning":
        assert rows == []
        return
    (row,) = said
    expected = {"job": "j1", "task": "add", "lane": "t7", "attempt": 1, "outcome": "completed"}
    assert expected.items() <= row.items()
    assert {"working"} <= {row["message"] for row in rows}
    console = rota("worker", "app:queue", "--burst")
    assert " INFO " in console.stderr


LIFESPAN = """
    import logging.config

    @queue.lifespan
    async def resources():
        logging.config.dictConfig({
            "version": 1,
            "handlers": {"c": {"class": "logging.StreamHandler"}},
            "root": {"handlers": ["c"], "level": "ERROR"},
        })
        yield
"""


def test_what_a_lifespan_sets_up_does_not_undo_the_options(rota: Programs, queue: Queue) -> None:
    rota.module(MODULE + LIFESPAN)
    done = rota("worker", "app:queue", "--burst", "--log-format", "json", "--log-level", "info")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert "working" in [row["message"] for row in rows]
