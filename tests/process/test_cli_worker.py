"""`rota worker` as a process: starting, stopping, dying, and several of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rota as package
from rota.queue import Queue
from rota.script.keys import Keys
from rota.values.jobspec import JobSpec
from rota.values.model import PREFIX_WIDTH
from rota.work.supervisor import Supervisor, stop_signals
from tests.process.conftest import Here
from tests.process.programs import SOURCE, Programs
from tests.support.queues import end_leases
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, PATIENCE
from tests.support.waiting import eventually, eventually_async


def specs(task: str, count: int, lane: str = "default", **options: Any) -> list[JobSpec]:
    return [
        JobSpec(task=task, payload=b'{"n": %d}' % n, lane=lane, id=f"{task}-{lane}-{n}", **options)
        for n in range(count)
    ]


# ── starting ────────────────────────────────────────────────────────────────────────────────


def test_says_what_it_is_and_ends_a_burst(rota: Programs, queue: Queue, valkey: Server) -> None:
    rota.module("""
        @queue.task
        async def add(n): note(n)
    """)
    queue.sync.enqueue_many(specs("add", 30))
    queue.sync.enqueue(JobSpec(task="add", payload=b'{"n": 1}', delay_ms=60_000))
    done = rota("worker", "app:queue", "--burst", "-c", 7)
    assert done.returncode == 0
    for text in (queue.name, "app:queue", "add", valkey.url, "slots      7", "processes  1", "pid"):
        assert text in done.stderr
    assert "30 jobs done, 0 retried, 0 dead, 1 left" in done.stderr
    assert sorted(map(int, rota.words())) == list(range(30))


def test_options_come_from_the_environment_too(rota: Programs) -> None:
    rota.module("queue.task(note)")
    done = rota(
        "worker", "app:queue", ROTA_BURST="1", ROTA_CONCURRENCY="3", ROTA_LEASE="2", ROTA_GRACE="1"
    )
    assert done.returncode == 0
    assert "slots      3" in done.stderr
    assert rota("worker", "app:queue", ROTA_PREFETCH="0").returncode == 2


def test_two_queues_share_a_worker(rota: Programs, queue: Queue) -> None:
    rota.module(f"""
        second = rota.Queue({queue.name + "-2"!r})
        @queue.task
        def one(n): note("one")
        @second.task
        def two(n): note("two")
    """)
    queue.sync.enqueue_many(specs("one", 5))
    other = Queue(queue.name + "-2", url=queue.link.target.display)
    other.sync.enqueue_many(specs("two", 5))
    other.sync.close()
    assert rota("worker", "app:queue", "app:second", "--burst", "-c", 2).returncode == 0
    assert sorted(rota.words()) == ["one"] * 5 + ["two"] * 5


IMPORTS = {
    "no module": ("nosuch:queue", "", "module 'nosuch' not found"),
    "no package": ("nosuch.deep:queue", "", "module 'nosuch' not found"),
    "no submodule": ("app.deep:queue", "", "module 'app.deep' not found"),
    "another module": ("app:queue", "import nosuch2", "needs module 'nosuch2'"),
    "another's submodule": ("app:queue", "import json.nosuch2", "needs module 'json.nosuch2'"),
    "no attribute": ("app:nope", "q1 = queue", "no attribute 'nope'; its queues: queue, q1"),
    "no queue": ("app:thing", "thing = {}", "app:thing is a dict, expected a rota.Queue"),
    "own error": ("app:queue", "1 / 0", "ZeroDivisionError"),
    "own syntax error": ("app:queue", "def (:", "SyntaxError"),
    "no colon": ("app", "", "expected module:queue"),
    "no tasks": ("app:queue", "", "has no tasks"),
}


@pytest.mark.parametrize("case", IMPORTS)
def test_says_what_cannot_be_imported(rota: Programs, here: Here, case: str) -> None:
    target, body, expected = IMPORTS[case]
    rota.module(body)
    code, _, err = here("worker", target, "--burst")
    assert code == 2
    assert expected in err
    assert "importlib" not in err
    assert "rota/cli" not in err


def test_usage_and_server_errors_have_their_codes(rota: Programs, here: Here) -> None:
    rota.module("@queue.task\ndef add(n): pass")
    refused: list[tuple[list[object], str]] = [
        (["app:queue", "-c", 0], "concurrency: expected"),
        (["app:queue", "-c", "x"], "--concurrency"),
        (["app:queue", "-p", 0], "processes: expected"),
        (["app:queue", "--lease", 0.1], "lease: expected"),
        (["app:queue", "--url", "htp://x"], "url: expected"),
        (["app:queue", "-z"], "-z"),
        ([], "Missing argument 'MODULE:QUEUE...'"),
    ]
    for words, text in refused:
        code, _, err = here("worker", *words)
        assert (code, text in err) == (2, True), (words, err)
    done = rota("worker", "app:queue", "--url", "redis://127.0.0.1:1")
    assert done.returncode == 3
    assert "redis://127.0.0.1:1 cannot be reached" in done.stderr
    assert "--url" in done.stderr


def test_url_overrides_the_code(rota: Programs, valkey: Server, queue: Queue) -> None:
    rota.write(
        "app.py",
        f"import rota\nqueue = rota.Queue({queue.name!r}, url='redis://127.0.0.1:1')\n"
        "@queue.task\ndef add(n): pass\n",
    )
    queue.sync.enqueue_many(specs("add", 2))
    assert rota("worker", "app:queue", "--burst").returncode == 3
    done = rota("worker", "app:queue", "--burst", "--url", valkey.url)
    assert done.returncode == 0
    assert "2 jobs done" in done.stderr


def test_version_and_the_missing_extra(rota: Programs) -> None:
    done = rota("--version")
    assert done.returncode == 0
    assert done.stdout == f"rota {package.__version__}\n"
    rota.write("typer.py", "raise ModuleNotFoundError('gone', name='typer')")
    done = rota("--version")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'rota[cli]'" in done.stderr


# ── stopping ────────────────────────────────────────────────────────────────────────────────

STOPPED = """
    import logging
    class Stopping(logging.Handler):
        begun = False
        def emit(self, record):
            Stopping.begun |= record.msg.startswith("stopping")
    logging.getLogger("rota.worker").addHandler(Stopping())
    @queue.task
    async def short(n):
        note("start short", n)
        while not (FAST or Stopping.begun):
            await asyncio.sleep(0.02)
        await asyncio.sleep(0 if FAST else 0.5)
        note("end short", n)
    @queue.task
    async def long(n):
        note("start long", n)
        await asyncio.sleep(0 if FAST else 60)
    @queue.task
    def thread(n):
        note("start thread", n)
        time.sleep(0 if FAST else 60)
    @queue.task
    async def stubborn(n):
        note("start stubborn", n)
        until = time.monotonic() + (0 if FAST else 60)
        while time.monotonic() < until:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                note("ignored")
    @queue.task
    async def waiting(n):
        note("waiting", n)
