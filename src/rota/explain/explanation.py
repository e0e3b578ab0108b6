"""What an explanation says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

ReasonKind: TypeAlias = Literal[
    "dead",
    "running",
    "queue_sealed",
    "queue_paused",
    "stopped",
    "paused",
    "no_worker",
    "delayed",
    "blocked",
    "sequence_blocked",
    "out_of_rate",
    "sequence",
    "at_ceiling",
    "queue_at_ceiling",
    "turn",
    "idle",
    "damaged",
]

_THE_WHOLE_ANSWER = ("dead", "running")
_NEEDS_SOMEONE = (
    "queue_sealed",
    "queue_paused",
    "stopped",
    "paused",
    "no_worker",
    "sequence",
    "damaged",
)
_NOTHING_IN_THE_WAY = ("turn", "idle")


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a job or a lane from running.

    `text` is a sentence for people, `frees` what ends it. `until`: Unix seconds, when it ends by
    itself; None where it does not. `detail`: what the sentence was made of, by name.
    """

    kind: ReasonKind
    text: str
    frees: str
    until: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def _rank(self) -> tuple[int, float]:
        """What needs someone to act comes first, then what lasts longest, then what ends with
        other jobs, then what is no obstacle."""
        if self.kind in _THE_WHOLE_ANSWER:
            return 0, 0
        if self.until is not None:
            return 2, -self.until
        if self.kind in _NOTHING_IN_THE_WAY:
            return 4, 0
        waits_for_a_job = self.kind == "sequence" and self.detail.get("state") != "dead"
        return (1 if self.kind in _NEEDS_SOMEONE and not waits_for_a_job else 3), 0


def decisive_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    return tuple(sorted(reasons, key=lambda reason: reason._rank))


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job, or a lane, is not running now.

    `subject` is a job's id or a lane's name, and `state` one word or two for how it stands; all
    `reasons` hold at once, the decisive first. `expected_turn`: how many entries are handed out
    from now until it is its turn, itself included, where it may be claimed; `exact` where every
    lane in the ring was counted and jobs cost 1. Figures are those of the lane (`lane` is None
    where a record cannot be read); `oldest_wait` in seconds. `at`: the server's time, in Unix
    seconds.
    """

    kind: Literal["job", "lane"]
    subject: str
    lane: str | None
    state: str
    reasons: tuple[Reason, ...]
    expected_turn: int | None
    exact: bool
    waiting: int
    delayed: int
    running: int
    oldest_wait: float | None
    at: float
