"""One round of all checks in the order in which their repairs build on each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from rota.doctor.catalogue import FIXED, Kept, kept_as
from rota.doctor.counts import Counts
from rota.doctor.findings import Finding, Report
from rota.doctor.pages import KeyRow, Pages
from rota.doctor.server import ServerCheck
from rota.errors import QueueBroken
from rota.script.keys import Keys
from rota.script.loader import Operation
from rota.values.names import text_of

ROUNDS = 4
STEPS = 12
"""The server, the keys, and the checks of a round."""

Progress = Callable[[str, int, int], None]
"""Told the check that begins, its number, and how many there are."""

UNCHECKED = {
    b"consumers": "whether some jobs are anywhere was left open: over 5,000 consumers are too "
    "many to ask in one moment",
    b"held": "permits and held sequences were left open: over 10,000 jobs in flight are too many "
    "to count in one moment",
}
_SETTINGS = (
    "templates", "glimit", "gweight", "gmax", "grate", "gtemplate", "config", "stats", "durations",
)  # fmt: skip
_NOTES = ("owed", "gtat", "attempts", "deaths", "releases", "errors", "costs", "cancels")
_LANE_LISTS = ("blocked", "why", "paused", "ring")


def examine(
    keys: Keys, *, repair: bool = False, park_s: float = 5.0, progress: Progress | None = None
) -> Operation[Report]:
    """Checks every invariant and the server; with `repair` mends what can be mended.

    Stopped half-way it leaves what it has mended mended. Repairs follow each other until a round
    finds nothing more to mend: what is damaged may hide behind what is damaged. `park_s`: how long
    idle consumers wait at the bell.
    """
    told = progress or (lambda step, number, of: None)
    told("server", 0, STEPS)
    server = ServerCheck(keys, park_s)
    advice = yield from server.examine()
    if server.refuses:
        return Report([], ["nothing of the queue was checked: the server is too old"], advice)
    if server.denies:
        return Report([], ["nothing of the queue was checked: its user may not"], advice)
    findings: dict[tuple[str, str], Finding] = {}
    for _ in range(ROUNDS if repair else 1):
        round_ = _Round(keys, repair=repair and not server.read_only, told=told)
        yield from round_.run()
        last = round_.pages.findings
        findings |= last
        if not any(finding.mended for finding in last.values()):
            break
    found = [
        finding if place in last else replace(finding, mended=True)  # with what was before it
        for place, finding in findings.items()
    ]
    return Report(found, round_.unchecked, advice)


class _Round:
    def __init__(self, keys: Keys, *, repair: bool, told: Progress) -> None:
        self._keys = keys
        self._repair = repair
        self._told = told
        self._names: defaultdict[str, list[bytes]] = defaultdict(list)
        self._orphans: dict[bytes, list[bytes]] = {}
        self.pages = Pages(keys, repair=repair)
        self.unchecked: list[str] = []
        self._counts = Counts(self.pages, self.unchecked)

    def run(self) -> Operation[None]:
        self._told("keys", 1, STEPS)
        if (yield from self._fixed_keys_are_broken()):
            self.unchecked.append(
                "the rest of the queue was left open: a key that everything needs has a wrong "
                "type; rename it, then ask again with --repair"
            )
            return
        yield from self.pages.each_key("[^j]*", self._name_keys)
        checks = self._checks()
        for number, (name, steps) in enumerate(checks.items(), STEPS - len(checks)):
            self._told(name, number, STEPS)
            for step in steps:
                yield from step
        for reason in sorted(self.pages.refused & UNCHECKED.keys()):
            self.unchecked.append(UNCHECKED[reason])

    def _checks(self) -> dict[str, list[Operation[None]]]:
        """By name and in order, once the names of all keys but the records' are known."""
        walk, names = self.pages.walk, self._names
        return {
            "settings": [
                *map(walk, _SETTINGS),
                walk("gwaiting", lanes=True),
                walk("gactive", lanes=True),
                walk("scalar", (b"vt", b"seq", b"wake")),
            ],
            "leases": [walk("consumers"), walk("lease", names["consumer"])],
            "delayed jobs": [walk("dead"), walk("scheduled"), walk("delayed", names["delayed"])],
            "sequences": [walk("sequence", names["sequence"]), self._lines()],
            "entries": [walk("pending", names["pending"]), walk("out", names["out"])],
            "jobs in flight": [walk("held"), self._counts.permits(names["consumer"])],
            "blocks and pauses": [
                walk("figures", names["figures"]),
                *map(walk, _NOTES),
                *(walk(kind, lanes=True) for kind in _LANE_LISTS),
            ],
            "records": [self.pages.each_key("j*", self._judge_records)],
            "lanes": [self._lanes()],
            "totals": [self._counts.totals()],
        }

    # ── keys ────────────────────────────────────────────────────────────────────────────────

    def _fixed_keys_are_broken(self) -> Operation[bool]:
        try:
            yield from self.pages.walk("key", [kept.text for kept in FIXED.values()])
        except QueueBroken as error:  # what every script reads
            name = error.key.removeprefix(self._keys.root)
            what = f"is a {error.type} and should be a {error.expected}"
            self.pages.note(Finding("key", name, what))
        return any(not finding.mended for finding in self.pages.findings.values())

    def _name_keys(self, page: list[KeyRow]) -> Operation[None]:
        for kept in (yield from self._kept(page)):
            self._names[kept.kind].append(kept.part)

    def _kept(self, page: list[KeyRow]) -> Operation[list[Kept]]:
        """Those keys of a page that are of their type; what is not as it has to be is judged."""
        found, odd = [], []
        for name, type_, life in page:
            kept = kept_as(name)
            if kept is None:
                self.pages.note(Finding("key", text_of(name), "is no key of a queue"))
                continue
            if not kept.suits(type_, life):
                odd.append(kept.text)
            if type_ == kept.type.encode():
                found.append(kept)
        yield from self.pages.walk("key", odd)
        return found

    # ── checks that are more than a walk ────────────────────────────────────────────────────

    def _lines(self) -> Operation[None]:
        yield from self.pages.walk("line", self._names["sequence"])
        for sequence in () if self._repair else self.pages.large:
            size, _, rest = sequence.partition(b":")
            lane, key = rest[: int(size)], rest[int(size) + 1 :]
            self._orphans.setdefault(lane, []).append(key)

    def _judge_records(self, page: list[KeyRow]) -> Operation[None]:
        jobs = yield from self._kept(page)
        yield from self.pages.walk("record", [kept.part for kept in jobs])

    def _lanes(self) -> Operation[None]:
        known = self.pages.lanes.union(self._orphans, self._names["pending"], self._names["out"])
        lanes = sorted(known)
        names = (b"\n".join((lane, *self._orphans.get(lane, ()))) for lane in lanes)
        yield from self.pages.walk("lane", names)
        for lane in list(self.pages.large):
            if lane not in self._orphans:
                yield from self._counts.large_lane(lane)
