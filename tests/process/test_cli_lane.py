"""`rota lane ls`: the lanes of a queue, for people and for programs."""

from __future__ import annotations

import json
import os
import pty
import subprocess

from rota.queue import Queue
from rota.values.jobspec import JobSpec
from rota.values.limits import Rate
from rota.values.timing import duration
from tests.process.conftest import Here
from tests.process.programs import Programs
from tests.support.times import PATIENCE


def fill(queue: Queue) -> None:
    specs = [JobSpec(task="t", lane=lane) for lane in ("busy",) * 5 + ("quiet", "[red]odd[/]")]
    specs += [JobSpec(task="t", lane="later", delay_ms=60_000)]
    specs += [JobSpec(task="t", lane=lane) for lane in ("full", "full", "off", "out")]
    queue.sync.enqueue_many(specs)
    queue.sync.lane("full").set(ceiling=1)
    queue.sync.lane("later").set(ceiling=5)
    queue.sync.lane("off").pause(reason="abuse")
    queue.sync.lane("out").block(60)


def test_shows_waiting_running_ceiling_wait_and_state(rota: Programs, queue: Queue) -> None:
    fill(queue)
    with queue.sync.consumer() as consumer:
        lanes = {job.lane for job in consumer.claim(4)}
        assert "full" in lanes
        done = rota("lane", "ls", queue.name)
        found = rota("lane", "ls", queue.name, "--json")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["lane", "waiting", "delayed", "running", "oldest", "wait", "state"]
    cells = {row.split()[0]: row.split()[1:] for row in rows}
    waiting = [int(row[0]) for row in cells.values()]
    assert waiting == sorted(waiting, reverse=True)
    assert cells["full"][:3] == ["1", "0", "1/1"]
    assert cells["full"][4:] == ["at", "ceiling"]
    assert cells["busy"][2] == "1/-"
    assert cells["off"][-1] == "paused"
    assert cells["out"][-1] == "blocked"
    assert cells["later"] == ["0", "1", "0/5", "-", "idle"]
    assert "[red]odd[/]" in cells

    objects = {row["lane"]: row for row in map(json.loads, found.stdout.splitlines())}
    assert objects.keys() == cells.keys()
    full = objects["full"]
    assert (full["waiting"], full["running"], full["ceiling"]) == (1, 1, 1)
    assert full["state"] == "at ceiling"
    assert full["oldest_wait"] >= 0
    assert objects["off"]["paused"] is True
    assert objects["out"]["blocked_until"] > 0
    assert objects["later"]["oldest_wait"] is None


def test_a_queue_of_a_module_a_limit_and_a_pause(rota: Programs, queue: Queue) -> None:
    rota.module("")
    queue.sync.enqueue_many(JobSpec(task="t", lane=f"lane{n}") for n in range(30))
    queue.sync.pause()
    done = rota("lane", "ls", "app:queue", "--limit", 10)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 11
    assert "the first 10 lanes" in done.stderr
    assert "is paused" in done.stderr


def test_the_highest_of_all_lanes(here: Here, queue: Queue) -> None:
    fill(queue)
    queue.sync.lane("rated").set(rate=Rate(5), template=None)
    code, out, err = here("lane", "ls", queue.name, "--by", "waiting", "--limit", 2)
    assert (code, [row.split()[0] for row in out.splitlines()]) == (0, ["lane", "busy", "full"])
    assert "the first 2 lanes by waiting" in err
    code, out, err = here("lane", "ls", queue.name, "--by", "oldest_wait", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["lane"]: row["rate"] for row in rows}["rated"] == {"n": 5, "per": 1, "burst": 1}
    waits = [row["oldest_wait"] or 0 for row in rows]
    assert (code, waits) == (0, sorted(waits, reverse=True))


def test_shares_received_and_due(here: Here, queue: Queue) -> None:
    queue.sync.set(ceiling=100)
    code, out, err = here("lane", "ls", queue.name, "--by", "behind")
    assert (code, out) == (0, "")
    assert err.startswith("fairness index none yet")
    fill(queue)
    with queue.sync.consumer() as consumer:
        consumer.complete(consumer.claim(2))
    code, out, err = here("lane", "ls", queue.name, "--by", "behind")
    head, *rows = out.splitlines()
    assert head.split()[:3] == ["lane", "share", "due"]
    shares = {row.split()[0]: row.split()[1] for row in rows}
    assert (code, sorted(shares.values())) == (0, ["0.00%", "0.00%", "50.00%", "50.00%"])
    assert "4 lanes" in err
    code, out, err = here("lane", "ls", queue.name, "--by", "behind", "--json", "--limit", 3)
    found = [json.loads(line) for line in out.splitlines()]
    assert (code, err, len(found)) == (0, "", 3)
    assert {"name", "received", "due", "ratio", "behind", "state"} <= found[0].keys()
    code, out, err = here("lane", "ls", queue.name, "--by", "size")
    assert (code, out, "oldest_wait" in err) == (2, "", True)


def test_an_empty_queue_and_errors(here: Here, queue: Queue) -> None:
    queue.sync.set(ceiling=100)
    code, out, err = here("lane", "ls", queue.name)
    assert (code, out) == (0, "")
    assert "has no lanes" in err
    assert here("lane", "ls", queue.name, "--json") == (0, "", "")
    for words, text in [
        (("bad{}",), "queue: expected"),
        (("nosuch:queue",), "module 'nosuch' not found"),
        ((queue.name, "--limit", 0), "--limit: expected"),
        ((), "Missing argument 'QUEUE'"),
    ]:
        code, out, err = here("lane", "ls", *words)
        assert (code, out, text in err) == (2, "", True), (words, err)
    code, out, err = here("lane", "ls", queue.name, "--url", "unix:///nowhere/socket")
    assert (code, out) == (3, "")
    assert "/nowhere/socket" in err


def test_a_terminal_gets_a_table_without_colours_if_so_wished(rota: Programs, queue: Queue) -> None:
    fill(queue)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        rota._command(("lane", "ls", queue.name)),
        cwd=rota.folder,
        env={**rota._environment, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert b"[red]odd[/]" in shown
    assert b"busy" in shown
    assert b"\x1b[3" not in shown


def test_durations_read_well() -> None:
    expected = {0: "0.0s", 9.94: "9.9s", 12.4: "12s", 59.7: "1m 0s", 200: "3m 20s",
                3600: "1h 0m", 86_399: "23h 59m", 90_000: "1d 1h"}  # fmt: skip
    assert {seconds: duration(seconds) for seconds in expected} == expected
