"""`rota job` and `rota sequence`: jobs, one or many, in their order."""

from __future__ import annotations

import json

import pytest

from rota.queue import Queue
from rota.values.jobspec import JobSpec
from tests.process.conftest import Here
from tests.process.programs import Programs
from tests.process.schemas import JobRow, SequenceRow, rows

ODD = "[red] ☃ 'x' \"y\""


def fill(queue: Queue) -> None:
    """Waiting w0…w4 of lane a and an odd one, delayed d0 d1, dead x0."""
    specs = [JobSpec(task="t", lane="a", id=f"w{n}") for n in range(5)]
    specs += [JobSpec(task=ODD, lane=ODD, id=ODD, ordering_key=ODD, payload=b'{"a": "\xff"}')]
    specs += [JobSpec(task="t", lane="a", id=f"d{n}", delay_ms=60_000) for n in range(2)]
    queue.sync.enqueue(JobSpec(task="t", lane="x", id="x0"))
    with queue.sync.consumer() as consumer:
        consumer.bury(consumer.claim(), "[bold]one[/]\x1b[31m\ntwo")
    queue.sync.enqueue_many(specs)


def test_lists_by_state(here: Here, queue: Queue) -> None:
    fill(queue)
    code, out, err = here("job", "ls", queue.name, "--lane", "a", "--ids")
    assert (code, out.split(), err) == (0, [f"w{n}" for n in range(5)], "")
    code, out, err = here("job", "ls", queue.name, "--lane", "a", "--limit", 2)
    head, *lines = out.splitlines()
    assert (code, head.split()[:3], [line.split()[0] for line in lines]) == (
        0, ["id", "task", "lane"], ["w0", "w1"],
    )  # fmt: skip
    assert "the first 2 jobs" in err
    (odd,) = rows(here("job", "ls", queue.name, "--lane", ODD, "--json")[1], JobRow)
    assert (odd.id, odd.task, odd.ordering_key, odd.state) == (ODD, ODD, ODD, "waiting")
    delayed = rows(here("job", "ls", queue.name, "--state", "delayed", "--json")[1], JobRow)
    assert {row.id for row in delayed} == {"d0", "d1"}
    code, out, err = here("job", "ls", queue.name, "--state", "dead")
    assert "[bold]one[/]\\x1b[31m" in out
    with queue.sync.consumer() as consumer:
        held = consumer.claim(2)
        running = rows(here("job", "ls", queue.name, "--json")[1], JobRow)
        assert {row.id for row in running} == {job.id for job in held}
        assert all(row.worker for row in running)
    assert here("job", "ls", queue.name)[:2] == (0, "")
    code, out, err = here("job", "ls", queue.name, "--state", "waiting")
    assert (code, out, "told by --lane" in err) == (2, "", True)
    assert here("job", "ls", queue.name, "--state", "done")[0] == 2


def test_one_job(here: Here, queue: Queue) -> None:
    fill(queue)
    code, out, err = here("job", "show", queue.name, ODD)
    facts = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (code, err) == (0, "")
    assert (facts["id"], facts["key"], facts["state"]) == (ODD, ODD, "waiting")
    code, out, err = here("job", "show", queue.name, "x0")
    assert "[bold]one[/]" in out
    assert "\x1b" not in out
    (row,) = rows(here("job", "show", queue.name, "x0", "--json")[1], JobRow)
    assert (row.state, row.attempts, (row.error or "")[-4:]) == ("dead", 1, "\ntwo")
    code, out, err = here("job", "show", queue.name, "none")
    assert (code, out, "no job none" in err) == (1, "", True)


@pytest.mark.parametrize(
    "verb", [("job", "retry"), ("job", "cancel"), ("dead", "replay"), ("dead", "discard")]
)
def test_a_dry_run_says_of_each_id_what_the_run_says(
    here: Here, queue: Queue, verb: tuple[str, str]
) -> None:
    queue.sync.enqueue_many([JobSpec(task="t", id="dead"), JobSpec(task="t", id="runs")])
    with queue.sync.consumer() as consumer:
        consumer.bury(consumer.claim(1), "boom")
        held = consumer.claim(1)
        queue.sync.enqueue(JobSpec(task="t", id="waits"))
        queue.sync.enqueue(JobSpec(task="t", id="late", delay_ms=60_000))
        words = (*verb, queue.name, "dead", "runs", "waits", "late", "nosuch")
        dry_code, _, dry = here(*words, "--dry-run")
        code, _, err = here(*words, *(["--yes"] if verb != ("job", "retry") else []))
        consumer.release(held)
    assert (code, dry.replace("would be ", "")) == (1, err)
    assert dry_code == code


def test_retry_and_cancel(rota: Programs, here: Here, queue: Queue) -> None:
    fill(queue)
    code, out, err = here("job", "retry", queue.name, "x0", "d0", "w0", "--dry-run")
    assert (code, out) == (0, "")
    assert err == "w0: it waits for its turn already\n2 would be retried\n"
    listed = here("job", "ls", queue.name, "--state", "delayed", "--ids")[1]
    done = rota("job", "retry", queue.name, "-", input=f"{listed}x0\nw0\n")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == ["w0: it waits for its turn already", "3 retried"]
    assert queue.sync.lane("a").info().waiting == 7
    code, out, err = here("job", "retry", queue.name, "none", "d0")
    assert (code, "none: there is no such job" in err) == (1, True)

    ids = ("w0", "w1", ODD)
    code, out, err = here("job", "cancel", queue.name, *ids, "--dry-run")
    assert (code, out, err) == (0, "", "3 would be deleted, 0 asked to stop\n")
    code, out, err = here("job", "cancel", queue.name, *ids)
    assert (code, out, "--yes" in err) == (2, "", True)
    assert queue.sync.info().waiting == 9
    code, out, err = here("job", "cancel", queue.name, *ids, "--yes", "--by", "me")
    assert (code, out, err) == (0, "", "3 deleted, 0 asked to stop\n")
    code, out, err = here("job", "cancel", queue.name, "w0", "w2", "--yes")
    assert (code, "w0: there is no such job" in err, "1 deleted" in err) == (1, True, True)


