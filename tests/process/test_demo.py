"""`rota demo`: it ends by itself, tells the truth, and leaves nothing behind."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rota.demo.load import (
    FLOODER,
    SMALL,
    Arrival,
    Served,
    make_load,
    replay_in_one_line,
)
from rota.demo.report import Report
from rota.demo.run import Book, End, Run
from rota.values.model import QueueInfo
from tests.support.times import IN_TIME, PATIENCE
from tests.support.waiting import eventually

SOURCE = Path(__file__).parents[2] / "src"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def start(tmp: Path, *words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """The demo in development mode, so that whatever it leaves open is a complaint."""
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-m", "rota", "demo", *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "TMPDIR": str(tmp),
            "COLUMNS": "80",
            "LINES": "24",
            "TERM": "xterm-256color",
        },
        start_new_session=True,
    )


def processes_naming(path: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue  # it has just ended
        if os.fsencode(path) in words:
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def nothing_left(tmp: Path) -> None:
    assert not list(tmp.iterdir()), "a directory was left"
    if sys.platform == "linux":
        eventually(lambda: not processes_naming(tmp), "a process was left")


def complaints(err: bytes) -> str:
    """What was said on standard error, but for the loop's remarks on what took long."""
    return re.sub(r"^Executing <.*> took [\d.]+ seconds\n", "", err.decode(), flags=re.MULTILINE)


def figure(text: str, name: str) -> int:
    found = re.search(rf"\b{name} ([\d,]+)", text)
    assert found, f"no {name!r} in:\n{text}"
    return int(found[1].replace(",", ""))


def test_it_ends_by_itself_and_says_who_waited_how_long(tmp_path: Path) -> None:
    demo = start(tmp_path, "--seconds", "6")
    out, err = demo.communicate(timeout=50)
    text = out.decode()
    assert (demo.returncode, complaints(err)) == (0, "")
    assert not CONTROL.search(text)
    jobs = figure(text, "jobs in")
    assert jobs == len(make_load(7, 6)) > 2000
    summary = text[text.index("All done") :]
    assert (figure(summary, "done"), figure(summary, "lost"), figure(summary, "twice")) == (
        jobs,
        0,
        0,
    )
    for promise in ("order kept:   yes", "ceiling kept: yes", "delays kept:  yes"):
        assert promise in text
    assert "rota worker" in text
    assert "rota lane ls" in text
    assert "README.md" in text
    here = re.search(r"in fair turns +(\S+ m?s)", text)
    line = re.search(r"first-in-first-out line \* +(\S+ m?s)", text)
    assert here, text
    assert line, text
    assert 2 * in_seconds(here[1]) < in_seconds(line[1]), text
    nothing_left(tmp_path)


def in_seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) / (1000 if unit == "ms" else 1)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_soon_with_what_is_known(tmp_path: Path, which: signal.Signals) -> None:
    demo = start(tmp_path)
    assert demo.stdout is not None
    seen = b""
    while seen.count(b" s   in ") < 2:  # the second figures: the flood is in, much waits
        seen += demo.stdout.readline()
    sent = time.monotonic()
    demo.send_signal(which)
    out, err = demo.communicate(timeout=PATIENCE)
    took = time.monotonic() - sent
    assert (demo.returncode, complaints(err)) == (0, "")
    assert took < IN_TIME, "it goes on to its end"
    text = out.decode()
    assert "Stopped early" in text
    rest = figure(text, "still in the queue")
    assert rest > 0
    assert figure(text, "jobs in") == figure(text, "done") + rest
    assert figure(text, "lost") == 0
    nothing_left(tmp_path)


