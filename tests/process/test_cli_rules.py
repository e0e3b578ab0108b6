"""What holds for every command: variables, completion, colours, help, exit codes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from rota.queue import Queue
from rota.values.jobspec import JobSpec
from tests.process.conftest import Here
from tests.process.programs import COMMAND, Programs
from tests.support.times import PATIENCE

SETTINGS = {
    "worker": {
        "concurrency", "processes", "lease", "grace", "prefetch", "burst", "metrics-port",
        "metrics-host", "log-format", "log-level",
    },
    "dev": {"host", "port", "concurrency", "trusted-host"},
    "web": {
        "host", "port", "read-only", "root-path", "access-log", "trusted-host", "trusted-proxy",
    },
    "metrics": {"host", "port", "top"},
}  # fmt: skip
"""The options of what is started and stays, which a service's environment may set."""


def commands(
    group: Any = COMMAND, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    if group is COMMAND:
        yield from commands(COMMAND.steering, ("worker",))
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())


def test_the_verbs_are_these() -> None:
    ours = {
        "queue": {"ls", "show", "pause", "resume", "purge"},
        "lane": {
            "ls", "show", "set", "pause", "resume", "block", "unblock", "move", "cancel", "explain",
        },
        "sequence": {"ls", "show", "skip"},
        "job": {"ls", "show", "retry", "cancel", "watch", "explain"},
        "dead": {"ls", "replay", "discard"},
        "worker": {"ls", "quiet", "stop"},
    }  # fmt: skip
    found: dict[str, set[str]] = {}
    for path in COMMANDS:
        if len(path) == 2:
            found.setdefault(path[0], set()).add(path[1])
    assert found == ours
    assert {("worker",), ("check",), ("top",), ("doctor",), ("enqueue",)} <= COMMANDS.keys()


def long_name(option: Any) -> str:
    return str(max(option.opts, key=len)).removeprefix("--")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_only_settings_have_variables(path: tuple[str, ...]) -> None:
    """None of what is done, or to what: a variable left in a shell would arm a later command."""
    given = {long_name(option): option.envvar for option in COMMANDS[path].params if option.envvar}
    if given.get("by") is not None:
        assert given.pop("by") == "ROTA_BY"
    assert given.keys() == (SETTINGS.get(path[0], set()) if len(path) == 1 else set())
    for name, variable in given.items():
        # Of what listens, it is in the name who does: the metrics, the dashboard.
        rules = {f"ROTA_{who}{name.upper().replace('-', '_')}" for who in ("", "METRICS_", "WEB_")}
        assert variable in rules, name


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_has_a_sentence(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert re.match(r"[A-Z].*[.:]", command.help or "", re.DOTALL), "a sentence"
    for option in command.params:
        assert getattr(option, "help", None), option.name


@pytest.mark.parametrize(
    "path", [path for path in COMMANDS if path[-1] in ("ls", "show")], ids=" ".join
)
def test_every_read_speaks_json(path: tuple[str, ...]) -> None:
    assert "--json" in {name for option in COMMANDS[path].params for name in option.opts}


DESTROYS = {("queue", "purge"), ("lane", "move"), ("lane", "cancel"), ("job", "cancel"),
            ("dead", "discard"), ("sequence", "skip")}  # fmt: skip
ACTS_ON_MANY = {("dead", "replay"), ("worker", "quiet"), ("worker", "stop")}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_what_destroys_or_takes_all_asks_and_counts(path: tuple[str, ...]) -> None:
    options = {name for option in COMMANDS[path].params for name in option.opts}
    assert ("--yes" in options) == (path in DESTROYS | ACTS_ON_MANY)
    assert ("--dry-run" in options) or path not in DESTROYS | ACTS_ON_MANY
    assert "--all" not in options or "--yes" in options


def test_no_variable_arms_a_command(
    here: Here, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.sync.enqueue_many(JobSpec(task="t", lane=f"l{n}") for n in range(3))
    options = {long_name(option) for command in COMMANDS.values() for option in command.params}
    assert {"yes", "all", "lane", "repair", "dry-run", "ceiling"} <= options
    for name in options - {"url", "by"}:
        for group in ("", *(f"{path[0].upper()}_" for path in COMMANDS)):
            monkeypatch.setenv(f"ROTA_{group}{name.upper().replace('-', '_')}", "1")
    for words in (("queue", "purge"), ("dead", "discard"), ("dead", "replay"), ("worker", "stop")):
        code, out, err = here(*words, queue.name)
        assert (code, out) == (2, ""), err
    assert here("lane", "set", queue.name, "l0")[0] == 2, "ROTA_CEILING is no ceiling"
    assert len(here("lane", "ls", queue.name)[1].splitlines()) == 4, "ROTA_LIMIT hides nothing"
    assert queue.sync.info().waiting == 3


def test_who_does_it_may_be_a_variable(
    here: Here, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_BY", "me")
    assert here("queue", "pause", queue.name)[0] == 0
    assert queue.sync.info().paused_by == "me"
    assert here("lane", "ls", queue.name)[0] == 0, "--by there is an order"


def test_rota_url_does_not_overrule_the_code(rota: Programs, queue: Queue) -> None:
    rota.write("own.py", f"import rota\nqueue = rota.Queue('x', url={rota.url!r})\n")
    found = rota("lane", "ls", "own:queue", ROTA_URL="unix:///nowhere/socket")
    assert (found.returncode, f"is on {rota.url}" in found.stderr) == (1, True)
    lost = rota("lane", "ls", "x", ROTA_URL="unix:///nowhere/socket")
    assert (lost.returncode, lost.stdout) == (3, "")
    assert "--url" in lost.stderr


def test_shells_can_complete(rota: Programs) -> None:
    # Whatever the tests run below: a shell by name, not by what the parents are.
    named: dict[str, Any] = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = rota("--show-completion", "bash", **named)
    assert "complete" in shown.stdout + shown.stderr
    env: dict[str, Any] = {
        "_ROTA_COMPLETE": "complete_bash",
        "COMP_WORDS": "rota lane ",
        "COMP_CWORD": "2",
    }
    assert {"ls", "show", "set"} <= set(rota(**env).stdout.split())
    env |= {"COMP_WORDS": "rota worker ls --", "COMP_CWORD": "3"}
    assert "--json" in rota(**env).stdout.split()


def test_a_reader_that_goes_away_is_no_error(rota: Programs, queue: Queue) -> None:
    queue.sync.enqueue_many(JobSpec(task="t", lane=f"lane {n}") for n in range(2000))
    process = subprocess.Popen(
        rota._command(("lane", "ls", queue.name, "--limit", "2000")),
        cwd=rota.folder,
        env=rota._environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"lane ")
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE) in (0, 1)
    assert b"Traceback" not in said


def test_the_worker_is_a_command_and_a_noun(here: Here, queue: Queue) -> None:
    assert "MODULE:QUEUE" in here("worker", "--help")[1]
    assert here("worker", "ls", "--help")[1].startswith("Usage: rota worker ls")
    assert "no such queue" in here("worker", "ls", queue.name)[2]
    code, out, err = here("worker", "nosuch")
    assert (code, out, "expected module:queue" in err) == (2, "", True)
