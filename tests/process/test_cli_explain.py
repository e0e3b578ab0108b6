"""`rota job explain` and `rota lane explain`: why something waits, from a shell."""

from __future__ import annotations

import json
import shlex

import pytest

from rota.cli.queues import shell_words
from rota.explain.words import command
from rota.queue import Queue
from rota.values.jobspec import JobSpec
from tests.process.conftest import Here
from tests.process.programs import Programs

ODD = "[red]od'd[/] lane"
KEYS = {
    "kind", "subject", "lane", "state", "reasons", "expected_turn", "exact", "waiting", "delayed",
    "running", "oldest_wait", "at",
}  # fmt: skip


def fill(queue: Queue) -> None:
    """Two jobs of an odd lane, one of them in flight, none of its permits left; then a pause."""
    specs = [JobSpec(task="[b]t[/]", lane=ODD, id=id) for id in ("first", "[bold]j[/]")]
    queue.sync.enqueue_many(specs)
    queue.sync.lane(ODD).set(ceiling=1)


def test_says_why_a_job_waits_the_decisive_first(rota: Programs, queue: Queue) -> None:
    fill(queue)
    with queue.sync.consumer() as consumer:
        assert [job.id for job in consumer.claim(5)] == ["first"]
        queue.sync.lane(ODD).pause(reason="[red]abuse\x1b[31m", by="ops")
        done = rota("job", "explain", queue.name, "[bold]j[/]")
        found = rota("job", "explain", queue.name, "[bold]j[/]", "--json")
    assert done.returncode == 0, done.stderr
    head, first, free, second, more, *_, last = done.stdout.splitlines()
    assert head == f"job [bold]j[/] of lane {ODD}: waiting"
    assert first.startswith(f"  1. Lane {ODD} is paused by ops")
    assert r"([red]abuse\x1b[31m)." in first
    assert free == f"     frees it: {shlex.join(['rota', 'lane', 'resume', queue.name, ODD])}"
    assert f"; or {shlex.join(['rota', 'lane', 'set', queue.name, ODD])} --ceiling … with" in more
    assert second.startswith(f"  2. Lane {ODD} is at its ceiling: 1 permit of 1 (its own) is held")
    assert "by first on " in second
    assert last.startswith(f"lane {ODD}: 1 waiting, 0 delayed, 1 running, oldest wait ")
    assert "\x1b" not in done.stdout

    row = json.loads(found.stdout)
    assert row.keys() == KEYS
    assert (row["kind"], row["subject"], row["lane"]) == ("job", "[bold]j[/]", ODD)
    assert [reason["kind"] for reason in row["reasons"]] == ["paused", "at_ceiling"]
    for reason in row["reasons"]:
        assert reason.keys() == {"kind", "text", "frees", "until", "detail"}
    assert row["reasons"][1]["detail"]["holders"][0]["task"] == "[b]t[/]"


def test_says_why_a_lane_waits(here: Here, queue: Queue) -> None:
    fill(queue)
    code, out, _ = here("lane", "explain", queue.name, ODD)
    assert code == 0
    assert out.splitlines()[0] == f"lane {ODD}: ready, turn 1 from now"
    assert "No worker is alive" in out
    code, out, _ = here("lane", "explain", queue.name, ODD, "--json")
    row = json.loads(out)
    assert row.keys() == KEYS
    assert (row["state"], row["waiting"], row["expected_turn"]) == ("ready", 2, 1)
    code, out, _ = here("lane", "explain", queue.name, "never seen")
    assert code == 0
    assert out.splitlines()[0] == "lane never seen: idle"


def test_the_commands_that_free_a_lane_work(here: Here, queue: Queue) -> None:
    fill(queue)
    queue.sync.pause(reason="night")
    queue.sync.lane(ODD).pause()
    queue.sync.lane(ODD).block(3600)
    for kind in ("queue_paused", "paused", "blocked"):
        reasons = json.loads(here("lane", "explain", queue.name, ODD, "--json")[1])["reasons"]
        (free,) = [reason["frees"] for reason in reasons if reason["kind"] == kind]
        assert "await" not in free
        command = shlex.split(free.rpartition("; sooner with ")[2])
        assert command[0] == "rota"
        assert here(*command[1:])[0] == 0
    assert "paused" not in here("lane", "explain", queue.name, ODD)[1]