"""


def fill(rota: Programs, queue: Queue) -> None:
    """Eight jobs that run in eight slots: one of them the head of a sequence of five. The short
    ones end soon after the worker begins to stop."""
    rota.module(STOPPED)
    queue.sync.enqueue_many(specs("short", 5, "sequence", ordering_key="k"))
    queue.sync.enqueue_many(specs("short", 1, "short"))
    for task in ("long", "thread", "stubborn"):
        queue.sync.enqueue_many(specs(task, 2, task))


def no_trace_of_workers(server: Server, queue: Queue) -> None:
    """Nothing is held, and nobody paid an attempt or a death."""
    raw, keys = server.raw(), Keys(queue.name)
    kinds = ("consumers", "gactive", "held", "attempts", "deaths", "errors", "dead")
    assert [kind for kind in kinds if raw.exists(keys.key(kind))] == []


def test_sigterm_lets_short_jobs_end_and_hands_back_the_rest(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    grace = 3.0
    fill(rota, queue)
    worker = rota.worker("-c", 8, "--grace", grace, "--lease", 30)
    eventually(lambda: len(rota.notes()) == 8, "eight jobs run", timeout=PATIENCE)
    queue.sync.enqueue_many(specs("waiting", 100, "waiting"))

    sent = worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    took = time.time() - sent
    assert grace <= took < grace + IN_TIME

    words = rota.words()
    assert sorted(w for w in words if w.startswith("start")) == sorted(
        [f"start {task} {n}" for task in ("long", "thread", "stubborn") for n in (0, 1)]
        + ["start short 0"] * 2
    )
    assert words.count("end short 0") == 2
    assert "ignored" in words
    no_trace_of_workers(valkey, queue)
    assert queue.sync.info().waiting == 100 + 4 + 6

    assert rota("worker", "app:queue", "--burst", "-c", 1, FAST="1").returncode == 0
    rest = rota.words()[len(words) :]
    assert [w for w in rest if w.startswith("start short")] == [
        f"start short {n}" for n in range(1, 5)
    ]
    assert [w for w in rest if w.startswith("waiting")] == [f"waiting {n}" for n in range(100)]
    assert len([w for w in rest if w.startswith("start")]) == 4 + 6


def test_five_restarts_cost_a_job_nothing(rota: Programs, queue: Queue, valkey: Server) -> None:
    rota.module(STOPPED)
    queue.sync.enqueue_many(specs("long", 1))
    for round in range(1, 6):
        worker = rota.worker("--grace", 0.2)
        eventually(lambda: len(rota.notes()) == round, "the job runs again")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        no_trace_of_workers(valkey, queue)


def test_a_stop_does_not_wait_for_helper_threads(rota: Programs, queue: Queue) -> None:
    rota.module("""
        @queue.task
        async def help(n):
            note("start")
            await asyncio.to_thread(time.sleep, 60)
    """)
    queue.sync.enqueue_many(specs("help", 1))
    worker = rota.worker("--grace", 0.1)
    eventually(rota.notes, "the job runs")
    worker.signal(signal.SIGINT)
    assert worker.wait() == 0


def test_a_stop_while_the_server_is_away_is_bounded(
    rota: Programs, private_server: Callable[..., Server], queue_name: str
) -> None:
    rota.module("@queue.task\nasync def add(n): pass")
    server = private_server()
    worker = rota.worker("--url", server.url, "--grace", 0.1)
    server.freeze()
    sent = worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert time.time() - sent < IN_TIME
    assert "its lease will run out" in worker.errors


@pytest.mark.parametrize(
    ("first", "second"),
    [("SIGINT", "SIGINT"), ("SIGTERM", "SIGHUP"), ("SIGHUP", "SIGTERM")],
)
def test_a_second_signal_of_any_kind_gives_back_at_once(
    rota: Programs, queue: Queue, valkey: Server, first: str, second: str
) -> None:
    """Without waiting for the grace period, and uncounted; the next worker has the jobs at once."""
    rota.module(STOPPED)
    for task in ("long", "thread", "stubborn"):
        queue.sync.enqueue_many(specs(task, 2, task))
    worker = rota.worker("-c", 6, "--grace", LEASE, "--lease", LEASE)
    eventually(lambda: len(rota.notes()) == 6, "six jobs run", timeout=PATIENCE)
    worker.signal(getattr(signal, first))
    worker.says("stopping: waiting up to")
    sent = worker.signal(getattr(signal, second))
    assert worker.wait() == 130
    assert time.time() - sent < IN_TIME
    assert "6 running jobs are given back" in worker.errors
    no_trace_of_workers(valkey, queue)
    assert queue.sync.info().waiting == 6


def test_a_second_signal_gives_back_although_the_loop_hangs(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    rota.module("""
        @queue.task
        async def hang(n):
            note("start")
            time.sleep(60)
    """)
    queue.sync.enqueue_many(specs("hang", 1))
    worker = rota.worker("--grace", LEASE, "--lease", LEASE)
    eventually(rota.notes, "the job runs")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGINT)
    assert worker.wait() == 130
    no_trace_of_workers(valkey, queue)
    assert queue.sync.info().waiting == 1


def test_a_third_signal_ends_the_process_as_it_is(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    rota.module(STOPPED)
    queue.sync.enqueue_many(specs("stubborn", 1))
    worker = rota.worker("--grace", LEASE, "--lease", LEASE)
    eventually(rota.notes, "the job runs")
    os.kill(worker.pid, signal.SIGSTOP)  # it hears of all three in one moment
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        worker.signal(number)
    os.kill(worker.pid, signal.SIGCONT)
    assert worker.wait() == 130
    assert len(consumers(queue, valkey)) == 1


def test_a_hang_up_is_no_stop_where_it_is_ignored() -> None:
    assert stop_signals() == (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert stop_signals() == (signal.SIGTERM, signal.SIGINT)
    finally:
        signal.signal(signal.SIGHUP, before)


LIFESPANS = {
    "waits before": ("await asyncio.sleep(600)", ""),
    "hangs before": ("time.sleep(600)", ""),
    "waits after": ("", "await asyncio.sleep(600)"),
    "hangs after": ("", "time.sleep(600)"),
}


@pytest.mark.parametrize("case", LIFESPANS)
def test_a_lifespan_that_does_not_begin_or_end_does_not_keep_the_process(
    rota: Programs, queue: Queue, valkey: Server, case: str
) -> None:
    before, after = LIFESPANS[case]
    rota.module(f"""
        @queue.task
        def work(n): pass
        @queue.lifespan
        async def resources():
            note("begins")
            {before or "pass"}
            yield
            {after or "pass"}
    """)
    worker = rota.start("worker", "app:queue", "--grace", 0.2)
    if after:
        worker.says("rota.worker: working")
    eventually(rota.notes, "the lifespan begins", timeout=PATIENCE)
    worker.signal(signal.SIGTERM)
    if case.startswith("hangs"):  # it is left without its loop: at once, when it is told again
        worker.signal(signal.SIGINT)
        assert worker.wait() == 130
    else:
        assert worker.wait() == 0
    assert ("does not end: it is cancelled" in worker.errors) is (case == "waits after")
    no_trace_of_workers(valkey, queue)


def test_a_lifespan_that_ignores_its_end_is_named_where_it_is_left(rota: Programs) -> None:
    rota.module("""
        @queue.task
        def work(n): pass
        @queue.lifespan
        async def resources():
            yield
            while True:
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    pass
    """)
    worker = rota.start("worker", "app:queue", "--grace", 0.2)
    worker.says("rota.worker: working")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert "1 tasks that ignore being cancelled and 0 threads that do not end" in worker.errors
    assert "or a lifespan" in worker.errors


FORKS = """
    import multiprocessing, signal
    fork = multiprocessing.get_context("fork")
    def tell():
        handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
        expected = [signal.SIG_DFL, signal.default_int_handler, signal.SIG_DFL]
        note(handlers == expected, signal.set_wakeup_fd(-1), signal.pthread_sigmask(0, []))
    def act():
        process = fork.Process(target=time.sleep, args=(600,))
        process.start()
        process.terminate()
        process.join()
        note("ended", process.exitcode)
        with fork.Pool(2) as pool:
            pool.apply(tell)
        if os.fork() == 0:
            tell()
            os._exit(0)
    @queue.lifespan
    async def resources():
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
        yield
    @queue.task
    async def on_loop(n): act()
    @queue.task
    def in_thread(n): act()
