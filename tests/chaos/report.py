"""What a failure shows: the finding, and everything that happened to its jobs and their workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.chaos.finding import Finding
from tests.chaos.observer import Event, Record

MOST_FINDINGS = 5
MOST_EVENTS = 80
OF_PROCESSES = ("begins", "died", "dies", "told to stop", "leaving", "lease gone", "reconciles")


def explain(record: Record, findings: Iterable[Finding]) -> str:
    """The findings, the first ones with their timeline."""
    found = list(findings)
    lines = [f"{len(found)} findings:", *(f"  {finding}" for finding in found[:30])]
    for finding in found[:MOST_FINDINGS]:
        lines += ["", str(finding), *timeline(record, finding.jobs)]
    return "\n".join(lines)


def timeline(record: Record, jobs: Iterable[str]) -> Iterator[str]:
    """Events of the jobs, and of the processes and the server around them."""
    names = set(jobs)
    of_jobs = [event for event in record.events if _named(event) & names]
    if not of_jobs:
        return
    first, last = of_jobs[0].at - 3, of_jobs[-1].at + 3
    pids = {event.pid for event in of_jobs if event.what == "start"}
    chosen = [
        event
        for event in record.events
        if _named(event) & names
        or (
            first < event.at < last
            and ((event.pid in pids and event.what in OF_PROCESSES) or _hits(event, pids))
        )
    ]
    if len(chosen) > MOST_EVENTS:
        yield f"  ({len(chosen)} events, the last {MOST_EVENTS}:)"
    for event in chosen[-MOST_EVENTS:]:
        yield f"  {event.at:12.3f}  {event.pid:>7}  {event.what:<12} {_told(event, names)}"


def _named(event: Event) -> set[str]:
    jobs = event.facts.get("jobs") or []
    named = {one["job"] if isinstance(one, dict) else one for one in jobs}
    return named | ({event.facts["job"]} if "job" in event.facts else set())


def _hits(event: Event, pids: set[int]) -> bool:
    """A fault of one of these processes, or one of the server's."""
    if event.what != "fault":
        return False
    victim = event.facts.get("victim")
    return "victims" in event.facts or "server" in event.facts["name"] or victim in pids


def _told(event: Event, names: set[str]) -> str:
    facts = dict(event.facts)
    if "jobs" in facts:
        ids = [one["job"] if isinstance(one, dict) else one for one in facts.pop("jobs")]
        facts["jobs"] = [id for id in ids if id in names]
    return "  ".join(f"{name}={value}" for name, value in facts.items())
