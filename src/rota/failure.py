"""What is shown of a failure where there is room for a line."""

from __future__ import annotations

import re

from rota.names import visible

CUT = "…"
"""The line that stands for what was left out of a long text. Between two of them stands the
headline, where it would have been left out."""

_FRAME = re.compile(r'\s+File "[^\n]*", line \d+')
_HEADER = re.compile(r"(Exception Group )?Traceback \(most recent call last\):")
_GROUP = re.compile(r"\s*\+ Exception Group Traceback \(most recent call last\):")
_MEMBERS = re.compile(r"\s*\+-\+-{4,}")
_BESIDE = re.compile(r"\s*[|+] ?")
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)


def headline(error: str | None) -> str:
    """What an error comes to, on one line, nothing in it but what can be printed; '' where there is
    no text.

    Of a traceback the first line of what its last exception says, with the exception's name; of
    a group what the group says. Of any other text the first line that says anything.
    """
    lines = (error or "").split("\n")
    if lines.count(CUT) == 2 and lines[(first := lines.index(CUT)) + 2 :][:1] == [CUT]:
        return visible(lines[first + 1].strip())
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
    return visible(next(iter(found.strip().splitlines()), ""))


def _last_exception(lines: list[str]) -> list[str]:
    for n in range(len(lines) - 1, -1, -1):
        if lines[n] in _CHAINED and any(line.strip() for line in lines[n + 1 :]):
            lines = lines[n + 1 :]
            break
    while len(lines) > 1 and not lines[0].strip():
        lines = lines[1:]
    members = next((n for n, line in enumerate(lines) if _MEMBERS.match(line)), None)
    if _GROUP.match(lines[0]) or (members is not None and _BESIDE.match(lines[0])):
        return [_BESIDE.sub("", line, count=1) for line in lines[:members]]
    return lines


def _is_frame_work(line: str) -> bool:
    return line == CUT or _HEADER.fullmatch(line.strip()) is not None
