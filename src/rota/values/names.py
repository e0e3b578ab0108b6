"""The rules names obey, and the text a parameter's value becomes when it is used as a name.

Lanes, ordering keys, ids and tasks are 1-200 bytes of UTF-8 without control characters; what
else each kind asks is said at its function. Names are compared byte by byte and never
normalised: the composed and the decomposed form of a letter are two names. Every function
returns the name as a plain `str`, or raises `ConfigError` before anything is written.

What is stored may be no name all the same, and no text: `text_of` reads it, `visible` shows it.
"""

from __future__ import annotations

import reprlib
import unicodedata
from contextlib import suppress
from hashlib import sha1
from uuid import UUID

from rota.values.errors import ConfigError

MAX_NAME_BYTES = 200
MAX_PREFIX_BYTES = 50
MAX_PRIORITY = 1000
SHOWN_CHARS = 60

# Above this many bits an int has more than MAX_NAME_BYTES digits; printing it could be refused.
_MAX_NAME_BITS = 700


def shown(value: object) -> str:
    """`repr(value)` for an error message: bounded, and safe for any object."""
    if isinstance(value, bytes | bytearray):
        value = value[:SHOWN_CHARS]  # the others it cuts itself, before it looks at them
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = SHOWN_CHARS
    try:
        text = short.repr(value)
    except Exception:  # an object's own __repr__, or an int too long to print
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."


def text_of(stored: bytes) -> str:
    """What the server keeps, as text; bytes that are no UTF-8 as their escapes."""
    return stored.decode("utf-8", "backslashreplace")


def visible(text: str, keep: str = "") -> str:
    """Text of others, for a terminal or a page: what is not printable as its escape.

    Those are controls, what is not seen, what turns the direction of writing; spaces of any width
    stay, and what `keep` holds.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in keep or unicodedata.category(char) == "Zs"
        else ascii(char)[1:-1]
        for char in text
    )


def is_ordered_lane(lane: str) -> bool:
    """Whether the whole lane is one sequence, which its name says by beginning with `!`."""
    return lane.startswith("!")


def lane_name(value: object) -> str:
    """A lane's name; one that begins with `!` needs something after it."""
    name = _text(value, "lane")
    if name == "!":
        raise ConfigError("lane: expected a name after the '!' of an ordered lane, given '!'")
    return name


def stored_name(value: object) -> str:
    """A name as it may be stored, which damage can have made one that is refused now."""
    if isinstance(value, str):
        with suppress(UnicodeEncodeError):
            value.encode()
            return value
    raise ConfigError(f"name: expected text, given {shown(value)}")


def bucket(lane: str) -> int:
    """Which of 4096 equal parts a lane falls into, by its name: the first three hex digits of its
    SHA-1. Where a queue has several shards, the lane's is this modulo their number."""
    return int(sha1(lane.encode(), usedforsecurity=False).hexdigest()[:3], 16)


def ordering_key(value: object, lane: str) -> str:
    """The ordering key of a job in `lane`, which must not be an ordered lane."""
    key = _text(value, "ordering key")
    if is_ordered_lane(lane):
        raise ConfigError(
            f"ordering key: lane {shown(lane)} is ordered as a whole (its name begins with '!') "
            f"and takes no ordering keys, given {shown(key)}"
        )
    return key


def sequence_key(value: object, lane: str) -> str:
    """What names a sequence in its lane: an ordering key, or '' for an ordered lane's own."""
    if value is None:
        if is_ordered_lane(lane):
            return ""
        raise ConfigError(
            f"ordering key: expected that of a sequence of lane {shown(lane)}, given None"
        )
    return ordering_key(value, lane)


def job_id(value: object) -> str:
    """A job's id; it must not begin with `!`, which marks sequences."""
    name = _text(value, "id")
    if name.startswith("!"):
        raise ConfigError(f"id: expected a name not beginning with '!', given {shown(name)}")
    return name


def task_name(value: object) -> str:
    """The name a task is registered and enqueued under."""
    return _text(value, "task")


def template_name(value: object) -> str:
    """The name lanes refer to a template by; '-' stands for none in scripts."""
    name = _text(value, "template")
    if name == "-":
        raise ConfigError(f"template: expected another name, given {shown(name)}")
    return name


def queue_name(value: object) -> str:
    """A queue's name: no braces (it is a hash tag), no `:digits` at the end (kept for shards)."""
    name = _text(value, "queue")
    _refuse_braces(name, "queue")
    _, colon, tail = name.rpartition(":")
    if colon and tail.isascii() and tail.isdigit():
        raise ConfigError(
            f"queue: expected a name not ending in ':' and digits, given {shown(name)}"
        )
    return name


def prefix(value: object) -> str:
    """The first part of every key: 1-50 bytes, no braces."""
    name = _text(value, "prefix", MAX_PREFIX_BYTES)
    _refuse_braces(name, "prefix")
    return name


def priority(value: object) -> int:
    """An integer from -1000 to 1000, higher first; nothing is clamped or converted."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_PRIORITY:
        return int(value)
    raise ConfigError(
        f"priority: expected an integer from -{MAX_PRIORITY} to {MAX_PRIORITY} (higher first), "
        f"given {shown(value)}"
    )


def as_name(value: object, what: str) -> str:
    """The text of a parameter's value that serves as lane, ordering key or id.

    Takes str, int and UUID; None, the empty text and all else raise `ConfigError`, as two
    values could share their text. `what` opens the message. The kind's own rules are not
    checked here.
    """
    if isinstance(value, str) and value:
        name = str.__str__(value)
        if complaint := _complaint(name, MAX_NAME_BYTES):
            raise ConfigError(f"{what}: expected {_rule(MAX_NAME_BYTES)}, given {complaint}")
        return name
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() <= _MAX_NAME_BITS:
            return int.__repr__(value)
    elif isinstance(value, UUID):
        return str(value)
    raise ConfigError(
        f"{what}: expected non-empty text, an int or a UUID, given a {type(value).__name__}"
    )


def _text(value: object, what: str, limit: int = MAX_NAME_BYTES) -> str:
    if isinstance(value, str):
        # str.__str__ and not str(): an enum with text values prints as its member's name.
        name = value if type(value) is str else str.__str__(value)
        if name.isascii() and name.isprintable() and 0 < len(name) <= limit:
            return name
        complaint = _complaint(name, limit)
        if complaint is None:
            return name
    else:
        complaint = f"a {type(value).__name__}"
    raise ConfigError(f"{what}: expected {_rule(limit)}, given {complaint}: {shown(value)}")


def _rule(limit: int) -> str:
    return f"1-{limit} bytes of text without control characters"


def _complaint(name: str, limit: int) -> str | None:
    if name.isascii() and name.isprintable() and 0 < len(name) <= limit:
        return None
    if not name:
        return "nothing"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "a lone surrogate"
    if size > limit:
        return f"{size} bytes"
    if any(unicodedata.category(char) == "Cc" for char in name):
        return "a control character"
    return None


def _refuse_braces(name: str, what: str) -> None:
    if "{" in name or "}" in name:
        raise ConfigError(f"{what}: expected a name without '{{' and '}}', given {shown(name)}")
