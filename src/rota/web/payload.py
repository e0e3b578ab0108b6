"""A job's arguments as text: masked by the hook, set out, cut."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from rota.failure import headline
from rota.names import text_of

logger = logging.getLogger("rota.web")

SHOWN_CHARS = 20_000
SHOWN_LINE = 200
Redact = Callable[[str, Any], Any]
"""Takes a task's name and its decoded arguments (a text where they are not JSON), gives what to
show of them."""


@dataclass(frozen=True, slots=True)
class Shown:
    """`size`: bytes of the whole payload; `cut`: `text` is not all of it."""

    text: str
    size: int
    cut: bool


def shown_payload(task: str, payload: bytes, redact: Redact | None) -> Shown:
    """Numbers and texts as they were sent, when no hook changes them."""
    text = _set_out(payload) if redact is None else _redacted(task, payload, redact)
    return Shown(text[:SHOWN_CHARS], len(payload), len(text) > SHOWN_CHARS)


def one_line(text: str | None, chars: int = SHOWN_LINE) -> str:
    """What an error comes to, cut."""
    line = headline(text)
    return line if len(line) <= chars else line[: chars - 1] + "…"


def _set_out(payload: bytes) -> str:
    try:
        return msgspec.json.format(payload, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text_of(payload)


def _redacted(task: str, payload: bytes, redact: Redact) -> str:
    """Nothing at all where the hook fails: what it would have masked must not be seen."""
    try:
        try:
            arguments: Any = json.loads(payload)
        except (ValueError, RecursionError):
            arguments = text_of(payload)
        given = redact(task, arguments)
        if isinstance(given, str) and isinstance(arguments, str):
            return given
        return json.dumps(given, indent=2, ensure_ascii=False, default=repr)
    except Exception:
        logger.exception("the redaction hook failed for a job of task %r", task)
        return "not shown: the redaction hook failed"
