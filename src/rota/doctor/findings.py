"""What a doctor says of a queue and its server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FindingKind = Literal[
    "ring", "permits", "held", "token", "place", "record", "delayed", "count", "counter", "lease",
    "limits", "leftover", "key",
]  # fmt: skip
"""ring: a lane's place in the rotation · permits: entries in flight per lane · held: sequences in
flight · token: sequences waiting · place: a job nowhere, twice, or elsewhere than its record says ·
record: none, or unreadable · delayed: the list of a lane's delayed jobs · count: figures · counter:
the queue's counter · lease: a consumer without one, or one without a consumer · limits: unreadable
settings · leftover: what belongs to something that is gone · key: of a wrong type, unknown, or
about to vanish."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that contradicts the queue's invariants, as it was when it was looked at.

    `subject`: the lane, job, sequence (`<bytes of lane>:<lane>:<key>`), consumer or key.
    `mended`: repaired, in the same moment. What is not, without being asked for or with it, needs
    a person.
    """

    kind: FindingKind
    subject: str
    what: str
    mended: bool = False

    def __str__(self) -> str:
        return f"{self.subject} {self.what}"


@dataclass(frozen=True, slots=True)
class Advice:
    """Something about the server. `danger`: with it jobs may be lost, or wait for ever."""

    setting: str
    text: str
    danger: bool


@dataclass(frozen=True, slots=True)
class Report:
    """`unchecked`: a sentence for what was too large, or never at rest, to be sure of."""

    findings: list[Finding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)

    @property
    def left(self) -> list[Finding]:
        """What is not mended."""
        return [finding for finding in self.findings if not finding.mended]

    @property
    def sound(self) -> bool:
        """Nothing is left to be mended, and nothing about the server endangers the queue."""
        return not self.left and not any(advice.danger for advice in self.advice)