def test_in_a_terminal_it_draws_a_table_in_place(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    demo = start(tmp_path, "--seconds", "3", stdout=theirs)
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            shown += chunk
    os.close(ours)
    assert (complaints(demo.communicate(timeout=PATIENCE)[1]), demo.returncode) == ("", 0)
    text = shown.decode()
    assert "\x1b[1A" in text, "it is redrawn in place"
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is shown again"
    assert "8/8" in text
    assert "25 others" in text
    plain = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", text)
    assert max(map(len, plain.replace("\r", "\n").splitlines())) <= 80
    assert "lost 0" in plain
    nothing_left(tmp_path)


def test_a_reader_that_leaves_ends_it(tmp_path: Path) -> None:
    demo = start(tmp_path)
    assert demo.stdout is not None
    demo.stdout.readline()
    demo.stdout.close()
    assert demo.wait(timeout=PATIENCE) != 0
    assert demo.stderr is not None
    with demo.stderr:
        assert b"Traceback" not in demo.stderr.read()
    nothing_left(tmp_path)


# ── the load, the replay, the reckoning ─────────────────────────────────────────────────────────


def test_the_load_is_seeded_and_heavy_tailed() -> None:
    load = make_load(7, 15)
    assert load == make_load(7, 15)
    assert load != make_load(8, 15)
    count = Counter(one.tenant for one in load)
    assert set(count) == {FLOODER, *SMALL}
    assert 0.42 < count[FLOODER] / len(load) < 0.44
    assert count[SMALL[0]] > 10 * count[SMALL[-1]]
    assert [one.at for one in load] == sorted(one.at for one in load)
    assert len({one.id for one in load}) == len(load)
    assert any(one.delay for one in load)
    keys = Counter(one.key for one in load if one.key)
    assert set(keys.values()) == {10}


def test_the_replay_is_one_line() -> None:
    jobs = [Served("a", 0, 5), Served("b", 0, 1), Served("c", 0.5, 1), Served("d", 9, 1)]
    assert replay_in_one_line(jobs, 1) == {"a": 0, "b": 5, "c": 5.5, "d": 0}
    assert replay_in_one_line(reversed(jobs), 2) == {"a": 0, "b": 0, "c": 0.5, "d": 0}


EMPTY = QueueInfo(
    waiting=0,
    running=0,
    permits=0,
    delayed=0,
    dead=0,
    lanes_waiting=0,
    lanes_ready=0,
    lanes_paused=0,
    consumers=0,
    default_ceiling=None,
    default_weight=None,
    ceiling=None,
    paused=False,
    pause_reason=None,
    paused_by=None,
    paused_until=None,
    totals={},
)


def a_book(**runs: tuple[float, float]) -> Book:
    arrivals = [
        Arrival("a", 0, FLOODER, 1.0),
        Arrival("b", 0, SMALL[0], 1.0, key="k", step=0),
        Arrival("c", 0, SMALL[0], 1.0, key="k", step=1),
        Arrival("d", 0, SMALL[1], 1.0, delay=2.0),
    ]
    book = Book({one.id: one for one in arrivals})
    book.sent.update(dict.fromkeys("abcd", 100.0))
    times = {"a": (100, 101), "b": (100, 101), "c": (101, 102), "d": (102, 103)} | runs
    for id, (begin, end) in times.items():
        if end:
            book.ran(id, Run(begin, end))
    return book


def a_report(book: Book, end: End = "finished", info: QueueInfo = EMPTY) -> Report:
    return Report(book, end, info)


def test_a_good_run_is_good() -> None:
    report = a_report(a_book())
    assert report.is_good
    assert (report.jobs_in, report.done, report.lost, report.again) == (4, 4, 0, 0)
    assert (report.ordered, report.sequences, report.delayed, report.early) == (2, 1, 1, 0)


def test_a_job_that_is_nowhere_is_lost() -> None:
    missing = a_book(a=(0, 0))
    assert (a_report(missing).lost, a_report(missing).is_good) == (1, False)
    kept = a_report(missing, "stopped", replace(EMPTY, waiting=1))
    assert (kept.lost, kept.left, kept.is_good) == (0, 1, True)
    assert not a_report(missing, "finished", replace(EMPTY, dead=1)).is_good


def test_what_ran_twice_is_counted() -> None:
    book = a_book()
    book.ran("a", Run(105, 106))
    assert a_report(book).again == 1


@pytest.mark.parametrize(
    "runs",
    [
        {"b": (101.0, 102.0), "c": (100.0, 101.0)},
        {"b": (100.0, 101.0), "c": (100.5, 102.0)},
        {"b": (0.0, 0.0), "c": (101.0, 102.0)},
    ],
    ids=["swapped", "overlapping", "one skipped"],
)
def test_a_broken_order_is_seen(runs: dict[str, tuple[float, float]]) -> None:
    report = a_report(a_book(**runs), "stopped", replace(EMPTY, waiting=1))
    assert not report.order_kept
    assert not report.is_good


def test_a_delayed_job_that_is_early_is_seen() -> None:
    report = a_report(a_book(d=(101.9, 103)))
    assert (report.early, report.is_good) == (1, False)


def test_a_broken_ceiling_is_seen() -> None:
    book = a_book()
    for n in range(9):
        book.arrivals[f"x{n}"] = Arrival(f"x{n}", 0, FLOODER, 1.0)
        book.sent[f"x{n}"] = 100.0
        book.ran(f"x{n}", Run(100 + n / 100, 101))
    report = a_report(book)
    assert report.most_flooding == 10
    assert not report.is_good
