"""What a lane is allowed, said plainly: limits by where they come from, and rates by their tokens.

A limit is the lane's own, else that of its template, else the queue's default. A rate has one
number of state per lane, its `tat`: the time until which it has given its tokens away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor, inf
from typing import Any

ROUNDING = 1e-3
"""In ms: a double holds Unix milliseconds to 0.00024; what lies so near is the same."""

Limits = dict[str, Any]
"""Of ceiling, weight, rate, backlog those that are set."""


@dataclass(frozen=True)
class Pace:
    """A rate: ms a job, and how many may start at once after a time of rest."""

    interval: float
    burst: int

    @classmethod
    def of(cls, n: float, per: float = 1, burst: int | None = None) -> Pace:
        return cls(per * 1000 / n, burst or max(1, ceil(n / per * 0.1)))

    @property
    def tolerance(self) -> float:
        """How far the tat may be ahead; a ms at least, for the clock has no finer steps."""
        return max((self.burst - 1) * self.interval, 1 - self.interval)

    def start(self, tat: float, now: int) -> float:
        """Rest earns a ms at most; a tat that no burst explains is of another clock or rate."""
        tat = min(tat, now + max(self.burst * self.interval, 1))
        return tat if tat > now - 1 else now

    def tokens(self, tat: float, now: int) -> int:
        """How many jobs may start now."""
        spare = now - self.start(tat, now) + self.tolerance + ROUNDING
        return max(0, floor(spare / self.interval + 1))

    def carried(self, old: Pace, tat: float, now: int) -> float:
        """The tat after `old` became this: as many tokens as were left, up to the burst."""
        left = (now - old.start(tat, now) + old.tolerance) / old.interval + 1
        return now + self.tolerance - (min(left, self.burst) - 1) * self.interval

    def served(self, tat: float, now: int, jobs: int) -> float:
        return self.start(tat, now) + jobs * self.interval

    def next_token(self, tat: float, now: int) -> int:
        return now + ceil(self.start(tat, now) - now - self.tolerance - ROUNDING)


@dataclass
class Allowance:
    """The settings of all lanes."""

    own: dict[str, Limits] = field(default_factory=dict)
    templates: dict[str, Limits] = field(default_factory=dict)
    template_of: dict[str, str] = field(default_factory=dict)
    defaults: Limits = field(default_factory=dict)

    def of(self, lane: str, name: str, none: Any) -> Any:
        template = self.templates.get(self.template_of.get(lane, ""), {})
        for limits in (self.own.get(lane, {}), template, self.defaults):
            if name in limits:
                return limits[name]
        return none

    def ceiling(self, lane: str) -> float:
        found: float = self.of(lane, "ceiling", inf)
        return found

    def weight(self, lane: str) -> float:
        found: float = self.of(lane, "weight", 1)
        return found

    def pace(self, lane: str) -> Pace | None:
        found: Pace | None = self.of(lane, "rate", None)
        return found

    def backlog(self, lane: str) -> float:
        found: float = self.of(lane, "backlog", inf)
        return found

    def set_own(self, lane: str, changes: Mapping[str, Any]) -> None:
        """`changes`: of the limits and `template`; None removes."""
        changes = dict(changes)
        if "template" in changes:
            change(self.template_of, {lane: changes.pop("template")})
        limits = self.own.setdefault(lane, {})
        change(limits, changes)
        if not limits:
            del self.own[lane]


def change(settings: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """None removes."""
    for name, value in changes.items():
        settings.pop(name, None)
        settings.update({} if value is None else {name: value})
