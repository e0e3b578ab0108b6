"""Loggers, observers and tracers are told of jobs and decide nothing, whatever they raise."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider

import rota
from rota.observe.observer import Observer
from rota.values import telling
from rota.values.telling import Logger
from rota.work.watchdog import HUNG_EXIT, Watchdog
from rota.worker import Worker
from tests.failures.tools import stats, until_done, working
from tests.support.faulty import Break
from tests.support.queues import assert_sound, end_lease, held_on_server, open_queue
from tests.support.servers import Server
from tests.support.times import LEASE, SHORT_BEAT
from tests.support.waiting import eventually_async

LOGGERS = [f"rota.{name}" for name in ("job", "worker", "executor", "timing")]
ERRORS = (RuntimeError, SystemExit, asyncio.CancelledError, RecursionError)


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is said, and complaints anew."""
    monkeypatch.setattr(telling.safely, "_complained", set())
    for name in ("rota", *LOGGERS):
        logger = logging.getLogger(name)
        monkeypatch.setattr(logger, "level", logging.DEBUG)
        logger.manager._clear_cache()  # type: ignore[attr-defined]  # else levels asked for stand


# ── those who raise ─────────────────────────────────────────────────────────────────────────────


def raises(error: type[BaseException]) -> Callable[..., Any]:
    def function(*_: object, **__: object) -> Any:
        raise error("telling failed")

    return function


@contextmanager
def a_filter(error: type[BaseException]) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in LOGGERS]
    broken = raises(error)
    for logger in loggers:
        logger.addFilter(broken)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(broken)


@contextmanager
def a_handler(error: type[BaseException]) -> Iterator[None]:
    handler = logging.NullHandler()
    handler.handle = raises(error)  # type: ignore[method-assign]
    logging.getLogger("rota").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("rota").removeHandler(handler)