"""


def test_children_that_a_handler_forks_are_stopped_by_signals(rota: Programs, queue: Queue) -> None:
    """And what they are sent stops nobody else: the worker goes on."""
    rota.module(FORKS)
    queue.sync.enqueue_many(specs("on_loop", 1))
    queue.sync.enqueue_many(specs("in_thread", 1))
    done = rota("worker", "app:queue", "--burst", "-c", 1)
    assert (done.returncode, "2 jobs done" in done.stderr) == (0, True), done.stderr
    assert "stopping" not in done.stderr
    eventually(lambda: len(rota.notes()) == 6, "every child has told")
    assert sorted(rota.words()) == ["True -1 set()"] * 4 + [f"ended {-signal.SIGTERM}"] * 2


def test_an_idle_worker_stops_at_once(rota: Programs) -> None:
    rota.module("@queue.task\ndef add(n): pass")
    worker = rota.worker()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0  # within less than its grace period


# ── dying ───────────────────────────────────────────────────────────────────────────────────


def test_jobs_of_a_killed_worker_run_again_in_their_places(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    rota.module("""
        @queue.task
        async def work(n, lane):
            note(lane, n)
            await asyncio.sleep(0 if FAST else 60)
    """)
    for lane, key in (("plain", None), ("keyed", "k"), ("!whole", None)):
        queue.sync.enqueue_many(
            JobSpec(task="work", payload=b'{"n": %d, "lane": "%s"}' % (n, lane.encode()),
                    lane=lane, ordering_key=key)
            for n in range(6)
        )  # fmt: skip
    victim = rota.worker("-c", 5, "--lease", LEASE)
    eventually(lambda: len(rota.notes()) == 5, "five jobs run")
    lanes = ("plain", "keyed", "!whole")
    for lane in lanes:
        queue.sync.lane(lane).pause()
    other = rota.worker("-c", 1, "--lease", LEASE, FAST="1")

    victim.signal(signal.SIGKILL)
    end_leases(valkey, queue, victim.pid)
    waiting = [6, 6, 6]
    eventually(
        lambda: [queue.sync.lane(lane).info().waiting for lane in lanes] == waiting,
        "not all jobs are back",
    )
    for lane in lanes:
        queue.sync.lane(lane).resume()
    eventually(lambda: len(rota.notes()) == 5 + 18, "not all jobs ran again", timeout=PATIENCE)
    again = rota.words()[5:]
    for lane in lanes:
        assert [w for w in again if w.startswith(lane)] == [f"{lane} {n}" for n in range(6)]
    other.signal(signal.SIGTERM)
    assert other.wait() == 0
    no_trace_of_workers(valkey, queue)


def test_a_hung_loop_ends_the_process_and_its_job_runs_elsewhere(
    rota: Programs, queue: Queue
) -> None:
    rota.module("""
        @queue.task(timeout=1)
        async def hang(n):
            note("start")
            if not FAST:
                time.sleep(60)
    """)
    queue.sync.enqueue(JobSpec(task="hang", payload=b'{"n": 1}', timeout=1.0))
    hung = rota.worker("--grace", 0.5, "--lease", 2)
    eventually(rota.notes, "the job runs")
    other = rota.worker("--lease", 2, FAST="1")
    assert hung.wait() == 70
    assert "the event loop has hung" in hung.errors
    assert "in hang" in hung.errors  # the stack of the handler
    eventually(lambda: len(rota.notes()) == 2, "the job runs elsewhere", timeout=PATIENCE)
    assert int(rota.notes()[1][1]) == other.pid


# ── records that cannot be read ─────────────────────────────────────────────────────────────

Damage = Callable[[bytes], bytes]

DAMAGES: dict[str, Damage] = {
    "cut in the prefix": lambda record: record[:20],
    "cut in the header": lambda record: record[: PREFIX_WIDTH + 10],
    "cut in the payload": lambda record: record[:-3],
    "no payload": lambda record: record.partition(b"\n")[0] + b"\n",
    "wrong codec": lambda record: record[:-8] + b"\x81\xa1n\x01\xff\xfe",
    "compressed": lambda record: zlib.compress(record),
    "unknown task": lambda record: record.replace(b'"work"', b'"gone"'),
    "missing argument": lambda record: record.replace(b'{"n":', b'{"m":'),
    "header without lane": lambda record: record.replace(b'"lane"', b'"name"'),
    "wrong type": lambda record: record.replace(b'{"n": ', b'{"n": "x", "y": '),
}


def test_records_that_cannot_be_read_go_to_the_dead(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    rota.module("""
        @queue.task
        async def work(n: int): note(n)
    """)
    raw, keys = valkey.raw(decode=False), Keys(queue.name)
    queue.sync.enqueue_many([spec for lane in "abcde" for spec in specs("work", 20, lane)])
    ids = [f"work-{lane}-{n}" for lane in "abcde" for n in range(20)]
    damaged = {}
    for id, damage in zip(ids[::10], DAMAGES.values(), strict=True):
        record = raw.get(keys.key("job", id))
        damaged[id] = damage(record)
        assert damaged[id] != record
        raw.set(keys.key("job", id), damaged[id])

    worker = rota.worker("-c", 4)
    eventually(lambda: len(rota.notes()) == 90, "90 jobs run", timeout=PATIENCE)
    eventually(lambda: queue.sync.info().dead == 10, "ten jobs are dead")
    queue.sync.enqueue_many(specs("work", 1, "after"))
    eventually(lambda: len(rota.notes()) == 91, "the worker goes on")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0

    for id, record in damaged.items():
        assert raw.get(keys.key("job", id)) == record, id
    errors = raw.hgetall(keys.key("errors"))
    assert {id.decode() for id in errors} == set(damaged)
    assert b"gone" in errors[ids[60].encode()]
    assert set(raw.hvals(keys.key("attempts"))) == {b"1"}  # the one it went to the dead with
    assert raw.exists(keys.key("gactive")) == 0
    assert raw.exists(keys.key("gwaiting")) == 0
    info = queue.sync.info()
    assert (info.waiting, info.running, info.dead) == (0, 0, 10)


# ── several processes ───────────────────────────────────────────────────────────────────────

MANY = """
    @queue.task
    def work(n):
        note(n)
        time.sleep(0.05)
