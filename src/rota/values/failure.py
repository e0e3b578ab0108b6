"""What is told of a failure: a report of an exception, and its headline where there is room for a
line. Others' texts and chains may be of any size: they are cut before they are looked at."""

from __future__ import annotations

import re
import traceback
from types import TracebackType

from rota.values.names import visible

REPORT_MAX = 16_000
"""Characters; of a longer text its beginning and its end are looked at."""
HEADLINE_MAX = 1000
MESSAGE_MAX = 2000
"""How much of one exception's message, or of its notes, stands in a report that is shortened."""
FRAMES_MAX, ERRORS_MAX = 300, 20
"""How many frames, and how many exceptions that belong to it, an exception may have whose report
is not shortened; a shortened one shows a tenth of these frames of each end of a stack."""

CUT = "…"
"""The line that stands for what was left out of a long text. Between two of them stands the
headline, where it would have been left out."""

_FRAME = re.compile(r'\s+File "[^\n]*", line \d+')
_HEADER = re.compile(r"(Exception Group )?Traceback \(most recent call last\):")
_GROUP = re.compile(r"\s*\+ Exception Group Traceback \(most recent call last\):")
_MEMBERS = re.compile(r"\s*\+-\+-{4,}")
_BESIDE = re.compile(r"\s*[|+] ?")
_LEFT_OUT = " [...] "
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)


