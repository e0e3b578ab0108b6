"""`rota worker ls`, `quiet` and `stop`; `rota check`; `rota top`."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time

import pytest

from rota.queue import Queue
from rota.values.jobspec import JobSpec
from tests.process.conftest import Here
from tests.process.programs import Programs
from tests.process.schemas import CheckRow, ConsumerRow, LaneRow, rows
from tests.support.servers import Server
from tests.support.times import PATIENCE
from tests.support.waiting import eventually

MODULE = """
    @queue.task
    async def t(): note("ran")
"""


def consumers(here: Here, queue: Queue) -> list[ConsumerRow]:
    return rows(here("worker", "ls", queue.name, "--json")[1], ConsumerRow)


def test_workers_are_shown_quietened_and_stopped(rota: Programs, here: Here, queue: Queue) -> None:
    assert here("worker", "ls", queue.name)[:2] == (1, "")
    rota.module(MODULE)
    worker = rota.worker("--lease", 3)
    (one,) = consumers(here, queue)
    assert one.name.endswith(f":{worker.pid}")
    assert (one.held, one.asked) == (0, None)
    code, out, err = here("worker", "quiet", queue.name, one.name, "--dry-run")
    assert (code, out, err) == (0, "", "1 would be asked to be quiet\n")
    assert consumers(here, queue)[0].asked is None
    assert here("worker", "quiet", queue.name, one.name) == (0, "", "1 asked to be quiet\n")
    worker.says("asked to be quiet")
    queue.sync.enqueue(JobSpec(task="t", payload=b"{}"))
    table = here("worker", "ls", queue.name)[1].splitlines()
    assert table[1].split()[-1] == "quiet"
    code, out, err = here("worker", "stop", queue.name, "nobody", one.id)
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f"nobody: queue {queue.name} has no such consumer",
        "1 asked to stop",
    ]
    worker.says("asked to stop")
    assert worker.wait() == 0
    assert rota.words() == []
    assert queue.sync.info().waiting == 1
    assert here("worker", "stop", queue.name, "--all", "--yes") == (0, "", "0 asked to stop\n")
    for words in ((), ("x", "--all")):
        code, out, err = here("worker", "stop", queue.name, *words)
        assert (code, out, "expected consumers, or --all" in err) == (2, "", True)


# ── check ───────────────────────────────────────────────────────────────────────────────────────


def test_check_says_whether_all_is_well(here: Here, queue: Queue, valkey: Server) -> None:
    queue.sync.set(ceiling=100)
    code, out, err = here("check", queue.name)
    assert (code, out.splitlines()[0], err) == (0, f"{queue.name}: healthy", "")
    queue.sync.enqueue(JobSpec(task="t"))
    code, out, err = here("check", queue.name, "none", "--json")
    found = {row.queue: row for row in rows(out, CheckRow)}
    assert (code, found["none"].healthy, found[queue.name].healthy) == (1, False, False)
    bad = [one.name for one in found[queue.name].checks if not one.ok]
    assert bad == [f"{queue.name}: workers"]
    queue.sync.pause()
    assert here("check", queue.name)[0] == 0
    queue.sync.resume()
    with queue.sync.consumer() as consumer:
        code, out, err = here("check", queue.name)
        assert (code, "BAD  doorbell" in out) == (1, True), "it is there and does not come"
        held = consumer.claim()
        assert here("check", queue.name)[0] == 0
        consumer.complete(held)
        raw, key = valkey.raw(), queue.link.keys.key
        raw.hset(key("config"), "beat", str(round((time.time() - 100) * 1000)))
        assert "BAD  beat" in here("check", queue.name)[1]
        raw.hset(key("config"), "beat", str(round(time.time() * 1000)))
        raw.zadd(key("scheduled"), {"x": (time.time() - 100) * 1000})
        assert "BAD  due" in here("check", queue.name)[1]
        raw.delete(key("scheduled"))
    code, out, err = here("check", queue.name, "--url", "unix:///nowhere/socket")
    assert (code, "BAD  server" in out) == (1, True)
    assert here("check", "bad{}")[0] == 2


def test_what_fell_due_long_ago_is_work_without_a_worker(
    here: Here, queue: Queue, valkey: Server
) -> None:
    queue.sync.enqueue(JobSpec(task="t", delay_ms=3_600_000))
    assert here("check", queue.name)[0] == 0
    scheduled = queue.link.keys.key("scheduled")
    raw = valkey.raw()
    for member in raw.zrange(scheduled, 0, -1):
        raw.zadd(scheduled, {member: (time.time() - 100) * 1000})
    code, out, _ = here("check", queue.name)
    assert (code, "BAD  due: what fell due 1" in out) == (1, True)
    queue.sync.pause()
    assert here("check", queue.name)[0] == 0, "as jobs that wait in a paused queue"


# ── top ─────────────────────────────────────────────────────────────────────────────────────────


def fill(queue: Queue, lanes: int) -> None:
    odd = ["[red]odd[/]"] * 3
    names = [*odd, *(f"lane{n:05d}" for n in range(lanes))]
    queue.sync.enqueue_many(JobSpec(task="t", lane=name) for name in names)


def test_top_once_is_for_pipes_too(here: Here, queue: Queue) -> None:
    fill(queue, 30)
    code, out, err = here("top", queue.name, "--once", "--by", "waiting", "--limit", 5)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert "NO WORKER" in lines[0]
    assert "33 waiting" in lines[1]
    assert lines[2] == "31 lanes: 31 ready"
    assert lines[5].split()[:2] == ["[red]odd[/]", "3"]
    assert len([line for line in lines if "lane0" in line]) == 4
    code, out, err = here("top", queue.name, "--once", "--json")
    assert len(rows(out, LaneRow)) == 20
    with queue.sync.consumer() as consumer:
        consumer.claim(2)
        out = here("top", queue.name, "--once", "--by", "running")[1]
        assert consumer._deliveries.id not in out
        assert f":{os.getpid()}  1          2" in out
    assert here("top", queue.name, "--once", "--interval", "often")[0] == 2


@pytest.mark.parametrize("end", ["q", "SIGINT"])
def test_top_lives_on_a_screen_of_its_own(rota: Programs, queue: Queue, end: str) -> None:
    """Until q or Ctrl-C; then the terminal is as it was."""
    fill(queue, 10)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        rota._command(("top", queue.name, "--interval", "200ms", "--by", "waiting")),
        cwd=rota.folder,
        env={**rota._environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(theirs)
    shown = bytearray()

    def shows(text: bytes) -> bool:
        if select.select([ours], [], [], 0.05)[0]:
            shown.extend(os.read(ours, 65536))
        return text in shown

    try:
        eventually(lambda: shows(b"13 waiting"), "it shows nothing", timeout=PATIENCE)
        assert b"\x1b[?1049h" in shown
        eventually(lambda: shows(b"[red]odd[/]"), "names are markup", timeout=PATIENCE)
        queue.sync.enqueue(JobSpec(task="t", lane="new"))
        eventually(lambda: shows(b"14 waiting"), "it stands still", timeout=PATIENCE)
        if end == "q":
            os.write(ours, b"xq")
        else:
            process.send_signal(signal.SIGINT)
        eventually(lambda: shows(b"\x1b[?1049l"), "the screen stays", timeout=PATIENCE)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
        if process.stderr is not None:
            process.stderr.close()
        os.close(ours)


def test_a_hundred_thousand_lanes(here: Here, queue: Queue) -> None:
    fill(queue, 100_000)
    for words in (("lane", "ls", queue.name), ("top", queue.name, "--once")):
        began = time.monotonic()
        code, out, err = here(*words)
        assert (code, "rota:" in err) == (0, False)
        assert len(out.splitlines()) > 20
        assert time.monotonic() - began < 30, "on a machine that does much else"
    assert "100,001 lanes: 100,001 ready" in out
