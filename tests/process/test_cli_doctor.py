"""`rota doctor`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from rota.queue import Queue
from tests.process.programs import Programs
from tests.support.queues import spec
from tests.support.servers import Server


@pytest.fixture
def kept(rota: Programs, tmp_path: Path) -> str:
    """The URL of a server that keeps what it is told: nothing of it endangers a queue."""
    return f"embedded:{tmp_path / 'kept'}"


def damage(queue: Queue, server: Server) -> None:
    queue.sync.enqueue_many([spec("a"), spec("a")])
    server.raw().delete(queue.link.keys.key("ring"))


def test_a_sound_queue_is_0(rota: Programs, kept: str) -> None:
    with Queue("q", url=kept).sync as sync:
        sync.set(ceiling=1)
    done = rota("doctor", "q", "--url", kept)
    assert (done.returncode, done.stdout) == (0, ""), done
    assert done.stderr.endswith("queue q: sound\n")


def test_findings_are_1_until_they_are_mended(
    rota: Programs, queue: Queue, valkey: Server, kept: str
) -> None:
    damage(queue, valkey)
    found = rota("doctor", queue.name)
    assert found.returncode == 1
    assert found.stdout.splitlines() == [
        "wrong  ring: a is not in the ring, though it may be served",
        "server  appendonly: a restart of the server loses every job: set appendonly yes",
    ]
    assert "1 thing is wrong; --repair mends what it can" in found.stderr
    mended = rota("doctor", queue.name, "--repair")
    assert mended.stdout.splitlines()[0].startswith("mended  ring: a is not in the ring")
    assert "1 mended" in mended.stderr
    assert mended.returncode == 1, "its server forgets everything"
    assert rota("doctor", queue.name).stdout.count("\n") == 1


def test_what_was_not_checked_is_not_called_sound(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    queue.sync.enqueue_many([spec("a")])
    valkey.raw().execute_command("ACL", "SETUSER", "few", "on", ">pw", "~*", "+@all", "-zadd")
    try:
        done = rota("doctor", queue.name, "--url", valkey.url.replace("://", "://few:pw@"))
    finally:
        valkey.raw().execute_command("ACL", "DELUSER", "few")
    assert done.returncode == 1
    assert "not checked: nothing of the queue was checked: its user may not" in done.stderr
    assert f"queue {queue.name}: nothing found in what could be checked" in done.stderr
    assert f"{queue.name}: sound" not in done.stderr


def test_json_for_programs(rota: Programs, queue: Queue, valkey: Server) -> None:
    damage(queue, valkey)
    done = rota("doctor", queue.name, "--json")
    row = json.loads(done.stdout)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 0
    assert row["sound"] is False
    assert row["findings"] == [
        {
            "kind": "ring",
            "subject": "a",
            "what": "is not in the ring, though it may be served",
            "mended": False,
        }
    ]
    assert row["unchecked"] == []
    assert [advice["setting"] for advice in row["advice"]] == ["appendonly"]


def test_names_are_shown_as_they_are(rota: Programs, queue: Queue, valkey: Server) -> None:
    queue.sync.enqueue(spec("[red]\u202eevil[/]"))
    valkey.raw().delete(queue.link.keys.key("ring"))
    done = rota("doctor", queue.name)
    assert "wrong  ring: [red]\\u202eevil[/] is not" in done.stdout


def test_a_bar_on_a_terminal(rota: Programs, queue: Queue) -> None:
    queue.sync.set(ceiling=1)
    leader, follower = pty.openpty()
    done = subprocess.run(
        rota._command(("doctor", queue.name)),
        env=rota._environment | {"TERM": "xterm", "COLUMNS": "100"},
        stderr=follower,
        stdout=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert done.returncode == 1
    assert "sound" in shown
    assert "\x1b[" in shown


def test_a_server_that_is_not_there_is_3(rota: Programs) -> None:
    done = rota("doctor", "q", "--url", "redis://127.0.0.1:1")
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr


def test_a_wrong_name_is_2(rota: Programs) -> None:
    assert rota("doctor", "a{b").returncode == 2