def test_watching_a_job_to_its_end(rota: Programs, here: Here, queue: Queue) -> None:
    queue.sync.enqueue(JobSpec(task="t", id="j"))
    watching = rota.start("job", "watch", queue.name, "j", "--interval", "50ms", "--json")
    assert watching.process.stdout is not None
    states = [json.loads(watching.process.stdout.readline())["state"]]
    with queue.sync.consumer() as consumer:
        held = consumer.claim()
        states.append(json.loads(watching.process.stdout.readline())["state"])
        consumer.retry(held, delay=60, error="broke")
        states.append(json.loads(watching.process.stdout.readline())["state"])
        assert queue.sync.job("j").retry() == "ok"
        consumer.complete(consumer.claim())
    rest = [json.loads(line)["state"] for line in watching.process.stdout]
    assert (watching.wait(), states, rest[-1]) == (0, ["waiting", "running", "delayed"], "done")

    queue.sync.enqueue(JobSpec(task="t", id="k"))
    code, out, err = here(
        "job", "watch", queue.name, "k", "--interval", "50ms", "--timeout", "150ms"
    )
    assert (code, out, "still waiting" in err) == (1, "waiting\n", True)
    with queue.sync.consumer() as consumer:
        consumer.bury(consumer.claim(), "no")
    code, out, err = here("job", "watch", queue.name, "k")
    assert (code, out) == (1, "dead, 1 failed attempts: no\n")
    assert here("job", "watch", queue.name, "none")[:2] == (1, "")


# ── sequences ───────────────────────────────────────────────────────────────────────────────────


def test_sequences_and_what_stops_them(here: Here, queue: Queue) -> None:
    jobs = [JobSpec(task="t", lane=ODD, ordering_key=ODD, id=f"s{n}") for n in range(3)]
    jobs += [JobSpec(task="t", lane="!o", id=f"o{n}", on_dead="hold") for n in range(2)]
    jobs += [JobSpec(task="t", lane="free", ordering_key="k", id="f0")]
    queue.sync.enqueue_many(jobs)
    with queue.sync.consumer() as consumer:
        held = {job.id: job for job in consumer.claim(3)}
        consumer.bury(held["o0"], "first\nlast [b]")
        consumer.release(held["f0"])
        found = {
            row.lane: row
            for row in rows(here("sequence", "ls", queue.name, "--json")[1], SequenceRow)
        }
        assert {lane: row.state for lane, row in found.items()} == {
            ODD: "held", "!o": "blocked", "free": "ready",
        }  # fmt: skip
        assert (found[ODD].jobs_held, found[ODD].waiting) == (["s0"], 2)
        assert (found["!o"].head, found["!o"].head_dead) == ("o0", True)
        code, out, err = here("sequence", "ls", queue.name, "--limit", 2)
        assert (code, len(out.splitlines()), "the first 2" in err) == (0, 3, True)
        assert ODD in here("sequence", "ls", queue.name, "--lane", ODD)[1]
        consumer.retry(held["s0"], delay=60, error="broke")
    code, out, err = here("sequence", "show", queue.name, ODD, ODD)
    facts = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (code, facts["state"], facts["head"], facts["reason"]) == (0, "blocked", "s0", "broke")
    assert "rota sequence skip" in err
    (row,) = rows(here("sequence", "show", queue.name, "!o", "--json")[1], SequenceRow)
    assert row == found["!o"]

    code, out, err = here("sequence", "skip", queue.name, ODD, ODD, "--dry-run")
    assert (code, out, err.startswith("s0 would be skipped")) == (0, "", True)
    code, out, err = here("sequence", "skip", queue.name, ODD, ODD)
    assert (code, out, "--yes" in err) == (2, "", True)
    assert here("sequence", "skip", queue.name, ODD, ODD, "--yes", "--by", "me") == (0, "s0\n", "")
    assert here("sequence", "skip", queue.name, "!o", "--yes") == (0, "o0\n", "")
    for words in ((ODD, ODD), ("!o",)):
        code, out, err = here("sequence", "skip", queue.name, *words, "--yes")
        assert (code, out, "nothing stops" in err) == (1, "", True)
    with queue.sync.consumer() as consumer:
        assert {job.id for job in consumer.claim(9)} == {"s1", "o1", "f0"}
    assert here("sequence", "show", queue.name, "none", "k")[0] == 1
    assert here("sequence", "show", queue.name, "none")[0] == 2
    assert here("sequence", "ls", queue.name, "--lane", "none")[:2] == (0, "")


@pytest.mark.parametrize(
    "words", [("job", "ls"), ("sequence", "ls"), ("lane", "ls"), ("worker", "ls")]
)
def test_limits_are_checked(here: Here, queue: Queue, words: tuple[str, str]) -> None:
    queue.sync.set(ceiling=100)
    code, out, err = here(*words, queue.name, "--limit", 0)
    assert (code, out, "--limit: expected" in err) == (2, "", True)
