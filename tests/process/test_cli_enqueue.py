"""`rota enqueue`: files of jobs, good and bad lines."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.cli.records import BadLine, Lines, Row, read_csv, read_json_lines
from rota.errors import ConfigError
from rota.queue import Queue
from rota.script.keys import Keys
from rota.values.jobspec import JobSpec
from rota.values.model import JobInfo
from tests.process.conftest import Here
from tests.process.programs import Programs
from tests.support.servers import Server
from tests.support.times import PATIENCE
from tests.support.waiting import eventually


def info(queue: Queue, id: str) -> JobInfo:
    found = queue.sync.job(id).info()
    assert found is not None
    return found


def payload(queue: Queue, id: str) -> object:
    return json.loads(info(queue, id).payload)


# ── lines ───────────────────────────────────────────────────────────────────────────────────


def jsonl(data: bytes, longest: int = 1000) -> list[Row | BadLine]:
    return list(read_json_lines(Lines(io.BytesIO(data), longest)))


def rows(data: bytes, longest: int = 1000) -> list[Row | BadLine]:
    return list(read_csv(Lines(io.BytesIO(data), longest)))


def test_json_lines_may_have_a_mark_crlf_and_blank_lines() -> None:
    data = b'\xef\xbb\xbf{"a": 1}\r\n\r\n   \n[1, "x"]\n{"b": null}'
    assert jsonl(data) == [Row(1, {"a": 1}), Row(4, [1, "x"]), Row(5, {"b": None})]
    assert jsonl(b"") == []


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"nonsense",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1} {"b": 2}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'"text"',
        b"17",
        b"null",
        b'{"a": 1}\x00',
        b"\xff\xfe{\x00",
        b"[" * 5000,
    ],
)
def test_what_is_not_a_json_object_or_array_is_one_bad_line(line: bytes) -> None:
    bad, good = jsonl(line + b'\n{"a": 1}\n', longest=9000)
    assert isinstance(bad, BadLine)
    assert bad.number == 1
    assert len(bad.reason) < 500
    assert good == Row(2, {"a": 1})


def test_a_line_that_is_too_long_is_skipped_without_being_held() -> None:
    class Endless(io.RawIOBase):
        """300 MB without a line's end, then a good line."""

        left = 300

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            if self.left < 0:
                return 0
            self.left -= 1
            chunk = b"x" * min(len(buffer), 1 << 20) if self.left >= 0 else b'\n{"a": 1}\n'
            buffer[: len(chunk)] = chunk
            return len(chunk)

    lines = Lines(io.BufferedReader(Endless(), 1 << 20), 1000)
    assert list(read_json_lines(lines)) == [
        BadLine(1, "longer than 1000 bytes"),
        Row(2, {"a": 1}),
    ]
    assert lines.bytes_read > 299 << 20
    exact = b'{"a": "' + b"x" * 991 + b'"}'
    assert len(exact) == 1000
    assert isinstance(jsonl(exact)[0], Row)
    assert jsonl(exact + b"\n{}") == [BadLine(1, "longer than 1000 bytes"), Row(2, {})]


def test_csv_names_its_fields_and_keeps_text() -> None:
    data = b'\xef\xbb\xbfid,n,note\r\na,1,\r\n\r\nb,2,"x, ""y""\nz"\nc,,\xc3\xa9\n'
    assert rows(data) == [
        Row(2, {"id": "a", "n": "1", "note": ""}),
        Row(4, {"id": "b", "n": "2", "note": 'x, "y"\nz'}),
        Row(6, {"id": "c", "n": "", "note": "é"}),
    ]


def test_csv_lines_that_do_not_fit_are_bad_each_for_itself() -> None:
    data = b'a,b\n1\n1,2,3\n\xff,2\n"x"y,2\n' + b"z" * 2000 + b',2\n1,2\n"open,1\n2,3\n'
    *bad, last, unclosed = rows(data)
    assert [(line.number, line.reason) for line in bad if isinstance(line, BadLine)] == [
        (2, "expected 2 columns, given 1"),
        (3, "expected 2 columns, given 3"),
        (4, "not UTF-8"),
        (5, "not CSV: ',' expected after '\"'"),
        (6, "longer than 1000 bytes"),
    ]
    assert last == Row(7, {"a": "1", "b": "2"})
    assert unclosed == BadLine(8, "not CSV: unexpected end of data")


