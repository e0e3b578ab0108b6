"""The waiting helpers say what they waited for."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from tests.support.waiting import eventually, eventually_async


def test_answers_the_first_true_value() -> None:
    numbers = count()
    assert eventually(lambda: next(numbers), "a number above zero") == 1


def test_says_what_was_missing_and_what_came_last() -> None:
    with pytest.raises(AssertionError, match=r"three apples .*0\.02 s; last answer: 0"):
        eventually(lambda: 0, "three apples", timeout=0.02)


def test_a_failing_assertion_is_not_yet_an_error_is_one() -> None:
    def apples() -> bool:
        assert [] == ["apple"]
        return True

    with pytest.raises(AssertionError, match="one apple"):
        eventually(apples, "one apple", timeout=0.02)
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0, "never")


async def test_async_takes_both_kinds_of_predicate_and_lets_the_loop_run() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    assert await eventually_async(done.is_set, "the event")

    async def answer() -> str:
        await asyncio.sleep(0)
        return "yes"

    assert await eventually_async(answer, "an answer") == "yes"
    with pytest.raises(AssertionError, match="no answer"):
        await eventually_async(lambda: None, "no answer", timeout=0.02)