"""


def consumers(queue: Queue, server: Server) -> set[str]:
    return set(server.raw().zrange(Keys(queue.name).key("consumers"), 0, -1))


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if os.path.exists(f"/proc/{pid}")}


@pytest.mark.parametrize("count", [1, 2, 8])
def test_processes_are_started_fed_and_stopped(
    rota: Programs, queue: Queue, valkey: Server, count: int
) -> None:
    rota.module(MANY)
    worker = rota.start("worker", "app:queue", "-p", count, "-c", 1)
    eventually(
        lambda: len(consumers(queue, valkey)) == count, f"{count} consumers", timeout=PATIENCE
    )
    queue.sync.enqueue_many(specs("work", 20 * count))
    eventually(lambda: len(rota.notes()) == 20 * count, "all jobs run", timeout=PATIENCE)
    pids = {int(note[1]) for note in rota.notes()}
    assert len(pids) == count
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert consumers(queue, valkey) == set()
    assert alive(pids) == set()
    assert sorted(map(int, rota.words())) == list(range(20 * count))


def test_a_burst_of_processes_ends_by_itself(rota: Programs, queue: Queue) -> None:
    rota.module(MANY)
    queue.sync.enqueue_many(specs("work", 60))
    done = rota("worker", "app:queue", "-p", 2, "-c", 1, "--burst")
    assert done.returncode == 0, done.stderr
    assert sorted(map(int, rota.words())) == list(range(60))


def test_a_killed_process_is_replaced(rota: Programs, queue: Queue, valkey: Server) -> None:
    rota.module(MANY)
    worker = rota.start("worker", "app:queue", "-p", 2, "-c", 1)
    eventually(lambda: len(consumers(queue, valkey)) == 2, "two consumers", timeout=PATIENCE)
    queue.sync.enqueue_many(specs("work", 30))
    eventually(lambda: len(rota.notes()) == 30, "all jobs run", timeout=PATIENCE)
    eventually(lambda: queue.sync.info().running == 0, "nothing runs")
    before = {int(note[1]) for note in rota.notes()}
    os.kill(min(before), signal.SIGKILL)
    worker.says("was killed by SIGKILL")
    eventually(
        lambda: worker.errors.count("rota.worker: working") == 3, "a third", timeout=PATIENCE
    )
    queue.sync.enqueue_many(specs("work", 30, "again"))
    eventually(lambda: len(rota.notes()) == 60, "all jobs run", timeout=PATIENCE)
    after = {int(note[1]) for note in rota.notes()[30:]}
    assert len(after) == 2
    assert min(before) not in after
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


DEADLY = """
    @queue.task
    async def deadly(n, how):
        job = rota.current_job()
        note("run", n, job.suspect)
        if not job.suspect:
            while len({line.split()[1] for line in open(LOG)}) < 2:  # both processes have one
                await asyncio.sleep(0.01)
            exec(how)