@contextmanager
def record_factory(change: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    usual = logging.getLogRecordFactory()

    def factory(*args: Any, **named: Any) -> logging.LogRecord:
        record = usual(*args, **named)
        if record.name.startswith("rota"):
            change(record)
        return record

    logging.setLogRecordFactory(factory)
    try:
        yield
    finally:
        logging.setLogRecordFactory(usual)


@contextmanager
def a_record_factory(error: type[BaseException]) -> Iterator[None]:
    with record_factory(raises(error)):
        yield


class Deaf(Observer):
    """Raises whatever it is told."""

    __slots__ = ("error", "heard")

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error
        self.heard: Counter[str] = Counter()


def _deafen(name: str) -> Callable[..., None]:
    def method(self: Deaf, *_: object) -> None:
        self.heard[name] += 1
        raise self.error("deaf")

    return method


METHODS = [name for name, _ in inspect.getmembers(Observer, inspect.isfunction) if name[0] != "_"]
for _name in METHODS:
    setattr(Deaf, _name, _deafen(_name))


class Processor(SpanProcessor):
    """Raises when a span begins, or ends."""

    def __init__(self, when: str, error: type[BaseException]) -> None:
        setattr(self, when, raises(error))


TRACERS: dict[str, Callable[[type[BaseException]], dict[str, Any]]] = {
    "a tracer": lambda error: {"start_span": raises(error), "start_as_current_span": raises(error)},
    "attributes": lambda error: {"set_attribute": raises(error)},
    "links": lambda error: {"add_link": raises(error)},
    "statuses": lambda error: {"set_status": raises(error)},
    "events": lambda error: {"add_event": raises(error), "record_exception": raises(error)},
    "contexts": lambda error: {"get_span_context": raises(error)},
    "begins": lambda error: {"on_start": Processor("on_start", error)},
    "ends": lambda error: {"on_end": Processor("on_end", error)},
}


@contextmanager
def a_tracer(error: type[BaseException], how: str) -> Iterator[None]:
    broken = TRACERS[how](error)
    with pytest.MonkeyPatch.context() as patch:
        provider: Any = TracerProvider(shutdown_on_exit=False)
        for name, thing in broken.items():
            if isinstance(thing, SpanProcessor):
                provider.add_span_processor(thing)
            elif name.startswith("start"):
                patch.setattr(type(provider.get_tracer("x")), name, thing)
            else:
                patch.setattr(Span, name, thing)
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        yield


@contextmanager
def a_provider(error: type[BaseException]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "get_tracer_provider", raises(error))
        yield


WAYS: dict[str, Callable[[type[BaseException]], Any]] = {
    "a filter": a_filter,
    "a handler": a_handler,
    "a record factory": a_record_factory,
    "a tracer provider": a_provider,
    **{f"tracing: {how}": partial(a_tracer, how=how) for how in TRACERS},
}


# ── the jobs ────────────────────────────────────────────────────────────────────────────────────


class Jobs:
    """One of each kind of ending, in a lane and a sequence that stand still if one is missing."""

    def __init__(self, queue: rota.Queue) -> None:
        self.queue = queue
        self.ran: Counter[str] = Counter()

        @queue.task(max_attempts=2)
        async def work(name: str) -> None:
            self.ran[name] += 1
            if "again" in name and self.ran[name] == 1:
                raise rota.Retry(0)
            if "goes back" in name and self.ran[name] == 1:
                raise rota.Release
            if "limited" in name and self.ran[name] == 1:
                raise rota.RateLimited(0.001)
            if "bad" in name:
                raise rota.Bury("bad")

        @queue.task(timeout=0.001, max_attempts=1)
        def in_thread(name: str) -> None:
            self.ran[name] += 1
            time.sleep(0.01)
            if "bad" in name:
                raise ValueError(name)

        self.work, self.in_thread = work, in_thread

    async def enqueue(self) -> tuple[int, int]:
        """How many will be done and how many dead."""
        names = ("fine", "again", "goes back", "limited", "bad", "last")
        for lane in ("one", "!o"):
            one = self.work.options(lane=lane)
            await self.queue.enqueue_many([one.spec(f"{lane} {name}") for name in names])
            await self.queue.enqueue(rota.JobSpec(task="nobody's", lane=lane))
            for name in ("thread", "bad thread"):
                await self.in_thread.options(lane=lane).enqueue(f"{lane} {name}")
        return 12, 6

    async def until_over(self, server: Server, done: int, dead: int) -> None:
        await until_done(server, self.queue, done)
        await until_done(server, self.queue, dead, name="buried")


async def all_end(server: Server, jobs: Jobs, worker: Worker) -> None:
    """Twice: the worker lives on, permits and sequences are free."""
    for times in (1, 2):
        done, dead = await jobs.enqueue()
        await jobs.until_over(server, times * done, times * dead)
        assert worker.health().healthy, worker.health()
        jobs.ran.clear()
    tally = worker.fetchers[0].tally
    await eventually_async(lambda: tally.done + tally.dead == 2 * (done + dead), "not counted")
    assert (tally.done, tally.dead, tally.lost) == (2 * done, 2 * dead, 0)
    found = assert_sound(server, jobs.queue)
    assert not found.get("gactive")
    assert not found.get("held")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("way", WAYS)
async def test_whoever_is_told_of_jobs_decides_nothing(
    server: Server,
    queue: rota.Queue,
    way: str,
    error: type[BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    jobs = Jobs(queue)
    await queue.lane("one").set(ceiling=1)
    with WAYS[way](error):
        async with working(queue) as worker:
            await all_end(server, jobs, worker)
    said = capsys.readouterr().err
    kinds = said.count("telling of its work failed")
    assert 1 <= kinds <= 20, "it is said, and once of each kind and place"
    assert error.__name__ in said


@pytest.mark.parametrize("error", ERRORS)
async def test_an_observer_decides_nothing(
    server: Server, queue: rota.Queue, error: type[BaseException]
) -> None:
    jobs, deaf = Jobs(queue), Deaf(error)
    await queue.lane("one").set(ceiling=1)
    async with working(queue) as worker:
        worker.observe(queue, deaf)
        await all_end(server, jobs, worker)
    assert deaf.heard["settled"] >= 24, "the others are told of although one raised"
    assert deaf.heard["refused"] == 4
    assert {"called", "claimed", "ran"} <= deaf.heard.keys()


async def test_an_observer_of_troubles_decides_nothing(
    server: Server, queue_name: str, faulty: Break
) -> None:
    """Of a lost lease, and of a server that refuses."""
    proxy = faulty(server)
    async with open_queue(proxy.url, queue_name, beat=SHORT_BEAT) as queue:
        jobs, deaf = Jobs(queue), Deaf(RuntimeError)
        async with working(queue) as worker:
            worker.observe(queue, deaf)
            await jobs.work.enqueue("before")
            await until_done(server, queue, 1)
            proxy.plant("exchange", "OOM", 2)
            await jobs.work.enqueue("refused")
            await until_done(server, queue, 2)
            (consumer,) = held_on_server(server, queue)
            end_lease(server, queue, consumer)
            await jobs.work.enqueue("after")
            await until_done(server, queue, 3)
            await eventually_async(lambda: deaf.heard["lease_lost"], "it is not told")
    assert deaf.heard["failed"] == 2
    assert deaf.heard.keys() == set(METHODS) - {"refused"}


async def test_where_a_record_has_our_fields_already_the_line_is_said_with_the_others(
    server: Server, queue: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rota")

    def mine(record: logging.LogRecord) -> None:
        record.task = record.queue = record.lane = "the application's"

    jobs = Jobs(queue)
    await queue.lane("one").set(ceiling=1)
    with record_factory(mine):
        async with working(queue) as worker:
            await all_end(server, jobs, worker)
    lines = [vars(one) for one in caplog.records if one.name == "rota.job"]
    assert {(one["task"], one["queue"], one["lane"]) for one in lines} == {
        ("the application's",) * 3
    }
    assert Counter(one["outcome"] for one in lines) == {
        "completed": 24, "retried": 4, "released": 4, "blocked": 4, "buried": 8, "refused": 4,
    }  # fmt: skip


def test_a_line_names_the_place_that_says_it(caplog: pytest.LogCaptureFixture) -> None:
    logger = Logger("rota.job")
    logger.warning("here")
    try:
        raise ValueError
    except ValueError:
        logger.exception("and %s", "there", extra={"queue": "q"})
    first, second = caplog.records
    assert {one.funcName for one in caplog.records} == {"test_a_line_names_the_place_that_says_it"}
    assert (first.getMessage(), second.getMessage()) == ("here", "and there")
    assert second.exc_info is not None
    assert second.exc_info[0] is ValueError
    assert vars(second)["queue"] == "q"


def test_the_end_of_the_process_passes_through() -> None:
    logger = Logger("rota.job")
    with a_filter(KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        logger.warning("here")


def test_without_a_stderr_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with a_filter(RuntimeError):
        Logger("rota.job").warning("here")


async def test_a_hung_loop_ends_its_process_although_nobody_can_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: list[int] = []
    watchdog = Watchdog([], grace=0)
    monkeypatch.setattr(watchdog, "_limit", lambda: -1.0)
    monkeypatch.setattr("os._exit", ends.append)
    monkeypatch.setattr("faulthandler.dump_traceback", raises(RuntimeError))
    with a_filter(RuntimeError):
        watchdog.look()
        watchdog.look()
    assert ends == [HUNG_EXIT]


async def test_a_tracer_that_raises_does_not_fail_an_enqueue(
    server: Server, queue: rota.Queue
) -> None:
    jobs = Jobs(queue)
    for n, how in enumerate(TRACERS, 1):
        with ExitStack() as stack:
            stack.enter_context(a_tracer(RuntimeError, how))
            assert (await jobs.work.enqueue(how)).outcome == "created"
            assert queue.sync.enqueue(jobs.work.spec(how)).outcome == "created"
            many = await queue.enqueue_many([jobs.work.spec(how) for _ in range(2)])
            assert [one.outcome for one in many] == ["created"] * 2
        assert stats(server, queue)["enqueued"] == 4 * n
    with a_tracer(RuntimeError, "ends"), pytest.raises(rota.ConfigError):
        await jobs.work.options(lane="").enqueue("its own error")


async def test_a_worker_ends_with_what_it_did_although_nobody_can_be_told(
    server: Server, queue: rota.Queue
) -> None:
    jobs = Jobs(queue)
    worker = Worker(queue, lease=LEASE)
    worker.observe(queue, Deaf(RuntimeError))
    for name in ("fine", "again", "bad"):
        await jobs.work.enqueue(name)
    with a_filter(RuntimeError):
        assert await worker.run(burst=True) == rota.Drained(done=2, retried=1, dead=1, left=0)