@pytest.mark.parametrize("header", [b"\n\n", b"a,a\n1,2", b"a,\n1,2", b"\xff,b\n1,2", b'"a"b'])
def test_csv_without_names_is_refused(header: bytes) -> None:
    with pytest.raises(ConfigError, match="first line"):
        rows(header)


# ── files ───────────────────────────────────────────────────────────────────────────────────

MIXED = """\
{"id": "one", "tenant": "t1", "object": "o", "size": 1.5}
{"id": 2, "tenant": 7, "object": 3.5, "size": null}

{"id": "no-tenant", "object": "o"}
{"id": "empty-tenant", "tenant": "", "object": "o"}
{"id": "null-tenant", "tenant": null, "object": "o"}
{"id": "true-tenant", "tenant": true, "object": "o"}
{"id": "listed-tenant", "tenant": ["t"], "object": "o"}
{"id": "!odd", "tenant": "t", "object": "o"}
{"id": "ordered", "tenant": "!t", "object": "o"}
{"id": "one", "tenant": "t2", "object": "o"}
not json
["t1", "o"]
{"id": "huge", "tenant": "t", "object": "o", "text": "TEXT"}
{"id": "deep", "tenant": "t", "object": "o", "value": DEEP}
{"id": "last", "tenant": "t1", "object": "o", "nested": {"a": [1, "é"]}}
"""

FIELDS = ("--lane-from", "tenant", "--ordering-key-from", "object", "--id-from", "id")


def test_good_lines_go_in_and_bad_ones_are_named(rota: Programs, queue: Queue) -> None:
    text = MIXED.replace("TEXT", "x" * 1_100_000).replace("DEEP", "[" * 300 + "]" * 300)
    rota.write("mixed.jsonl", text)
    done = rota("enqueue", queue.name, "handle", "mixed.jsonl", *FIELDS)
    assert done.returncode == 1
    assert done.stdout == "3 created, 1 duplicate, 0 lane_full, 11 bad\n"
    *complaints, last = done.stderr.splitlines()
    assert last == "duplicates of jobs that are there: 1 waiting"
    assert [int(line.split()[1].rstrip(":")) for line in complaints] == [
        4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15,
    ]  # fmt: skip
    assert all("--lane-from tenant" in line for line in complaints[:5])
    assert "no such field" in complaints[0]
    assert "given an array" in complaints[8]
    assert "max_payload" in complaints[9]
    assert all(len(line) < 500 for line in complaints)

    one = info(queue, "one")
    assert (one.task, one.lane, one.ordering_key) == ("handle", "t1", "o")
    assert payload(queue, "one") == {"id": "one", "tenant": "t1", "object": "o", "size": 1.5}
    two = info(queue, "2")
    assert (two.lane, two.ordering_key) == ("7", "3.5")
    assert payload(queue, "2") == {"id": 2, "tenant": 7, "object": 3.5, "size": None}
    assert payload(queue, "last") == {
        "id": "last", "tenant": "t1", "object": "o", "nested": {"a": [1, "é"]},
    }  # fmt: skip

    again = rota("enqueue", queue.name, "handle", "mixed.jsonl", *FIELDS)
    assert again.stdout == "0 created, 4 duplicate, 0 lane_full, 11 bad\n"


def test_duplicates_are_told_by_what_holds_their_ids(
    rota: Programs, here: Here, queue: Queue
) -> None:
    rota.write("jobs.jsonl", "".join(f'{{"id": "j{n}"}}\n' for n in range(4)))
    words = ("enqueue", queue.name, "t", "jobs.jsonl", "--id-from", "id", "--lane-from", "id")
    assert here(*words) == (0, "4 created, 0 duplicate, 0 lane_full, 0 bad\n", "")
    with queue.sync.consumer() as consumer:
        consumer.bury(consumer.claim(1), "broken")
        held = consumer.claim(1)
        code, out, err = here(*words)
        consumer.release(held)
    assert (code, out) == (0, "0 created, 4 duplicate, 0 lane_full, 0 bad\n")
    assert err.splitlines() == [
        "duplicates of jobs that are there: 1 dead, 1 running, 2 waiting",
        "a dead job keeps its id until rota dead replay or discard",
    ]


