"""What the command line tells who makes the first mistakes: names, files, streams, terminals."""

from __future__ import annotations

import io
import json
import queue as queue_module
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from rota.cli.printing import fitted
from rota.queue import Queue
from rota.values.ids import new_id
from rota.values.jobspec import JobSpec
from tests.process.conftest import Here
from tests.process.programs import Programs
from tests.support.servers import Server
from tests.support.times import PATIENCE

FULL = Path("/dev/full")


def in_a_shell(
    rota: Programs, redirected: str, *words: object
) -> subprocess.CompletedProcess[bytes]:
    """The command with its streams as a shell gives them."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirected}', "sh", *rota._command(words)],
        cwd=rota.folder,
        env=rota._environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


# ── names of queues ─────────────────────────────────────────────────────────────────────────


def test_doctor_tells_a_queue_from_its_server(here: Here, queue: Queue, valkey: Server) -> None:
    queue.sync.enqueue(JobSpec(task="t", lane="a"))
    code, out, err = here("doctor", queue.name)
    assert (code, out.count("\n")) == (1, 1)
    expected = f"queue {queue.name}: sound, but 1 setting of its server endangers it\n"
    assert err == expected
    valkey.raw().delete(queue.link.keys.key("ring"))
    code, out, err = here("doctor", queue.name)
    assert err == f"queue {queue.name}: 1 thing is wrong; --repair mends what it can\n"
    code, out, err = here("doctor", queue.name, "--repair")
    assert (code, err) == (
        1, f"queue {queue.name}: 1 mended, but 1 setting of its server endangers it\n",
    )  # fmt: skip


def test_probes_of_a_queue_that_is_not_there(here: Here, queue: Queue) -> None:
    nothing = f"no such queue: nothing of {queue.name} is on {queue.link.target.display}"
    code, out, err = here("doctor", queue.name)
    assert (code, err) == (1, f"{nothing}\n"), "nor is it sound"
    code, out, err = here("check", queue.name)
    assert (code, err) == (1, "")
    assert out.splitlines()[0] == f"{queue.name}: not healthy"
    assert "  ok   server: answered in" in out
    assert f"  BAD  queue: {nothing}\n" in out
    (row,) = [json.loads(here("check", queue.name, "--json")[1])]
    assert [one["text"] for one in row["checks"] if not one["ok"]] == [nothing]
    queue.sync.lane("a").set(ceiling=1)
    for command in ("doctor", "check"):
        assert "nothing of" not in "".join(here(command, queue.name)[1:])


def test_the_name_of_a_file_is_no_module(here: Here, rota: Programs) -> None:
    rota.module("")
    for command in (("worker",), ("lane", "ls")):
        code, out, err = here(*command, "app.py:queue")
        assert (code, out) == (2, "")
        assert err.endswith("did you mean app:queue?\n")


@pytest.mark.parametrize("name", ["queue.py", "queue/__init__.py"])
def test_a_file_named_like_a_module_that_is_imported_already(
    here: Here, rota: Programs, name: str
) -> None:
    mine = rota.folder / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("import rota\nqueue = rota.Queue('mine')\n")
    for words in (("worker",), ("lane", "ls")):
        for target in ("queue:queue", "queue:Queue", "queue.tasks:queue"):
            code, out, err = here(*words, target)
            assert (code, out) == (2, "")
            assert queue_module.__file__ in err
            assert f"{mine} was not imported, for its name is the standard library's" in err
            assert "rename it" in err
    mine.unlink()
    code, out, err = here("lane", "ls", "queue:queue")
    assert queue_module.__file__ in err
    assert "rename" not in err


def test_a_module_that_exits_is_one_that_fails(here: Here, rota: Programs) -> None:
    rota.write("exits.py", "import sys\nsys.exit(5)\n")
    code, out, err = here("lane", "ls", "exits:queue")
    assert (code, out) == (2, "")
    assert "importing module 'exits' failed" in err
    assert 'exits.py", line 2' in err


# ── files ───────────────────────────────────────────────────────────────────────────────────


def test_no_lane_is_said(here: Here, rota: Programs, queue: Queue) -> None:
    rota.write("a.jsonl", '{"n": 1}\n')
    code, _, err = here("enqueue", queue.name, "t", "a.jsonl")
    assert (code, err) == (0, "no --lane-from: all jobs are in lane default\n")
    assert here("enqueue", queue.name, "t", "a.jsonl", "--lane-from", "n")[::2] == (0, "")
    rota.module("@queue.task\ndef t(n): pass\n")
    assert here("enqueue", "app:queue", "t", "a.jsonl")[::2] == (0, "")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_an_empty_file(here: Here, rota: Programs, queue: Queue, name: str) -> None:
    rota.write(name, "")
    code, out, err = here("enqueue", queue.name, "t", name, "--lane-from", "n")
    assert (code, out[:9], err) == (0, "0 created", "the file is empty\n")


# ── jobs ────────────────────────────────────────────────────────────────────────────────────


def test_the_jobs_there_are_in_other_states(here: Here, queue: Queue) -> None:
    queue.sync.set(ceiling=100)
    none = f"queue {queue.name} has no such jobs (running)"
    assert here("job", "ls", queue.name)[2] == f"{none}\n"
    queue.sync.enqueue_many([JobSpec(task="t", lane="x") for _ in range(2)])
    with queue.sync.consumer() as consumer:
        for job in consumer.claim(2):
            consumer.bury(job, "boom")
    queue.sync.enqueue(JobSpec(task="t", lane="x", delay_ms=60_000))
    queue.sync.enqueue_many([JobSpec(task="t", lane="x") for _ in range(3)])
    code, out, err = here("job", "ls", queue.name)
    assert (code, out) == (0, "")
    assert err == f"{none}; 3 wait, 1 is delayed, 2 are dead: see --lane, --state\n"
    assert "; " not in here("job", "ls", queue.name, "--state", "running", "--lane", "x")[2]


def test_ids_are_not_folded_on_a_terminal() -> None:
    ids = [new_id() for _ in range(3)]
    rows = [(id, "3m ago", "charge", "tenant-17", "5", "0", "boom " * 30) for id in ids]
    heads = ("id", "died", "task", "lane", "attempts", "deaths", "error")
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(fitted(heads, rows, numbers=("attempts", "deaths")))
    shown = console.export_text()
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert all(id in shown for id in ids)
    assert "tenant" in shown
    assert "boom" in shown


# ── streams ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words", [("lane", "ls"), ("queue", "ls"), ("top", "--once"), ("check",), ("dead", "ls")]
)
def test_closed_streams(rota: Programs, queue: Queue, words: tuple[str, ...]) -> None:
    queue.sync.enqueue(JobSpec(task="t", lane="a"))
    named = words if words == ("queue", "ls") else (words[0], *words[1:], queue.name)
    code = 1 if words == ("check",) else 0  # work, and no worker
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        done = in_a_shell(rota, closed, *named)
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done
    assert in_a_shell(rota, "2>&-", "lane", "ls", "a{b").returncode == 2


@pytest.mark.skipif(not FULL.exists(), reason="no full device")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk(rota: Programs, queue: Queue, unbuffered: str) -> None:
    queue.sync.enqueue(JobSpec(task="t", lane="a"))
    rota._environment["PYTHONUNBUFFERED"] = unbuffered
    for words in (("lane", "ls", queue.name), ("top", queue.name, "--once"), ("--help",)):
        done = in_a_shell(rota, "> /dev/full", *words)
        assert (done.returncode, done.stderr) == (
            1, b"rota: cannot write: No space left on device\n",
        ), words  # fmt: skip
    assert in_a_shell(rota, "> /dev/full 2>&1", "lane", "ls", queue.name).returncode == 1
