"""Why a value does not fit, in words that do not tell the value."""

from __future__ import annotations

import re

from rota.values.errors import PayloadError

MAX_REASON = 300  # characters of an annotation, or of another library's error, in a message

_SAFE = re.compile(
    r"(Expected |Object (missing|contains) |JSON is malformed|Input data was truncated|"
    r"Number out of range|Invalid (RFC3339|ISO8601|UUID|decimal|base64|UTF-8|utf-8)|"
    r"(Encoding )?objects of type |Only |Can't encode |Integer |"
    r"Exceeds the limit|maximum recursion ).*",
    re.DOTALL,
)
"""How reasons begin that say types, names of fields and places only."""
_ABOUT_VALUE = re.compile(r"Invalid (enum )?value")
_PLACE = re.compile(r" - at (`[^`]*`(?: in `[^`]*`)?)\Z")


def misfit(exc: Exception) -> str:
    """Why a value does not fit: what was expected and where, in bounded length, never the value.

    What a validator of the user's says may hold anything, and so is left out.
    """
    if isinstance(exc, PayloadError):
        return str(exc)
    text, cause = str(exc), exc.__cause__
    place = found[0] if (found := _PLACE.search(text)) and found[1] != "`$`" else ""
    if cause is None and (safe := _SAFE.fullmatch(_PLACE.sub("", text))):
        reason = safe[0]
    elif cause is None and (about := _ABOUT_VALUE.match(text)):
        reason = about[0]
    elif isinstance(cause, PayloadError):
        reason = str(cause)
    else:
        reason = type(cause or exc).__name__
    return f"{reason[:MAX_REASON]}{place[:MAX_REASON]}"
