"""How a handler's time-out ends it, whatever kind of function it is."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import rota
from rota.endings import Ending, Failed
from rota.executor import Executor
from rota.task import AnyTask
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
    return await executor.execute(job, task)


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
    assert ending.error.startswith("Traceback")


@pytest.mark.parametrize("wrapped", WRAPPERS)
@pytest.mark.parametrize("timeout", [None, IN_TIME])
async def test_a_handler_within_its_time_out_is_done(
    executor: Executor, wrapped: Callable[..., Any], timeout: float | None
) -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    assert await run(executor, wrapped(work), timeout) is None
