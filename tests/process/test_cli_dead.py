"""`rota dead`: dead jobs for people and for programs, put back and deleted from a shell."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterable

import pytest

from rota.queue import Queue
from rota.values.jobspec import JobSpec
from tests.process.programs import Programs
from tests.support.times import PATIENCE


def bury(queue: Queue, specs: Iterable[JobSpec], reason: str = "it broke") -> None:
    queue.sync.enqueue_many(list(specs))
    with queue.sync.consumer() as consumer:
        while taken := consumer.claim(100):
            consumer.bury(taken, reason)


def dead(queue: Queue) -> set[str]:
    return {job.id for job in queue.sync.dead.iterate()}


def fill(queue: Queue) -> None:
    """Six: of two lanes and three tasks, one with markup in its names and its error."""
    bury(queue, [JobSpec(task=f"t{n % 3}", lane=f"l{n % 2}", id=f"j{n}") for n in range(5)])
    odd = JobSpec(task="[red]t[/]", lane="!odd", id="odd", priority=2, payload=b'{"a": 1}')
    bury(queue, [odd], "[bold]first line[/]\nlast line")


def test_shows_them_oldest_first(rota: Programs, queue: Queue) -> None:
    fill(queue)
    done = rota("dead", "ls", queue.name)
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["id", "died", "task", "lane", "attempts", "deaths", "error"]
    assert [row.split()[0] for row in rows] == ["j0", "j1", "j2", "j3", "j4", "odd"]
    assert "it broke" in rows[0]
    assert " ago " in rows[0]
    assert "[red]t[/]" in rows[5]
    assert "[bold]first line[/]" in rows[5]
    assert "last line" not in rows[5]


def test_json_and_ids_for_programs(rota: Programs, queue: Queue) -> None:
    fill(queue)
    found = rota("dead", "ls", queue.name, "--json", "--lane", "!odd")
    (row,) = map(json.loads, found.stdout.splitlines())
    (job,) = [job for job in queue.sync.dead.list() if job.id == "odd"]
    assert row["id"] == "odd"
    assert (row["task"], row["lane"], row["ordering_key"]) == ("[red]t[/]", "!odd", None)
    assert (row["priority"], row["attempts"], row["deaths"]) == (2, 1, 0)
    assert row["error"] == "[bold]first line[/]\nlast line"
    assert row["payload"] == '{"a": 1}'
    assert (row["died_at"], row["worker"]) == (job.died_at, job.worker)
    listed = rota("dead", "ls", queue.name, "--ids", "--task", "t0")
    assert listed.stdout.split() == ["j0", "j3"]
    limited = rota("dead", "ls", queue.name, "--ids", "--limit", 2)
    assert limited.stdout.split() == ["j0", "j1"]


def test_an_empty_list_says_so(rota: Programs, queue: Queue) -> None:
    queue.sync.set(ceiling=100)
    done = rota("dead", "ls", queue.name, "--lane", "x")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no such dead jobs" in done.stderr


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_by_id_by_filter_and_all(rota: Programs, queue: Queue, verb: str) -> None:
    fill(queue)
    yes = ["--yes"] if verb == "discard" else []
    word = "replayed" if verb == "replay" else "discarded"
    done = rota("dead", verb, queue.name, "j0", "j1", *yes)
    assert done.returncode == 0, done.stderr
    assert f"2 {word}" in done.stderr
    assert dead(queue) == {"j2", "j3", "j4", "odd"}
    counted = rota("dead", verb, queue.name, "--lane", "l0", "--dry-run")
    assert f"2 would be {word}" in counted.stderr
    assert dead(queue) == {"j2", "j3", "j4", "odd"}
    filtered = rota("dead", verb, queue.name, "--lane", "l0", "--task", "t2", "--yes")
    assert f"1 {word}" in filtered.stderr
    assert dead(queue) == {"j3", "j4", "odd"}
    rest = rota("dead", verb, queue.name, "--all", "--yes")
    assert f"3 {word}" in rest.stderr
    assert dead(queue) == set()
    info = queue.sync.info()
    assert info.waiting == (6 if verb == "replay" else 0)


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_ids_from_a_pipe_and_unknown_ones(rota: Programs, queue: Queue, verb: str) -> None:
    """`rota dead ls --ids | rota dead replay QUEUE -`; status 1 when one was not there."""
    fill(queue)
    yes = ["--yes"] if verb == "discard" else []
    found = rota("dead", "ls", queue.name, "--ids", "--lane", "l1")
    done = rota("dead", verb, queue.name, "-", *yes, input=found.stdout)
    assert done.returncode == 0, done.stderr
    assert dead(queue) == {"j0", "j2", "j4", "odd"}
    mixed = rota("dead", verb, queue.name, "-", *yes, input="j0\n\nnone\n")
    assert mixed.returncode == 1
    assert "none: not among the dead" in mixed.stderr
    assert dead(queue) == {"j2", "j4", "odd"}


@pytest.mark.parametrize(
    "words",
    [
        ["replay"],
        ["replay", "j0", "--all"],
        ["replay", "--lane", "l0", "--all"],
        ["discard", "--yes"],
        ["discard", "j0", "--task", "t0", "--yes"],
    ],
)
def test_it_must_be_clear_which(rota: Programs, queue: Queue, words: list[str]) -> None:
    fill(queue)
    verb, *rest = words
    done = rota("dead", verb, queue.name, *rest)
    assert done.returncode == 2
    assert "expected ids, or --lane and --task, or --all" in done.stderr
    assert len(dead(queue)) == 6


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (("dead", "discard", "--all"), "Discard all dead jobs for good?"),
        (("dead", "replay", "--lane", "l0"), "Replay all dead jobs of lane l0?"),
        (("worker", "stop", "--all"), "Ask all consumers to stop?"),
    ],
)
def test_what_takes_many_asks_first(
    rota: Programs, queue: Queue, words: tuple[str, ...], question: str
) -> None:
    """In a terminal; where there is none it wants --yes."""
    fill(queue)
    command = (*words[:2], queue.name, *words[2:])

    def untouched() -> bool:
        asked = [one.asked for one in queue.sync.consumers(10)]
        return (len(dead(queue)), asked) == (6, [None])

    with queue.sync.consumer():
        refused = rota(*command, input="y\n")
        assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
        assert untouched()
        for answer in ("n", "y"):
            ours, theirs = pty.openpty()
            process = subprocess.Popen(
                rota._command(command),
                cwd=rota.folder,
                env=rota._environment,
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            os.close(theirs)
            os.write(ours, f"{answer}\n".encode())
            _, said = process.communicate(timeout=PATIENCE)
            os.close(ours)
            where = f"queue {queue.name} on {queue.link.target.display}"
            assert f"{where}: {question}" in said.decode()
            assert (process.returncode == 0) == (answer == "y")
            assert untouched() == (answer == "n")


def test_a_replayed_job_runs(rota: Programs, queue: Queue) -> None:
    """End to end: it fails, is found, the cause is mended, it is put back and done."""
    rota.module(
        """
        @queue.task(max_attempts=1)
        async def work():
            note("runs")
            if not FAST:
                raise ValueError("no FAST in the environment")
        """
    )
    queue.sync.enqueue(JobSpec(task="work", id="x", lane="!o", max_attempts=1, payload=b"{}"))
    assert rota("worker", "app:queue", "--burst").returncode == 0
    assert "no FAST in the environment" in rota("dead", "ls", "app:queue").stdout
    assert rota("dead", "replay", "app:queue", "x").returncode == 0
    assert rota("worker", "app:queue", "--burst", FAST="1").returncode == 0
    assert rota.words() == ["runs", "runs"]
    assert dead(queue) == set()


def test_what_is_wrong_is_said(rota: Programs, queue: Queue) -> None:
    away = rota("dead", "ls", "q", "--url", "redis://127.0.0.1:1")
    assert away.returncode not in (0, 1, 2)
    assert "Traceback" not in away.stderr
    queue.sync.set(ceiling=100)
    assert rota("dead", "ls", queue.name, "--limit", 0).returncode == 2
    assert rota("dead", "replay", queue.name, "!odd").returncode == 2