"""
ENDS = ("os.kill(os.getpid(), 9)", "os._exit(0)")


@pytest.mark.timeout(180)  # processes start one after the other
def test_what_a_process_held_when_it_died_goes_to_others_at_once(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    """Its parent saw it die, and need not wait for the end of its lease. Deaths are counted."""
    rota.module(DEADLY.replace("LOG", repr(str(rota.log))))
    worker = rota.start("worker", "app:queue", "-p", 2, "-c", 1, "--lease", LEASE)
    eventually(lambda: len(consumers(queue, valkey)) == 2, "two consumers", timeout=2 * PATIENCE)
    queue.sync.enqueue_many(
        JobSpec(task="deadly", payload=b'{"n": %d, "how": "%s"}' % (n, how.encode()), lane=str(n))
        for n, how in enumerate(ENDS)
    )
    eventually(
        lambda: queue.sync.info().totals.get("completed") == 2, "both ran again", timeout=LEASE / 2
    )
    assert sorted(rota.words()) == [f"run {n} {died}" for n in (0, 1) for died in (False, True)]
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert worker.errors.count(f"rota {package.__version__} worker") == 1
    no_trace_of_workers(valkey, queue)


def test_a_parent_outlives_a_server_that_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setattr("rota.work.supervisor.TELL_S", 0.5)
    told = """
