"""`rota queue`: the queues of a server as a whole, for people and for programs."""

from __future__ import annotations

import re
import time

import pytest

from rota.queue import Queue
from rota.values.jobspec import JobSpec
from tests.process.conftest import Here
from tests.process.programs import Programs
from tests.process.schemas import QueueRow, rows
from tests.support.servers import Server


def fill(queue: Queue) -> None:
    specs = [JobSpec(task="t", lane=lane) for lane in ("a", "a", "[red]b[/]")]
    queue.sync.enqueue_many([*specs, JobSpec(task="t", lane="later", delay_ms=60_000)])


def test_the_queues_of_a_server(here: Here, queue: Queue, valkey: Server) -> None:
    assert here("queue", "ls")[:2] == (0, "")
    fill(queue)
    odd = Queue("[red] ☃", url=valkey.url)
    other = Queue(queue.name, url=valkey.url, prefix="own")
    for one in (odd, other):
        one.sync.enqueue(JobSpec(task="t"))
        one.sync.close()
    code, out, err = here("queue", "ls")
    head, *lines = out.splitlines()
    assert (code, err, head.split()[:3]) == (0, "", ["queue", "waiting", "running"])
    assert len(lines) == 3
    assert all(line.endswith("no worker") for line in lines)
    assert any(line.startswith("[red] ☃ ") for line in lines)
    code, out, err = here("queue", "ls", "--json")
    found = {(row.prefix, row.queue): row for row in rows(out, QueueRow)}
    assert found.keys() == {("emq", queue.name), ("emq", "[red] ☃"), ("own", queue.name)}
    assert found["emq", queue.name].waiting == 3
    code, out, err = here("queue", "ls", "--url", "unix:///nowhere/socket")
    assert (code, out, "nowhere" in err) == (3, "", True)


def test_one_queue_and_its_pause(here: Here, queue: Queue) -> None:
    fill(queue)
    code, out, err = here("queue", "show", queue.name)
    assert (code, err) == (0, "")
    facts = {" ".join(line.split()[:-1]): line.split()[-1] for line in out.splitlines()}
    assert facts["state no"] == "worker"
    assert facts["waiting 3 in 2"] == "lanes"
    assert facts["enqueued"] == "4"

    words = ("--reason", "[b]abuse[/b]", "--by", "öps")
    assert here("queue", "pause", queue.name, "--for", "1h30m", *words)[0] == 0
    (row,) = rows(here("queue", "show", queue.name, "--json")[1], QueueRow)
    assert (row.paused, row.pause_reason, row.paused_by) == (True, "[b]abuse[/b]", "öps")
    assert row.paused_until == pytest.approx(time.time() + 5400, abs=60)
    out = here("queue", "show", queue.name)[1]
    assert "[b]abuse[/b]" in out
    assert re.search(r"paused until .* \(in 1h (29|30)m\)", out)

    assert here("queue", "pause", queue.name, "--until", "2199-01-01T00:00Z")[0] == 0
    assert queue.sync.info().paused_until == 7226582400
    assert "is resumed" in here("queue", "resume", queue.name)[2]
    assert "was not paused" in here("queue", "resume", queue.name)[2]
    for given, text in [
        (("--for", "soon"), "--for: expected a time"),
        (("--for", ""), "--for: expected a time"),
        (("--until", "2199-01-01T00:00"), "time zone"),
        (("--until", "tomorrow"), "--until: expected a time"),
        (("--for", "5", "--until", "2199-01-01T00:00Z"), "given both"),
    ]:
        code, out, err = here("queue", "pause", queue.name, *given)
        assert (code, out, text in err) == (2, "", True), (given, err)
    assert not queue.sync.info().paused


def test_purging_counts_asks_and_purges(rota: Programs, here: Here, queue: Queue) -> None:
    fill(queue)
    code, out, err = here("queue", "purge", queue.name, "--dry-run")
    assert (code, out, err) == (0, "", "4 would be purged\n")
    refused = rota("queue", "purge", queue.name, input="y\n")
    assert (refused.returncode, refused.stdout, "--yes" in refused.stderr) == (2, "", True)
    assert queue.sync.info().waiting == 3
    assert here("queue", "purge", queue.name, "--yes") == (0, "", "4 purged\n")
    info = queue.sync.info()
    assert (info.waiting, info.delayed) == (0, 0)
