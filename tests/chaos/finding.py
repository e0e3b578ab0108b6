"""What a verdict is about: broken promises, and what the server had at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken promise; the jobs whose events explain it."""

    rule: str
    text: str
    jobs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Corpse:
    """A dead job as the server keeps it."""

    worker_lost: bool
    deaths: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Final:
    """What the server has at the end: dead jobs, jobs that are neither done nor dead, totals;
    and what the dead jobs were that an operator discarded."""

    dead: Mapping[str, Corpse] = field(default_factory=dict)
    discarded: Mapping[str, Corpse] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    totals: Mapping[str, int] = field(default_factory=dict)
