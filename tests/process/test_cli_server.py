"""Which server and queue a command works on: it makes up neither."""

from __future__ import annotations

import json

import pytest

from rota.embedded import running
from rota.queue import Queue
from rota.values.jobspec import JobSpec
from tests.process.conftest import Here
from tests.process.programs import Programs
from tests.process.test_cli_rules import COMMANDS
from tests.support.times import PATIENCE
from tests.support.waiting import eventually

STARTS = {("worker",), ("dev",), ("demo",), ("enqueue",)}
"""What works, or brings work, may start an embedded server."""
SETS = {("queue", "pause"), ("lane", "set"), ("lane", "pause"), ("lane", "block")}
"""What may be said of a queue before there is anything of it."""
ASKS_ANYWAY = {("queue", "ls"), ("web",), ("check",), ("doctor",)}
"""What looks at a server first, or may be started before its queue."""
VALUES = {"name": "q", "queue": "q", "queues": "q", "time": "1h", "to": "b"}


def words(path: tuple[str, ...], queue: str = "q") -> list[str]:
    """The command with everything it needs, and told not to ask."""
    params = COMMANDS[path].params
    needed = [p.name for p in params if p.param_type_name == "argument" and p.required]
    arguments = [VALUES.get(name, "a") for name in needed]
    flags = {name for p in params for name in p.opts}
    extra = [name for name in ("--yes", "--once") if name in flags]
    match path:
        case ("lane", "set"):
            extra += ["--ceiling", "1"]
        case ("dead", "replay" | "discard") | ("worker", "quiet" | "stop"):
            extra += ["--all"]
        case ("job", "ls"):
            extra += ["--lane", "a"]
    return [*path, *(queue if word == "q" else word for word in arguments), *extra]


# ── servers ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - STARTS), ids=" ".join)
def test_looking_starts_no_server(
    here: Here, rota: Programs, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.delenv("ROTA_URL")
    (rota.folder / "empty").mkdir()
    rota.write("shop.py", "import rota\nqueue = rota.Queue('q')\n")
    queues = ["q"] if path == ("queue", "ls") else ["q", "shop:queue"]
    for queue in queues:
        for url, place in (
            ([], rota.folder / ".rota"),
            (["--url", "embedded:empty"], rota.folder / "empty"),
            (["--url", "embedded:nosuch"], rota.folder / "nosuch"),
        ):
            code, out, err = here(*words(path, queue), *url)
            assert (code, out) == (2, ""), (queue, url, err)
            assert f"none has run in {place}\n" in err
            assert "--url or ROTA_URL" in err
            assert "using an embedded" not in err
    assert sorted(p.name for p in rota.folder.iterdir() if p.suffix != ".py") == ["empty"]
    assert not any((rota.folder / "empty").iterdir())


def test_a_server_that_is_here_is_looked_at(
    here: Here, rota: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that another terminal runs, and, when that has ended, what it has kept."""
    monkeypatch.delenv("ROTA_URL")
    rota.write("shop.py", "import rota\nqueue = rota.Queue('q')\n")
    rota.write("one.jsonl", '{"lane": "t7"}\n')
    place = rota.folder / ".rota"
    with Queue("q", url=f"embedded:{place}").sync as sync:
        sync.enqueue(JobSpec(task="t", lane="t7"))
        for target in ("q", "shop:queue"):
            code, out, _ = here("lane", "ls", target)
            assert (code, out.splitlines()[1].split()[:2]) == (0, ["t7", "1"])
    eventually(lambda: not running(place), "it ends with its last user", timeout=PATIENCE)
    code, out, err = here("queue", "ls", "--json")
    assert code == 0, err
    assert json.loads(out)["waiting"] == 1
    code, out, _ = here("check", "q")
    assert (code, "workers: 1 jobs wait, 0 consumers" in out) == (1, True)
    assert here("queue", "purge", "q", "--yes")[0] == 0
    eventually(lambda: not running(place), "it ends again", timeout=PATIENCE)


def test_enqueueing_starts_a_server(rota: Programs) -> None:
    rota.write("one.jsonl", '{"lane": "t7"}\n')
    done = rota("enqueue", "q", "t", "one.jsonl", ROTA_URL="")
    assert (done.returncode, done.stdout[:9]) == (0, "1 created"), done.stderr
    found = rota("queue", "show", "q", "--json", ROTA_URL="")
    assert (found.returncode, json.loads(found.stdout)["waiting"]) == (0, 1), found.stderr


# ── queues ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - STARTS - ASKS_ANYWAY), ids=" ".join)
def test_a_queue_that_is_not_there_is_not_empty(
    here: Here, queue: Queue, path: tuple[str, ...]
) -> None:
    code, out, err = here(*words(path, queue.name))
    absent = f"no such queue: nothing of {queue.name} is on {queue.link.target.display}"
    if path in SETS:
        assert (code, absent in err) == (0, False)
    else:
        assert (code, err) == (1, f"rota: {absent}\n")
        assert not out or path == ("metrics",), "its figures are told as what they are"
    assert bool(queue.link.run_sync(queue.link.inspector.exists())) == (path in SETS)


@pytest.mark.parametrize("by", ["a job", "a worker", "a limit", "a pause", "a template"])
def test_a_queue_is_there_by_anything_of_it(here: Here, queue: Queue, by: str) -> None:
    """Also for a probe of a worker that waits for its first job."""
    sync = queue.sync
    match by:
        case "a job":
            sync.enqueue(JobSpec(task="t", delay_ms=3_600_000))
        case "a limit":
            sync.lane("a").set(ceiling=1)
        case "a pause":
            sync.lane("a").pause()
        case "a template":
            sync.set_template("pro", ceiling=2)
    if by == "a worker":
        with sync.consumer():
            assert here("check", queue.name)[0] == 0
            assert here("queue", "show", queue.name)[0] == 0
    else:
        assert here("check", queue.name)[0] == 0
        assert here("queue", "show", queue.name)[0] == 0


def test_code_that_declares_a_ceiling_makes_no_queue_by_being_looked_at(
    here: Here, rota: Programs, queue: Queue
) -> None:
    rota.write("shop.py", f"import rota\nqueue = rota.Queue({queue.name!r}, default_ceiling=3)\n")
    for command in (("queue", "show"), ("check",), ("doctor",)):
        assert here(*command, "shop:queue")[0] == 1
    assert not queue.link.run_sync(queue.link.inspector.exists())
