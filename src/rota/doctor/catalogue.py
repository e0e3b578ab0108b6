"""What each key of a queue has to be: from the key table, by name."""

from __future__ import annotations

from dataclasses import dataclass

from rota.script.keys import CATALOGUE, KeyKind

_LIVES_MS = {"nonce": 60_000, "minute": 180_000}
"""What keys that end by themselves are named by, and when they end at the latest."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A key's type, and how long it may live (ms; 0 for good)."""

    type: str
    life: int

    def suits(self, type_: str, left: int) -> bool:
        ends_in_time = left < 0 if self.life == 0 else 0 <= left <= self.life
        return type_ == self.type and ends_in_time


_FIXED = {kind.template: Kept(kind.type, 0) for kind in CATALOGUE if kind.parameter is None}


def _named(kind: KeyKind) -> tuple[str, str, str, Kept]:
    before, _, after = kind.template.partition("{" + str(kind.parameter) + "}")
    return kind.name, before, after, Kept(kind.type, _LIVES_MS.get(str(kind.parameter), 0))


_NAMED = tuple(_named(kind) for kind in CATALOGUE if kind.parameter is not None)


def fixed_keys() -> list[bytes]:
    """Those without a name in them, for the judge of keys."""
    return [key_text(name.encode(), kept) for name, kept in _FIXED.items()]


def key_text(name: bytes, kept: Kept) -> bytes:
    """As the judge of keys is told it."""
    return b"\n".join((kept.type.encode(), str(kept.life).encode(), name))


def keeping_of(name: str) -> Kept | None:
    """What the key of this name has to be; None where the table knows no such key."""
    if name in _FIXED:
        return _FIXED[name]
    for kind, before, after, kept in _NAMED:
        if (
            len(name) > len(before) + len(after)
            and name.startswith(before)
            and name.endswith(after)
        ):
            part = name[len(before) : len(name) - len(after)].encode()
            return kept if kind != "sequence" or _is_sequence(part) else None
    return None


def parts_of(name: bytes) -> tuple[str, bytes]:
    """The kind of a key, and the name in it; kind '' where there is none in it."""
    for kind, before, after, _ in _NAMED:
        head, tail = before.encode(), after.encode()
        if name.startswith(head) and name.endswith(tail):
            return kind, name[len(head) : len(name) - len(tail)]
    return "", b""


def _is_sequence(name: bytes) -> bool:
    """Whether it reads `<bytes of lane>:<lane>:<key>`."""
    size, _, rest = name.partition(b":")
    return size.isdigit() and rest[int(size) : int(size) + 1] == b":"
