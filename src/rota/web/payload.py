"""A job's arguments and its error as text: masked by the hook, set out, cut."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from rota.values.failure import headline
from rota.values.model import JobInfo
from rota.values.names import text_of

logger = logging.getLogger("rota.web")

SHOWN_CHARS = 20_000
SHOWN_LINE = 200
Redact = Callable[[str, Any], Any]
"""Takes a task's name and its decoded arguments (a text where they are not JSON), gives what to
show of them. The text of a job's error comes with its arguments, as `__error__`."""
ERROR = "__error__"
"""No parameter of a task can have this name."""
MASK = "****"
RUN = 8
"""So many characters of a masked value are masked wherever they stand: texts are cut anywhere."""
MAX_MASKED = 50_000
FAILED = "not shown: the redaction hook failed"
LEFT_OUT = "not shown: the redaction hook leaves it out"
TOO_LONG = "not shown: too much of the arguments is masked to be looked for in it"


def shown_payload(task: str, payload: bytes, redact: Redact | None) -> str:
    """Numbers and texts as they were sent, when no hook changes them."""
    return _set_out(payload) if redact is None else _redacted(task, payload, redact)


def shown_error(task: str, payload: bytes, error: str | None, redact: Redact | None) -> str | None:
    """The text of a job's error, as the hook gives it, and without what it masks of the arguments.

    Values are found as they were given, as Python and JSON write them; of a long one, any part.
    """
    if redact is None or not error:
        return error
    try:
        arguments = _arguments(payload)
        before = set(_values(arguments))
        if isinstance(arguments, dict):
            given = redact(task, {**arguments, ERROR: error})
            text = given.pop(ERROR, None) if isinstance(given, dict) else None
        else:
            given = redact(task, arguments)
            told = redact(task, {ERROR: error})
            text = told.get(ERROR) if isinstance(told, dict) else None
        return _masked(text, before - set(_values(given))) if isinstance(text, str) else LEFT_OUT
    except Exception:
        return _failed(task)


def with_shown_error(job: JobInfo, redact: Redact | None, *, brief: bool = False) -> JobInfo:
    """`brief`: no more of the error than what it comes to, which is what lists show."""
    if redact is None or not job.error:
        return job
    error = headline(job.error) if brief else job.error
    return replace(job, error=shown_error(job.task, job.payload, error, redact))


def one_line(text: str | None, chars: int = SHOWN_LINE) -> str:
    """What an error comes to, cut."""
    line = headline(text)
    return line if len(line) <= chars else line[: chars - 1] + "…"


def _set_out(payload: bytes) -> str:
    try:
        return msgspec.json.format(payload, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text_of(payload)


def _arguments(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return text_of(payload)


def _redacted(task: str, payload: bytes, redact: Redact) -> str:
    """Nothing at all where the hook fails: what it would have masked must not be seen."""
    try:
        arguments = _arguments(payload)
        given = redact(task, arguments)
        if isinstance(given, str) and isinstance(arguments, str):
            return given
        if isinstance(given, dict):
            given = {name: value for name, value in given.items() if name != ERROR}
        return json.dumps(given, indent=2, ensure_ascii=False, default=repr)
    except Exception:
        return _failed(task)


def _failed(task: str) -> str:
    logger.exception("the redaction hook failed for a job of task %r", task)
    return FAILED


def _values(arguments: Any) -> Iterator[str]:
    """All texts and numbers in it; of an object within the arguments its keys too."""
    rest = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            rest += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            rest += value
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield str(value)


def _masked(text: str, secrets: set[str]) -> str:
    forms = {form.lower() for one in secrets for form in _forms(one) if form}
    if sum(map(len, forms)) > MAX_MASKED:
        return TOO_LONG
    low = text.lower() if len(text.lower()) == len(text) else text
    hidden = bytearray(len(text))
    runs = {form[i : i + RUN] for form in forms for i in range(len(form) - RUN + 1)}
    for i in range(len(text) - RUN + 1 if runs else 0):
        if low[i : i + RUN] in runs:
            hidden[i : i + RUN] = b"x" * RUN
    for form in forms:
        if len(form) < RUN:
            # One or two characters may stand in any word by chance.
            word = r"\b" if len(form) < 3 and form.isalnum() else ""
            for found in re.finditer(f"{word}{re.escape(form)}{word}", low):
                hidden[found.start() : found.end()] = b"x" * len(form)
    made, end = "", 0
    for run in re.finditer(b"x+", hidden):
        made, end = made + text[end : run.start()] + MASK, run.end()
    return made + text[end:]


def _forms(value: str) -> tuple[str, ...]:
    """How a value is written: as it is, in a Python and a JSON text, with its digits in groups."""
    grouped = f"{int(value):,}" if re.fullmatch(r"-?\d{4,30}", value) else ""
    return value, repr(value)[1:-1], json.dumps(value)[1:-1], grouped
