"""How explanations put instants, counts, calls and notes into words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rota.connection import without_password
from rota.explain.facts import ConsumerFacts
from rota.values.failure import headline
from rota.values.model import read_note
from rota.values.names import visible
from rota.values.timing import duration

LEFT_OPEN = "…"
"""Stands in a command for what is left to who reads it."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words for one moment of one queue; `now` in Unix milliseconds.

    `shell`: how a command line names the queue, its word and then options; with it, what is to be
    called is told as commands, where there is one for it.
    """

    queue: str
    now: float
    shell: Sequence[str] = ()

    def moment(self, ms: float) -> str:
        """An instant, and how far away it is."""
        stamp = datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        away = (ms - self.now) / 1000
        far = f"in {duration(away)}" if away > 0 else f"{duration(abs(away))} ago"
        return f"{stamp} ({far})"

    def until(self, ms: float | None) -> str:
        return "" if ms is None else f", until {self.moment(ms)}"

    def why(self, note: dict[str, Any]) -> str:
        """By whom, since when and why, as far as a note says."""
        by, at = note.get("by"), note.get("at")
        reason = plain(note.get("reason") or "") or headline_of(note.get("error") or "")
        said = f" by {plain(by)}" if by else ""
        if at is not None:
            said += f" since {self.moment(at)}"
        return f"{said} ({reason})" if reason else said

    def by_itself(self, ms: float) -> str:
        """How something that ends at a time ends; late only where nobody asks for work."""
        if ms <= self.now:
            return "It is over: the next claim or heartbeat of a worker ends it"
        return f"It ends by itself at {self.moment(ms)}"

    def sooner(self, ms: float, call: str) -> str:
        """How it ends by itself, and the call that ends it before."""
        return f"{self.by_itself(ms)}; sooner with {call}"

    def consumer(self, consumer: ConsumerFacts) -> str:
        """Host and process; the id where the consumer has no name."""
        return consumer.name or consumer.id

    def resume_queue(self) -> str:
        return self.command("queue resume") if self.shell else "await queue.resume()"

    def lane_call(self, lane: str, verb: str) -> str:
        """`verb` without arguments: resume, unblock."""
        if self.shell:
            return self.command(f"lane {verb}", lane)
        return f"await queue.lane({lane!r}).{verb}()"

    def set_lane(self, lane: str, limit: str) -> str:
        """The call that changes a limit; what to is left to who reads it."""
        if self.shell:
            return self.command("lane set", lane, options=(f"--{limit}", LEFT_OPEN))
        return f"await queue.lane({lane!r}).set({limit}=…)"

    def cancel_job(self, id: str) -> str:
        return self.command("job cancel", id) if self.shell else f"await queue.job({id!r}).cancel()"

    def command(self, verb: str, *arguments: str, options: Sequence[str] = ()) -> str:
        """A command of `rota` as a shell takes it; `verb` stands before the queue's name."""
        return command(self.shell or (self.queue,), verb, *arguments, options=options)


def command(queue: Sequence[str], verb: str, *arguments: str, options: Sequence[str] = ()) -> str:
    """The same for a queue that is named by the first of `queue`, with the others as options: what
    may be a URL among them is told without its password."""
    target, *more = queue
    given, options = (target, *arguments), (*options, *map(without_password, more))
    if any(word.startswith("-") for word in given):
        words = ["rota", *verb.split(), *options, "--", *given]
    else:
        words = ["rota", *verb.split(), *given, *options]
    return " ".join(word if word == LEFT_OPEN else shlex.quote(word) for word in words)


def count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def note_of(text: str | None) -> dict[str, Any]:
    """A note as it was kept: `reason`, `by`, `at` (Unix ms), `error`, `worker`."""
    return read_note(text.encode()) if text else {}


def plain(text: object) -> str:
    """Foreign text on one line, without anything a terminal might obey."""
    return visible(" ".join(str(text).split()))


def headline_of(error: object) -> str:
    """What an error comes to."""
    return plain(headline(str(error)))


def unix(ms: float | None) -> float | None:
    """Unix seconds."""
    return None if ms is None else ms / 1000