def test_csv_standard_input_and_formats(rota: Programs, queue: Queue) -> None:
    table = "id,tenant,n\na,7,1\nb,,2\nc,8\n"
    rota.write("table.CSV", table)
    done = rota("enqueue", queue.name, "t", "table.CSV", "--id-from", "id", "--lane-from", "tenant")
    assert done.returncode == 1
    assert done.stdout == "1 created, 0 duplicate, 0 lane_full, 2 bad\n"
    assert payload(queue, "a") == {"id": "a", "tenant": "7", "n": "1"}
    assert info(queue, "a").lane == "7"

    done = rota("enqueue", queue.name, "t", "-", "--format", "csv", input="id\nx\n")
    assert (done.returncode, done.stdout[:9]) == (0, "1 created")
    done = rota("enqueue", queue.name, "t", "-", input='{"a": 1}\n["b", 2]\n[]\n{}\n')
    assert (done.returncode, done.stdout[:9]) == (0, "4 created")
    done = rota("enqueue", queue.name, "t", "-", input="")
    assert (done.returncode, done.stdout[:9]) == (0, "0 created")
    assert queue.sync.info().waiting == 6


def test_jobs_arrive_while_the_input_is_open(rota: Programs, queue: Queue) -> None:
    program = rota.start("enqueue", queue.name, "t", "-")
    assert program.process.stdin is not None
    for n in range(2500):
        program.process.stdin.write(f'{{"n": {n}}}\n')
    program.process.stdin.flush()
    eventually(lambda: queue.sync.info().waiting >= 2000, "the first jobs are in", timeout=PATIENCE)
    program.process.stdin.close()
    assert program.wait() == 0
    assert queue.sync.info().waiting == 2500


def test_only_some_bad_lines_are_printed(rota: Programs, queue: Queue) -> None:
    done = rota("enqueue", queue.name, "t", "-", input="x\n" * 1000 + "{}\n")
    assert done.returncode == 1
    assert done.stdout == "1 created, 0 duplicate, 0 lane_full, 1000 bad\n"
    assert len(done.stderr.splitlines()) == 22
    assert "980 more bad lines not shown\nno --lane-from" in done.stderr


def test_full_lanes(rota: Programs, queue: Queue) -> None:
    queue.sync.lane("t").set(backlog=5)
    lines = "".join(f'{{"id": "{n}", "tenant": "t"}}\n' for n in range(3000))
    words = ("enqueue", queue.name, "x", "-", "--lane-from", "tenant", "--id-from", "id")
    done = rota(*words, input=lines)
    assert (done.returncode, done.stdout) == (
        1,
        "5 created, 0 duplicate, 2995 lane_full, 0 bad\n",
    )
    done = rota(*words, "--on-full", "raise", input=lines)
    assert done.returncode == 1
    assert "a lane is full: stopped before line 1002" in done.stderr
    done = rota(*words, "--on-full", "wait", "--wait", 0.3, input=lines[:400])
    assert done.returncode == 1
    assert "lane_full" in done.stdout

    waiting = rota.start(*words, "--on-full", "wait")
    assert waiting.process.stdin is not None
    waiting.process.stdin.write('{"id": "new", "tenant": "t"}\n')
    waiting.process.stdin.close()
    queue.sync.lane("t").set(backlog=6)
    assert waiting.wait() == 0


# ── a queue's own code ──────────────────────────────────────────────────────────────────────

TASKS = """
    @queue.task(max_attempts=2, timeout=9, on_dead="hold")
    def work(n: int, tenant: str = "none", *, flag: bool = False): note(n, tenant, flag)
    @queue.task(lane_from="tenant", ordering_key_from="key", id_from="n")
    def own(n: int, tenant: str, key: str = "k"): note(n, tenant, key)
    @queue.task
    def open(n, **rest): note(n)
"""