@pytest.mark.parametrize("act", ["replay", "discard"])
def test_the_command_that_frees_a_sequence_works(here: Here, queue: Queue, act: str) -> None:
    head = JobSpec(task="t", id="it's dead", ordering_key="k", on_dead="hold")
    behind = JobSpec(task="t", id="behind", ordering_key="k")
    queue.sync.enqueue_many([head, behind])
    with queue.sync.consumer() as consumer:
        consumer.bury(consumer.claim(1), "broken")
        _, out, _ = here("job", "explain", queue.name, "behind", "--json")
        (reason,) = json.loads(out)["reasons"]
        commands = [shlex.split(text) for text in reason["frees"].split(", or ")]
        (command,) = [words for words in commands if act in words]
        assert command[0] == "rota"
        extra = ["--yes"] if act == "discard" else []
        code, _, err = here(*command[1:], *extra)
        assert code == 0, err
        _, out, _ = here("job", "explain", queue.name, "behind", "--json")
        assert json.loads(out)["reasons"][-1]["kind"] == "turn"


@pytest.mark.parametrize("lane", ["t7", "o'dd $(lane)", "-x"])
@pytest.mark.parametrize("named", ["by name", "by module", "by url"])
def test_the_commands_name_the_queue_as_it_was_named(
    rota: Programs, here: Here, queue: Queue, monkeypatch: pytest.MonkeyPatch, named: str, lane: str
) -> None:
    """Whoever pastes one reaches the same queue of the same server, from any shell."""
    rota.write("shop.py", f"import rota\nqueue = rota.Queue({queue.name!r}, prefix='p')\n")
    ours, words = queue, [queue.name]
    if named == "by module":
        ours, words = Queue(queue.name, url=rota.url, prefix="p"), ["shop:queue"]
    elif named == "by url":
        monkeypatch.delenv("ROTA_URL")
        words += ["--url", rota.url]
    target, *options = words
    ours.sync.enqueue(JobSpec(task="t", lane=lane, ordering_key="k", on_dead="hold", id="it's"))
    ours.sync.enqueue(JobSpec(task="t", lane=lane, ordering_key="k"))
    with ours.sync.consumer() as consumer:
        consumer.bury(consumer.claim(1), "broken")
    ours.sync.lane(lane).pause()
    found = json.loads(here("lane", "explain", *options, "--json", "--", target, lane)[1])
    frees = {reason["kind"]: reason["frees"] for reason in found["reasons"]}
    sequence = shlex.split(frees["sequence"].partition(", or ")[0])
    paused = shlex.split(frees["paused"].rpartition("; sooner with ")[2])
    assert here(*sequence[1:]) == (0, "", "1 replayed\n")
    code, _, err = here(*paused[1:])
    assert (code, err) == (0, f"lane {lane} is resumed\n")
    ours.sync.close()


def test_the_way_past_a_head_names_the_queue_as_it_was_named(
    rota: Programs, here: Here, queue: Queue
) -> None:
    rota.write("shop.py", f"import rota\nqueue = rota.Queue({queue.name!r})\n")
    key = "o'dd key"
    for id in ("head", "next"):
        queue.sync.enqueue(JobSpec(task="t", lane="a b", ordering_key=key, on_dead="hold", id=id))
    with queue.sync.consumer() as consumer:
        consumer.bury(consumer.claim(1), "broken")
    for words in (["shop:queue"], [queue.name, "--url", rota.url]):
        target, *options = words
        said = here("sequence", "show", target, "a b", key, *options)[2]
        command = shlex.split(said.partition(": ")[2])
        assert command == ["rota", "sequence", "skip", target, "a b", key, *options]


def test_a_password_is_not_repeated() -> None:
    for url, told in (
        ("redis://ops:s3cret@host:6379/2", "redis://ops:***@host:6379/2"),
        ("unix:///tmp/x?db=2&password=s3cret", "unix:///tmp/x?db=2&password=***"),
        ("redis://host/2", "redis://host/2"),
    ):
        said = shlex.split(command(shell_words("q", url), "lane resume", "t7"))
        assert said == ["rota", "lane", "resume", "q", "t7", "--url", told]
    assert shell_words("shop:queue", None) == ("shop:queue",)


def test_an_unknown_job_and_errors(here: Here, queue: Queue) -> None:
    queue.sync.set(ceiling=100)
    for words, expected, text in [
        ((queue.name, "[red]none[/]"), 1, f"queue {queue.name} has no job [red]none[/]"),
        ((queue.name, "none", "--json"), 1, "never enqueued, or done"),
        (("bad{}", "j"), 2, "queue: expected"),
        ((queue.name, "!bad"), 2, "id: expected"),
        ((queue.name,), 2, "Missing argument 'ID'"),
        ((queue.name, "j", "--url", "unix:///nowhere/socket"), 3, "/nowhere/socket"),
    ]:
        code, out, err = here("job", "explain", *words)
        assert (code, out, text in err) == (expected, "", True), (words, err)
    code, out, err = here("lane", "explain", queue.name, "!")
    assert (code, out) == (2, "")
    assert "lane: expected" in err