from rota.queue import Queue
leash.say('works')
leash.holding(Queue("q", url="redis://127.0.0.1:1"), "consumer")
os._exit(7)
"""
    began = time.monotonic()
    assert supervise(told) == 7
    assert time.monotonic() - began < PATIENCE


def test_children_of_a_killed_parent_stop_gently(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    rota.module(STOPPED)
    parent = rota.start("worker", "app:queue", "-p", 2, "-c", 2)
    eventually(lambda: len(consumers(queue, valkey)) == 2, "two consumers", timeout=PATIENCE)
    queue.sync.enqueue_many(specs("short", 4))
    eventually(lambda: len(rota.notes()) == 4, "four jobs run", timeout=PATIENCE)
    pids = {int(note[1]) for note in rota.notes()}
    assert len(pids) == 2
    parent.signal(signal.SIGKILL)
    eventually(lambda: not alive(pids), "the children end", timeout=PATIENCE)
    assert sorted(w for w in rota.words() if w.startswith("end")) == [
        f"end short {n}" for n in range(4)
    ]
    no_trace_of_workers(valkey, queue)


SLOW = """
import os, pathlib, time

here = pathlib.Path(__file__).parent
(here / "importing").write_text(str(os.getpid()))
while not (here / "go on").exists():
    time.sleep(0.01)