def test_arguments_are_checked_against_the_task(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    rota.module(TASKS)
    lines = """\
{"n": 1, "tenant": "t"}
{"n": "1", "tenant": "t"}
{"tenant": "t"}
{"n": 1, "other": 2}
[2, "u"]
[2, "u", true]
{"n": 3, "flag": true, "tenant": "v"}
{"n": 4}
"""
    done = rota("enqueue", "app:queue", "work", "-", "--lane-from", "tenant", input=lines)
    assert done.returncode == 1
    assert done.stdout == "3 created, 0 duplicate, 0 lane_full, 5 bad\n"
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [
        f"line {n}" for n in (2, 3, 4, 6, 8)
    ]
    assert {lane.name for lane in queue.sync.lanes()} == {"t", "u", "v"}
    (record,) = [
        valkey.raw(decode=False).get(key)
        for key in valkey.keys()
        if ":job:" in key and b'"u"' in valkey.raw(decode=False).get(key)
    ]
    for part in (b'"max_attempts":2', b'"timeout":9', b'"on_dead":"hold"'):
        assert part in record
    assert rota("worker", "app:queue", "--burst", "-c", 1).returncode == 0
    assert sorted(rota.words()) == ["1 t False", "2 u False", "3 v True"]


def test_the_tasks_own_fields_hold_unless_others_are_named(rota: Programs, queue: Queue) -> None:
    rota.module(TASKS)
    done = rota("enqueue", "app:queue", "own", "-", input='{"n": 1, "tenant": "t"}\n[2, "u", "z"]')
    assert done.returncode == 0, done.stderr
    assert (info(queue, "1").lane, info(queue, "1").ordering_key) == ("t", "k")
    assert (info(queue, "2").lane, info(queue, "2").ordering_key) == ("u", "z")
    done = rota(
        "enqueue", "app:queue", "own", "-", "--lane-from", "key", "--id-from", "tenant",
        input='{"n": 1, "tenant": "id", "key": "lane"}',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (info(queue, "id").lane, info(queue, "id").ordering_key) == ("lane", "lane")
    done = rota("enqueue", "app:queue", "open", "-", "--lane-from", "x", input='{"n": 1, "x": 5}')
    assert done.returncode == 0, done.stderr
    assert "5" in {lane.name for lane in queue.sync.lanes()}


def test_require_lane_holds(rota: Programs, queue: Queue) -> None:
    rota.write(
        "app.py",
        f"import rota\nqueue = rota.Queue({queue.name!r}, require_lane=True)\n"
        "@queue.task\ndef add(n): pass\n",
    )
    done = rota("enqueue", "app:queue", "add", "-", input="[1]\n")
    assert done.returncode == 1
    assert "requires a lane" in done.stderr


# ── usage, server, terminal ─────────────────────────────────────────────────────────────────


def test_usage_errors_enqueue_nothing(rota: Programs, queue: Queue, here: Here) -> None:
    rota.module(TASKS)
    rota.write("a.jsonl", "{}\n")
    rota.write("a.txt", "{}\n")
    rota.write("blank.csv", "\n")
    name = queue.name
    for words, text in [
        ((name, "t", "none.jsonl"), "cannot be read: No such file"),
        ((name, "t", "."), "cannot be read: Is a directory"),
        ((name, "t", "nosuch"), "nosuch cannot be read: No such file"),
        ((name, "t", ".", "--format", "csv"), "cannot be read"),
        ((name, "t", "a.txt"), "expected .jsonl, .ndjson, .csv, or --format"),
        ((name, "t", "blank.csv"), "names the fields"),
        ((name, "", "a.jsonl"), "task: expected"),
        ((name, "t"), "Missing argument 'FILE'"),
        (("bad{name}", "t", "a.jsonl"), "queue: expected"),
        (("nosuch:queue", "t", "a.jsonl"), "module 'nosuch' not found"),
        (("app:queue", "t", "a.jsonl"), "no task 't' (registered: open, own, work)"),
        (("app:queue", "work", "a.jsonl", "--lane-from", "x"), "--lane-from expected the name"),
        ((name, "t", "a.jsonl", "--on-full", "x"), "--on-full"),
        ((name, "t", "a.jsonl", "--on-full", "wait", "--wait", "-1"), "wait"),
        ((name, "t", "a.jsonl", "--url", "redis://h:x"), "url"),
    ]:
        code, out, err = here("enqueue", *words)
        assert (code, text in err) == (2, True), (words, err)
        assert out in ("", "0 created, 0 duplicate, 0 lane_full, 0 bad\n")
    assert queue.sync.info().waiting == 0


def test_a_server_that_is_away(rota: Programs) -> None:
    rota.write("a.jsonl", "{}\n")
    done = rota("enqueue", "q", "t", "a.jsonl", "--url", "redis://127.0.0.1:1")
    assert done.returncode == 3
    assert "redis://127.0.0.1:1 cannot be reached" in done.stderr
    assert "--url" in done.stderr


def test_a_server_that_goes_away_half_way(
    rota: Programs, private_server: Callable[..., Server]
) -> None:
    server = private_server()
    program = rota.start("enqueue", "q", "t", "-", "--url", server.url)
    assert program.process.stdin is not None
    assert program.process.stdout is not None
    program.process.stdin.write('{"n": 1}\n' * 2500)
    program.process.stdin.flush()
    jobs = Keys("q").key("gwaiting")
    # The second thousand is sent after the answer for the first; its own may come or not.
    eventually(lambda: server.raw().hget(jobs, "default") == "2000", "2,000 jobs are in", 15)
    server.kill()
    program.process.stdin.close()
    assert program.wait() == 3
    said = program.process.stdout.read()
    count, _, rest = said.partition(" ")
    # The interrupt may come while the second call's outcomes are being counted.
    assert 1000 <= int(count) <= 2000, said
    assert rest == "created, 0 duplicate, 0 lane_full, 0 bad\n"
    assert "more jobs may be stored or not" in program.errors
    assert "with --id-from only what is missing is added" in program.errors


def test_a_server_that_is_full_half_way(
    rota: Programs, private_server: Callable[..., Server]
) -> None:
    server = private_server()
    program = rota.start("enqueue", "q", "t", "-", "--url", server.url)
    assert program.process.stdin is not None
    assert program.process.stdout is not None
    program.process.stdin.write('{"n": 1}\n' * 1500)
    program.process.stdin.flush()
    jobs = Keys("q").key("gwaiting")
    eventually(lambda: server.raw().hget(jobs, "default") == "1000", "1,000 jobs are in", 15)
    server.raw().config_set("maxmemory", 1)
    program.process.stdin.close()
    assert program.wait() == 3
    assert program.process.stdout.read().startswith("1000 created, 0 duplicate")
    assert "No more jobs are stored" in program.errors
    assert server.raw().hget(jobs, "default") == "1000"


def test_an_interrupt_says_how_far_it_got(rota: Programs, queue: Queue) -> None:
    program = rota.start("enqueue", queue.name, "t", "-")
    assert program.process.stdin is not None
    assert program.process.stdout is not None
    program.process.stdin.write('{"n": 1}\n' * 2500)
    program.process.stdin.flush()
    eventually(lambda: queue.sync.info().waiting == 2000, "2,000 jobs are in", timeout=PATIENCE)
    program.signal(signal.SIGINT)
    assert program.wait() == 130
    said = program.process.stdout.read()
    created, _, rest = said.partition(" ")
    assert rest == "created, 0 duplicate, 0 lane_full, 0 bad\n"
    assert 1000 <= int(created) <= 2000, "the second call's outcomes may be half counted"


def test_a_terminal_gets_a_progress_bar(rota: Programs, queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n' * 3000)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        rota._command(("enqueue", queue.name, "t", "a.jsonl")),
        cwd=tmp_path,
        env={**rota._environment, "TERM": "xterm", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=PATIENCE,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert done.returncode == 0
    assert done.stdout == b"3000 created, 0 duplicate, 0 lane_full, 0 bad\n"
    assert b"lines" in shown
    assert b"\x1b[3" not in shown  # no colours


def test_python_and_command_line_enqueue_alike(rota: Programs, queue: Queue) -> None:
    rota("enqueue", queue.name, "t", "-", "--id-from", "id", input='{"id": "a", "n": 1}')
    (done,) = queue.sync.enqueue_many([JobSpec(task="t", payload=b'{"id":"a","n":1}', id="a")])
    assert done.outcome == "duplicate"
