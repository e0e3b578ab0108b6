"""The line that is shown of a failure, from real tracebacks."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import msgspec
import pydantic
import pytest

from rota.values.endings import ERROR_MAX, Failed, error_text
from rota.values.failure import REPORT_MAX, headline, report


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


# ── of any size ─────────────────────────────────────────────────────────────────────────────────


def raised(error: Exception) -> Exception:
    def function() -> None:
        raise error

    return caught(function)


def lines(n: int) -> Exception:
    return raised(ValueError("what it is\n" + "detail\n" * n))


def a_line(n: int) -> Exception:
    return raised(ValueError("what it is\n" + "x" * n))


def frames(n: int) -> Exception:
    return raised(ValueError("what it is\n" + '  File "some.py", line 3, in there\n' * n))


def blanks(n: int) -> Exception:
    return raised(ValueError("what it is\n" + " " * n + "\n" * n))


def notes(n: int) -> Exception:
    error = ValueError("what it is")
    for _ in range(n):
        error.add_note("a note")
    return raised(error)


def a_note(n: int) -> Exception:
    error = ValueError("what it is")
    error.add_note("a note\n" * n)
    return raised(error)


def members(n: int) -> Exception:
    one = raised(ValueError("one of them"))
    return raised(ExceptionGroup("what it is", [one, *(ValueError(str(i)) for i in range(n))]))


def nested(n: int) -> Exception:
    error: ExceptionGroup[Exception] = ExceptionGroup("inner", [ValueError("x")])
    for _ in range(n):
        error = ExceptionGroup("inner", [error, error])
    return raised(ExceptionGroup("what it is", [error]))


def causes(n: int) -> Exception:
    error = raised(ValueError("the first"))
    for number in range(n):
        follower = ValueError(f"number {number}")
        follower.__cause__ = error
        error = follower
    last = ValueError("what it is")
    last.__context__ = error
    return raised(last)


def stack(n: int) -> Exception:
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        raise ValueError("what it is")

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + n)
    try:
        return caught(lambda: deep(n))
    finally:
        sys.setrecursionlimit(limit)


HUGE = (lines, a_line, frames, blanks, notes, a_note, members, nested, causes, stack)


def work(function: Callable[[], object]) -> int:
    """How many calls it makes, of Python's functions and of C's: no clock tells."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("huge", HUGE)
def test_the_work_for_an_exception_does_not_grow_with_it(
    huge: Callable[[int], Exception],
) -> None:
    def tell(error: Exception) -> None:
        ending = Failed.by(error)
        assert ending.error is not None
        headline(ending.error)
        error_text(ending.error)

    large, larger = huge(5_000), huge(40_000)
    tell(large)  # reads the source
    assert work(lambda: tell(larger)) <= 1.2 * work(lambda: tell(large))


@pytest.mark.parametrize("huge", [one for one in HUGE if one is not frames])
def test_an_exception_of_any_size_keeps_its_headline(huge: Callable[[int], Exception]) -> None:
    told = report(huge(5_000))
    assert len(told) <= REPORT_MAX + 1000
    first = headline(told)
    assert first.removesuffix(" sub-exceptions)").rstrip("(0123456789 ") in (
        "ValueError: what it is",
        "ExceptionGroup: what it is",
        "ExceptionGroup: what it is (1 sub-exception)",
    )
    kept = msgspec.json.decode(error_text(told))["error"]
    assert headline(kept) == first
    assert len(kept) <= ERROR_MAX + len("\n…\n\n…\n")


@pytest.mark.parametrize("line", ["\n", "x", "x\n", " ", 'File "a", line 1\n', "…\n", "+ | "])
def test_the_work_for_a_text_does_not_grow_with_it(line: str) -> None:
    def tell(error: str) -> None:
        assert len(error_text(error)) <= 3 * ERROR_MAX
        assert len(headline(error)) <= 1000

    assert work(lambda: tell(line * 1_600_000)) <= 1.2 * work(lambda: tell(line * 200_000))


def test_an_exception_that_cannot_say_what_it_is_is_reported() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

        __repr__ = __str__

    assert headline(report(raised(Mute()))).endswith("Mute: <exception str() failed>")


def test_a_usual_exception_is_reported_as_python_shows_it() -> None:
    for function, _ in CASES:
        if function is not too_deep:
            error = caught(function)
            assert report(error) == text(error).strip()