from app import queue
"""


def test_a_child_whose_parent_dies_while_it_imports_ends(rota: Programs) -> None:
    rota.module(STOPPED)
    rota.write("slow.py", SLOW)
    parent = rota.start("worker", "slow:queue", "-p", 2)
    told = rota.folder / "importing"
    eventually(lambda: told.exists() and told.read_text(), "it imports", timeout=PATIENCE)
    child = int(told.read_text())
    parent.signal(signal.SIGKILL)
    parent.process.wait(PATIENCE)
    rota.write("go on", "")
    eventually(lambda: not alive({child}), "the child ends", timeout=PATIENCE)


@pytest.mark.timeout(180)  # processes start one after the other
def test_one_stop_that_reaches_parent_and_children_counts_once(
    rota: Programs, queue: Queue, valkey: Server
) -> None:
    """As `systemctl stop` does. A terminal reaches the parent only: they are other sessions."""
    rota.module(STOPPED)
    parent = rota.start("worker", "app:queue", "-p", 2, "-c", 2, "--grace", LEASE, "--lease", LEASE)
    eventually(lambda: len(consumers(queue, valkey)) == 2, "two consumers", timeout=2 * PATIENCE)
    queue.sync.enqueue_many(specs("long", 2) + specs("short", 2))
    eventually(lambda: len(rota.notes()) == 4, "all run", timeout=PATIENCE)
    pids = {int(note[1]) for note in rota.notes()}
    assert len(pids) == 2
    assert {os.getsid(pid) for pid in pids}.isdisjoint({os.getsid(parent.pid)})

    def everybody(number: int) -> None:
        for pid in (*pids, parent.pid):
            os.kill(pid, number)

    everybody(signal.SIGTERM)
    eventually(lambda: parent.errors.count("stopping: waiting") == 2, "both stop", timeout=PATIENCE)
    eventually(
        lambda: queue.sync.info().totals.get("completed") == 2,
        "short jobs may end",
        timeout=PATIENCE,
    )
    everybody(signal.SIGINT)
    assert parent.wait() == 130
    assert alive(pids) == set()
    no_trace_of_workers(valkey, queue)
    assert queue.sync.info().waiting == 2


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["app:nope"], 2, "no attribute 'nope'"),
        (["app:nope", "--burst"], 2, "no attribute 'nope'"),
        (["app:queue", "--url", "redis://127.0.0.1:1"], 3, "cannot be reached"),
    ],
)
def test_what_is_wrong_is_said_once(rota: Programs, words: list[str], code: int, text: str) -> None:
    rota.module(MANY)
    done = rota("worker", *words, "-p", 4)
    assert done.returncode == code
    assert done.stderr.count(text) == 1


CHILD = """
import os, signal, sys, time
from rota.work.supervisor import find_leash
leash = find_leash()
assert "LEASH" not in str(os.environ)
{body}
"""


def supervise(
    body: str, *, burst: bool = True, stop_when: Callable[[], object] | None = None
) -> int:
    async def run() -> int:
        command = [sys.executable, "-c", CHILD.format(body=body)]
        supervisor = Supervisor(command, count=3, grace=1, burst=burst)
        running = asyncio.create_task(supervisor.run())
        if stop_when is not None:
            await eventually_async(stop_when, "not all children work", timeout=PATIENCE)
            supervisor.stop()
        return await running

    return asyncio.run(run())


@pytest.mark.timeout(180)
def test_exit_codes_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    assert supervise("leash.say('works')") == 0
    assert (
        supervise("leash.say('works'); sys.exit(leash.number + 4 if leash.number > 1 else 0)") == 6
    )
    assert supervise("sys.exit(7)") == 7
    assert supervise("sys.exit(0)", burst=False) == 0
    once = tmp_path / "once"
    killed_once = f"""
leash.say('works')
if leash.number == 2 and not os.path.exists({str(once)!r}):
    open({str(once)!r}, "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert supervise(killed_once) == 0
    assert once.exists()
    deaf = f"""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
leash.say('works')
open({str(tmp_path)!r} + f"/deaf{{leash.number}}", "w").close()
time.sleep(60)
"""
    monkeypatch.setattr("rota.work.supervisor.STOP_SPARE_S", 0.1)
    code = supervise(deaf, burst=False, stop_when=lambda: len(list(tmp_path.glob("deaf*"))) == 3)
    assert code == 128 + signal.SIGKILL
    assert supervise("time.sleep(60)", burst=False, stop_when=lambda: True) == 0
