"""What each key of a queue has to be: from the key table, by name."""

from __future__ import annotations

from dataclasses import dataclass

from rota.script.keys import CATALOGUE

_LIVES_MS = {"nonce": 60_000, "minute": 180_000}
"""What keys that end by themselves are named by, and when they end at the latest."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A key as the table has it: its kind, the name in it, its type, and how long it may live (ms;
    0 for good)."""

    name: bytes
    kind: str
    part: bytes
    type: str
    life: int

    def suits(self, type_: bytes, left: int) -> bool:
        ends_in_time = left < 0 if self.life == 0 else 0 <= left <= self.life
        return type_ == self.type.encode() and ends_in_time

    @property
    def text(self) -> bytes:
        """As the judge of keys is told it."""
        return b"\n".join((self.type.encode(), str(self.life).encode(), self.name))


FIXED = {
    name: Kept(name, kind.name, b"", kind.type, 0)
    for kind in CATALOGUE
    if kind.parameter is None and (name := kind.template.encode())
}
"""The keys without a name in them."""


def kept_as(name: bytes) -> Kept | None:
    """None where the table knows no such key."""
    if name in FIXED:
        return FIXED[name]
    for kind in CATALOGUE:
        if kind.parameter is None:
            continue
        before, _, after = kind.template.encode().partition(b"{%s}" % kind.parameter.encode())
        part = name[len(before) : len(name) - len(after)]
        if part and name == before + part + after:
            fits = _is_text(name) and (kind.name != "sequence" or _is_sequence(part))
            life = _LIVES_MS.get(kind.parameter, 0)
            return Kept(name, kind.name, part, kind.type, life) if fits else None
    return None


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_sequence(name: bytes) -> bool:
    """Whether it reads `<bytes of lane>:<lane>:<key>`."""
    size, _, rest = name.partition(b":")
    return size.isdigit() and rest[int(size) : int(size) + 1] == b":"
