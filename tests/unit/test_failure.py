"""The line that is shown of a failure, from real tracebacks."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import msgspec
import pydantic
import pytest

from rota.endings import ERROR_MAX, error_text
from rota.failure import headline


class Model(pydantic.BaseModel):
    number: int
    other: int


def several_lines() -> None:
    raise ValueError("first line\nsecond line\n  third line")


def invalid() -> None:
    Model.model_validate({"number": "x", "other": "y"})


def group() -> None:
    inner = ExceptionGroup("inner", [KeyError("a"), caught(chained)])
    raise ExceptionGroup("outer\nand more", [caught(several_lines), inner])


def chained() -> None:
    try:
        several_lines()
    except ValueError as error:
        raise RuntimeError("the last\none") from error


def chained_while_handling() -> None:
    try:
        group()
    except ExceptionGroup:
        raise LookupError("after a group") from None


def a_group_while_handling() -> None:
    try:
        several_lines()
    except ValueError:
        group()


def a_plain_one_after_a_group() -> None:
    try:
        group()
    except ExceptionGroup as error:
        raise LookupError("after a group") from error


def syntax() -> None:
    compile("x = = 1", "some.py", "exec")


def nothing_to_say() -> None:
    raise KeyError


def too_deep() -> None:
    too_deep()


def with_notes() -> None:
    error = ValueError("what\nelse")
    error.add_note("a note")
    raise error


def caught(function: Callable[[], None]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


def text(error: Exception) -> str:
    return "".join(traceback.format_exception(error))


CASES: list[tuple[Callable[[], None], str]] = [
    (several_lines, "ValueError: first line"),
    (invalid, "pydantic_core._pydantic_core.ValidationError: 2 validation errors for Model"),
    (group, "ExceptionGroup: outer"),
    (chained, "RuntimeError: the last"),
    (chained_while_handling, "LookupError: after a group"),
    (a_group_while_handling, "ExceptionGroup: outer"),
    (a_plain_one_after_a_group, "LookupError: after a group"),
    (syntax, "SyntaxError: invalid syntax"),
    (nothing_to_say, "KeyError"),
    (too_deep, "RecursionError: maximum recursion depth exceeded"),
    (with_notes, "ValueError: what"),
]


@pytest.mark.parametrize(("function", "expected"), CASES)
def test_a_traceback_comes_to_what_its_last_exception_says(
    function: Callable[[], None], expected: str
) -> None:
    whole = text(caught(function))
    for shown in (whole, whole.strip(), whole + "\n\n"):
        assert headline(shown) == expected


@pytest.mark.parametrize(("function", "expected"), CASES)
def test_without_a_traceback_too(function: Callable[[], None], expected: str) -> None:
    whole = text(caught(function).with_traceback(None))
    assert headline(whole) == headline(whole.strip()) == expected


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("timed out after 0.2 s", "timed out after 0.2 s"),
        ("the card is gone\nask them\nfor another", "the card is gone"),
        ("\n\n  indented\nmore", "indented"),
        ("+ a list\n| of things", "+ a list"),
        ("one\rtwo", "one"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("", ""),
        (" \n ", ""),
        (None, ""),
    ],
)
def test_of_other_texts_the_first_line_that_says_anything(plain: str | None, expected: str) -> None:
    assert headline(plain) == expected


def test_a_long_error_keeps_its_headline_when_it_is_cut() -> None:
    def long() -> None:
        raise ValueError("what it is\n" + "\n".join(f"detail {n}" for n in range(5000)))

    def longer() -> None:
        before = "".join(f"{'x' * 50} {n}\n" for n in range(100))
        try:
            raise ValueError(before)
        except ValueError as error:
            raise ExceptionGroup("all of it", [error, ValueError(before)]) from error

    for function, expected in (
        (long, "ValueError: what it is"),
        (longer, "ExceptionGroup: all of it (2 sub-exceptions)"),
    ):
        kept = msgspec.json.decode(error_text(text(caught(function))))["error"]
        assert headline(kept) == expected
        assert len(kept) <= ERROR_MAX + len("\n…\n\n…\n")