def cut(text: str, most: int, mark: str = f"\n{CUT}\n") -> str:
    """Of a longer text its beginning and its end, together so many characters."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}{mark}{text[-half:]}"


def brief(error: str, most: int, what: str | None = None) -> str:
    """`cut`, in which what the error comes to is kept, wherever it stands."""
    if len(error) <= most:
        return error
    short, half = cut(error, most), most // 2
    what = headline(error) if what is None else what
    if headline(short).startswith(what):
        return short
    return f"{error[:half]}\n{CUT}\n{what}\n{CUT}\n{error[len(what) - half :]}"


def headline(error: str | None) -> str:
    """What an error comes to, on one line of bounded length, nothing in it but what can be printed;
    '' where there is no text.

    Of a traceback the first line of what its last exception says, with the exception's name; of
    a group what the group says. Of any other text the first line that says anything.
    """
    line = _headline(cut(error or "", REPORT_MAX))
    return visible(line[:HEADLINE_MAX])[:HEADLINE_MAX]


def _headline(error: str) -> str:
    lines = error.split("\n")
    if lines.count(CUT) == 2 and lines[(first := lines.index(CUT)) + 2 :][:1] == [CUT]:
        return lines[first + 1].strip()
    lines = _last_exception(lines)
    frames = [n for n, line in enumerate(lines) if _FRAME.match(line)]
    if not frames and _FRAME.match(" " + lines[0]):  # a syntax error's place, stripped
        frames = [0]
    rest = lines[frames[-1] + 1 :] if frames else lines
    said = [line for line in rest if line.strip() and not _is_frame_work(line)]
    # What a frame shows of the source is indented.
    found = next((line for line in said if not (frames and line[0].isspace())), None)
    if found is None:  # the text was cut before that line
        found = next((line for line in reversed(lines) if line.strip()), "")
    return next(iter(found.strip().splitlines()), "")


def _last_exception(lines: list[str]) -> list[str]:
    for n in range(len(lines) - 1, -1, -1):
        if lines[n] in _CHAINED and any(line.strip() for line in lines[n + 1 :]):
            lines = lines[n + 1 :]
            break
    lines = lines[next((n for n, line in enumerate(lines) if line.strip()), len(lines) - 1) :]
    members = next((n for n, line in enumerate(lines) if _MEMBERS.match(line)), None)
    if _GROUP.match(lines[0]) or (members is not None and _BESIDE.match(lines[0])):
        return [_BESIDE.sub("", line, count=1) for line in lines[:members]]
    return lines


def _is_frame_work(line: str) -> bool:
    return line == CUT or _HEADER.fullmatch(line.strip()) is not None


# ── reports ─────────────────────────────────────────────────────────────────────────────────────


def report(error: BaseException) -> str:
    """An exception as Python shows it, its traceback included. One with much to show (a message of
    megabytes, thousands of members, causes or frames) is shortened: what is done for it, besides
    asking it for its message, has a bound."""
    if _is_ordinary(error):
        text = "".join(traceback.format_exception(error)).strip()
    else:
        text = _shortened(error)
    return brief(text, REPORT_MAX, headline(_said(error)))


def _is_ordinary(error: BaseException) -> bool:
    rest, seen, frames, size = [error], set[int](), 0, 0
    while rest:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        trace = one.__traceback__
        while trace is not None and frames <= FRAMES_MAX:
            trace, frames = trace.tb_next, frames + 1
        notes = _notes(one)
        size += len(_message(one)) + sum(map(len, notes))
        if max(len(seen), len(notes)) > ERRORS_MAX or frames > FRAMES_MAX or size > REPORT_MAX:
            return False
        if isinstance(one, BaseExceptionGroup):
            rest += one.exceptions[: ERRORS_MAX + 1]
        rest += [other for other in (one.__cause__, one.__context__) if other is not None]
    return True


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # its own __str__: another's code
        return "<exception str() failed>"


def _notes(error: BaseException) -> list[str]:
    notes = getattr(error, "__notes__", None)
    given = notes[: ERRORS_MAX + 1] if isinstance(notes, list) else ()
    return [note for note in given if isinstance(note, str)]


def _shortened(error: BaseException) -> str:
    """The exception and the nearest of those it came from."""
    text, seen = _alone(error), {id(error)}
    while (cause := error.__cause__) or not error.__suppress_context__:
        before = cause or error.__context__
        if before is None or id(before) in seen:
            return text
        if len(seen) == ERRORS_MAX // 2:
            return f"{_LEFT_OUT.strip()}\n\n{text}"
        text = f"{_alone(before)}\n\n{_CHAINED[cause is not None]}\n\n{text}"
        seen.add(id(before))
        error = before
    return text


def _alone(error: BaseException) -> str:
    """One exception, without those it came from; of a group what its members say."""
    said = _said(error)
    if error.__traceback__ is not None:
        said = f"Traceback (most recent call last):\n{_stack(error.__traceback__)}{said}"
    if not isinstance(error, BaseExceptionGroup):
        return said
    members = [
        cut(_said(one), HEADLINE_MAX, _LEFT_OUT) for one in error.exceptions[: ERRORS_MAX // 2]
    ]
    if (more := len(error.exceptions) - len(members)) > 0:
        members.append(f"and {more} more")
    first, *others = said.splitlines()
    lines = [f"  + Exception Group {first}" if others else f"  | {first}"]
    lines += [f"  | {line}" for line in others]
    for n, member in enumerate(members, 1):
        lines.append(f"  {'+-' if n == 1 else '  '}+---------------- {n} ----------------")
        lines += [f"    | {line}" for line in member.splitlines()]
    return "\n".join([*lines, "    +------------------------------------"])


def _said(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    message = cut(_message(error), MESSAGE_MAX, _LEFT_OUT)
    notes = "".join(f"\n{cut(note, MESSAGE_MAX, _LEFT_OUT)}" for note in _notes(error)[:1])
    return (f"{name}: {message}" if message else name) + notes


def _stack(trace: TracebackType) -> str:
    """Its outermost and its innermost frames."""
    end, depth, some = trace, 1, FRAMES_MAX // 10
    while end.tb_next is not None:
        end, depth = end.tb_next, depth + 1
    if depth <= 2 * some:
        return "".join(traceback.format_tb(trace))
    end = trace
    for _ in range(depth - some):
        end = end.tb_next or end
    first, last = traceback.format_tb(trace, limit=some), traceback.format_tb(end)
    return "".join([*first, f" {_LEFT_OUT.rstrip()}\n", *last])
