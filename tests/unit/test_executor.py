"""How a handler's time-out ends it, whatever kind of function it is."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

import rota
from rota.task import AnyTask
from rota.values.endings import Ending, Failed
from rota.work.executor import Executor, Run
from tests.support.times import IN_TIME

LIMIT = 0.05


@pytest.fixture
async def executor() -> AsyncIterator[Executor]:
    executor = Executor(threads=1)
    yield executor
    executor.close()


def directly(function: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    return function


def plainly(function: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner() -> Awaitable[None]:
        return function()

    return inner


def as_future(function: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    """What is awaited need not be a coroutine."""
    loop = asyncio.get_running_loop()

    def inner() -> Awaitable[None]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(), loop), loop=loop)  # type: ignore[arg-type]

    return inner


WRAPPERS = (directly, plainly, as_future)


async def run(executor: Executor, function: Callable[..., Any], timeout: float | None) -> Ending:
    task: AnyTask = rota.Queue("orders").task(name="work")(function)
    job = rota.Job(
        id="1", task="work", lane="a", ordering_key=None, priority=0, attempt=1, max_attempts=1,
        timeout=timeout, on_dead="skip", charge="cost", expires=None, enqueued_at=0,
        payload=b"{}", delivery="1", suspect=False, place=0,
    )  # fmt: skip
    return await executor.execute(Run(job), task)


@pytest.mark.parametrize("wrapped", WRAPPERS)
async def test_a_handler_over_its_time_out_is_cancelled_and_says_so(
    executor: Executor, wrapped: Callable[..., Any]
) -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    ending = await run(executor, wrapped(work), LIMIT)
    assert isinstance(ending, Failed)
    assert (ending.kind, ending.error) == ("TimeoutError", f"timed out after {LIMIT} s")
    await asyncio.wait_for(cancelled.wait(), IN_TIME)


@pytest.mark.parametrize("wrapped", WRAPPERS)
@pytest.mark.parametrize("timeout", [None, IN_TIME])
async def test_a_handlers_own_time_out_is_its_error(
    executor: Executor, wrapped: Callable[..., Any], timeout: float | None
) -> None:
    async def work() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    ending = await run(executor, wrapped(work), timeout)
    assert isinstance(ending, Failed)
    assert ending.kind == "TimeoutError"
    assert str(ending.error).startswith("Traceback")


@pytest.mark.parametrize("wrapped", WRAPPERS)
@pytest.mark.parametrize("timeout", [None, IN_TIME])
async def test_a_handler_within_its_time_out_is_done(
    executor: Executor, wrapped: Callable[..., Any], timeout: float | None
) -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    assert await run(executor, wrapped(work), timeout) is None


# ── groups of signals ───────────────────────────────────────────────────────────────────────────


def pick(*signals: BaseException) -> BaseException:
    """What a handler raises whose parts raise these, in groups inside one another."""
    return BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [one]) for one in signals])


CASES: list[tuple[list[BaseException], type[BaseException], float | None]] = [
    ([rota.Release(3)], rota.Release, 3),
    ([rota.Release(), rota.Retry(2), rota.Release(5)], rota.Retry, 2),
    ([rota.Retry(1), rota.Retry(), rota.Retry(4), rota.Retry(2)], rota.Retry, 4),
    ([rota.Retry(), rota.Retry(0)], rota.Retry, 0),
    ([rota.Retry(), rota.Retry()], rota.Retry, None),
    ([rota.Retry(9), rota.RateLimited(1), rota.RateLimited(3)], rota.RateLimited, 3),
    ([rota.RateLimited(9), rota.Bury("a"), rota.Bury("b")], rota.Bury, None),
    ([rota.Bury("a"), ValueError("b")], Failed, None),
    ([rota.Release(), asyncio.CancelledError()], Failed, None),
    ([rota.Release(), KeyboardInterrupt()], Failed, None),
    ([rota.Release(), rota.values.signals.Signal()], Failed, None),
]


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(("raised", "expected", "delay"), CASES)
async def test_a_group_of_signals_is_the_strongest_of_them(
    executor: Executor,
    raised: list[BaseException],
    expected: type[BaseException],
    delay: float | None,
    kind: str,
) -> None:
    async def work() -> None:
        raise pick(*raised)

    def plain() -> None:
        raise pick(*raised)

    ending = await run(executor, work if kind == "async" else plain, IN_TIME)
    assert type(ending) is expected
    assert getattr(ending, "delay", None) == delay
    if isinstance(ending, rota.Bury):
        assert ending.reason == "a"
    if isinstance(ending, Failed):
        assert str(ending.error).startswith("+ Exception Group Traceback")


async def test_a_task_groups_signals_steer_the_job(executor: Executor) -> None:
    async def part(signal: Exception | None) -> None:
        if signal is None:
            await asyncio.sleep(IN_TIME)
        else:
            raise signal

    async def work(signals: Any) -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(part(None))
            async with asyncio.TaskGroup() as inner:
                for signal in signals:
                    inner.create_task(part(signal))

    ending = await run(executor, partial(work, [rota.Retry(1), None, rota.RateLimited(7)]), IN_TIME)
    assert isinstance(ending, rota.RateLimited)
    assert ending.delay == 7
    ending = await run(executor, partial(work, [rota.Retry(1), None, ValueError("x")]), IN_TIME)
    assert isinstance(ending, Failed)
    assert "ValueError: x" in str(ending.error)


async def test_groups_without_end_are_looked_at_once(executor: Executor) -> None:
    group: ExceptionGroup[Exception] = ExceptionGroup("x", [rota.Release(), rota.Retry(2)])
    for _ in range(60):
        group = ExceptionGroup("x", [group, group])

    async def work() -> None:
        raise group

    assert isinstance(await run(executor, work, None), rota.Retry)


# ── bodies that nobody runs ─────────────────────────────────────────────────────────────────────


def rows() -> Iterator[int]:
    yield 1


async def pages() -> AsyncIterator[int]:
    yield 1


async def call() -> int:
    return 1


UNRUN = {"a generator": rows, "an async generator": pages, "a coroutine": call}


@pytest.mark.parametrize("timeout", [None, IN_TIME])
@pytest.mark.parametrize("what", UNRUN)
@pytest.mark.parametrize("how", ["plain", "async"])
async def test_a_body_that_nobody_runs_is_a_failure_that_says_so(
    executor: Executor, how: str, what: str, timeout: float | None
) -> None:
    async def on_loop() -> object:
        return UNRUN[what]()

    def in_thread() -> object:
        return UNRUN[what]()

    ending = await run(executor, on_loop if how == "async" else in_thread, timeout)
    if how == "plain" and what == "a coroutine":
        assert ending is None, "an async handler behind a plain wrapper is awaited"
        return
    assert isinstance(ending, Failed)
    assert ending.kind == "TypeError"
    assert str(ending.error).startswith(f"the handler returned {what}, whose body nobody runs")


async def test_other_answers_are_nobodys_concern(executor: Executor) -> None:
    used = rows()
    next(used)
    spent = rows()
    list(spent)
    read = pages()
    _ = [page async for page in read]
    task = asyncio.create_task(call())
    for answer in (0, "x", [1], iter([1]), range(3), used, spent, read, task, call, rows):

        async def work(answer: object = answer) -> object:
            return answer

        assert await run(executor, partial(work), None) is None
    assert await task == 1
