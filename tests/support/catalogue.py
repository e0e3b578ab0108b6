"""The names that the key table gives: for the leak check, and beside what Lua builds."""

from __future__ import annotations

import re

from rota.script.keys import CATALOGUE, KeyKind


def sequence_name(lane: str, ordering_key: str) -> str:
    """The name of a sequence, in which the lane's length in bytes keeps odd names apart."""
    return f"{len(lane.encode())}:{lane}:{ordering_key}"


def _pattern(kind: KeyKind) -> str:
    if kind.parameter is None:
        return re.escape(kind.template)
    before, after = kind.template.split("{" + kind.parameter + "}")
    return re.escape(before) + ".+" + re.escape(after)


_KNOWN = re.compile(
    r"[^{}]+:\{[^{}]+\}:(?:" + "|".join(_pattern(kind) for kind in CATALOGUE) + ")", re.DOTALL
)


def is_known(key: str) -> bool:
    """Whether the catalogue knows a key of this shape."""
    return _KNOWN.fullmatch(key) is not None
