"""A record of what happened that owes nothing to the server.

Every process appends to one file; a line is one event. Times are the machine's monotonic clock,
which all its processes share.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Notebook:
    """Appends events, whole lines whichever process or thread writes."""

    def __init__(self, path: Path | str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, what: str, **facts: Any) -> None:
        """`at` and `pid` may be given where the event is another time's or process's."""
        event = {"at": time.monotonic(), "pid": os.getpid(), "what": what} | facts
        # The newline goes first: a line cut off by a kill then spoils no other.
        os.write(self._file, b"\n" + json.dumps(event, separators=(",", ":")).encode())

    def close(self) -> None:
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Event:
    at: float
    pid: int
    what: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A job as it was enqueued, in the order of enqueueing; `acked` None: never acknowledged."""

    job: str
    lane: str
    sequence: str | None
    plan: str
    number: int
    priority: int = 0
    delayed: bool = False
    max_attempts: int = 5
    acked: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One start of a handler; `end` None: its process died first."""

    job: str
    lane: str
    sequence: str | None
    pid: int
    delivery: int
    place: int
    start: float
    end: float | None = None
    outcome: str | None = None
    attempt: int = 1
    suspect: bool = False
    in_thread: bool = False
    plan: str = "ok"


@dataclass(frozen=True, slots=True)
class Claim:
    """An answered claim; its number is the delivery of the jobs."""

    consumer: str
    sent: float
    heard: float
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """The server's answer to a settlement, as heard."""

    at: float
    job: str
    delivery: int
    action: str
    answer: str


@dataclass(slots=True)
class Record:
    """Everything observed, sorted by kind."""

    orders: dict[str, Order] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    claims: dict[tuple[int, int], Claim] = field(default_factory=dict)
    """By process and delivery: a process never uses a number twice."""
    renewals: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Per consumer, when its acknowledged renewals (and its join) were sent."""
    replies: dict[tuple[int, str, int], list[Reply]] = field(
        default_factory=lambda: defaultdict(list)
    )
    marks: dict[tuple[int, str, int], float] = field(default_factory=dict)
    """Accepted start marks of jobs with a death behind them."""
    stops: dict[int, float] = field(default_factory=dict)
    """When processes were told to stop gently."""
    operated: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    """What the operator did to dead jobs: replay, discard."""
    events: list[Event] = field(default_factory=list)


def read_events(path: Path) -> list[Event]:
    events = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            facts = json.loads(line)
        except ValueError:
            continue  # a kill cut it off
        events.append(Event(facts.pop("at"), facts.pop("pid"), facts.pop("what"), facts))
    return sorted(events, key=lambda event: event.at)


def read_record(path: Path) -> Record:
    return sort(read_events(path))


def sort(events: list[Event]) -> Record:
    record = Record(events=events)
    open_runs: dict[tuple[int, str, int], Run] = {}
    for event in events:
        facts = event.facts
        match event.what:
            case "asked":
                for one in facts["jobs"]:
                    record.orders[one["job"]] = Order(number=len(record.orders), **one)
            case "acked":
                for id in facts["jobs"]:
                    record.orders[id] = _acked(record.orders[id], event.at)
            case "start":
                run = Run(pid=event.pid, start=event.at, **facts)
                open_runs[run.pid, run.job, run.delivery] = run
            case "end":
                key = event.pid, facts["job"], facts["delivery"]
                record.runs.append(_ended(open_runs.pop(key), event.at, facts["outcome"]))
            case "claimed":
                claim = Claim(facts["consumer"], facts["sent"], event.at, tuple(facts["jobs"]))
                record.claims[event.pid, facts["delivery"]] = claim
            case "renewed":
                for consumer in facts["consumers"]:
                    record.renewals[consumer].append(facts["sent"])
            case "reply":
                reply = Reply(event.at, **facts)
                record.replies[event.pid, reply.job, reply.delivery].append(reply)
            case "marked":
                record.marks[event.pid, facts["job"], facts["delivery"]] = event.at
            case "told to stop":
                record.stops.setdefault(event.pid, event.at)
            case "operator":
                record.operated[facts["job"]].append((event.at, facts["verb"]))
    record.runs += open_runs.values()
    record.runs.sort(key=lambda run: run.start)
    return record


def _acked(order: Order, at: float) -> Order:
    fields = {name: getattr(order, name) for name in Order.__slots__}
    return Order(**fields | {"acked": at})


def _ended(run: Run, at: float, outcome: str) -> Run:
    fields = {name: getattr(run, name) for name in Run.__slots__}
    return Run(**fields | {"end": at, "outcome": outcome})
