"""Figures that one script cannot add up: summed in pages, believed if nothing moved meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rota.doctor.pages import Pages
from rota.script import stubs
from rota.script.loader import Operation
from rota.values.names import text_of

TRIES = 3
PAGE = 1000

Sums = dict[bytes, int]
Print = bytes | None
"""What the server answers alike as long as no count changes; None: one did."""


class Counts:
    """The recounts of one round. What could not be told goes to `unchecked`, as a sentence."""

    def __init__(self, pages: Pages, unchecked: list[str]) -> None:
        self._pages = pages
        self._unchecked = unchecked

    # ── permits ─────────────────────────────────────────────────────────────────────────────

    def permits(self, consumers: Iterable[bytes]) -> Operation[None]:
        """Judges what each consumer holds, and whether `gactive` says how much that is.

        `consumers`: those known already; all that have a lease are added.
        """
        suspects: Sums | None = None
        for _ in range(TRIES):
            print_, off = yield from self._permits_off(consumers)
            if print_ is not None:
                names = [b"\n".join((print_, b"%d" % n, lane)) for lane, n in off.items()]
                if (yield from self._judge("permits", names)):
                    return
            # A lane that is off by as much again deserves a look at all there is in flight.
            suspects = off if suspects is None else dict(off.items() & suspects.items())
            if not suspects:
                return
        yield from self._pages.walk("permits", [b"\n\n" + lane for lane in suspects or ()])

    def _judge(self, kind: str, names: Iterable[bytes]) -> Operation[bool]:
        """Says whether nothing had moved since it was counted."""
        self._pages.refused.discard(b"moved")
        yield from self._pages.walk(kind, names)
        return b"moved" not in self._pages.refused

    def _permits_off(self, consumers: Iterable[bytes]) -> Operation[tuple[Print, Sums]]:
        """Permits, as counted, of lanes for which another number is stated."""
        before, stated = yield from self._sum(active=True)
        yield from self._pages.walk("consumers")  # again: some may have joined since
        held = yield from self._in_flight({*consumers, *self._pages.notes})
        after, _ = yield from self._sum(active=True)
        jobs = Counter(held.values())
        permits: Counter[bytes] = Counter()
        for place, n in jobs.items():
            lane, key = _split(place)
            permits[lane] += n if key is None else 1
        off = {
            lane: permits[lane]
            for lane in permits.keys() | stated.keys()
            if permits[lane] != stated.get(lane, 0) or not permits[lane]
        }
        return before if before == after else None, off

    def _in_flight(self, consumers: Iterable[bytes]) -> Operation[dict[bytes, bytes]]:
        """Each job's place. Judges them on the way, and those that were met twice."""
        yield from self._pages.walk("hand", consumers)
        held: dict[bytes, bytes] = {}
        twice: list[bytes] = []
        for note in self._pages.notes:
            id, _, place = note.partition(b"\n")
            if id in held:
                twice.append(id)
            held[id] = place
        yield from self._pages.walk("twice", twice)
        return held

    # ── waiting jobs ────────────────────────────────────────────────────────────────────────

    def large_lane(self, lane: bytes) -> Operation[None]:
        """How many jobs wait in a lane too long for one script."""
        for _ in range(TRIES):
            counted = yield from self._recount(lane)
            if counted is not None and (yield from self._judge("count", (counted,))):
                return
        self._unchecked.append(
            f"how many jobs of lane {text_of(lane)} wait was left open: it is too long to be "
            "counted in one moment, and work went on meanwhile"
        )

    def _recount(self, lane: bytes) -> Operation[bytes | None]:
        prints: set[bytes] = set()
        count, first, more = 0, 0, 1
        while more and len(prints) < 2:
            print_, jobs, entries, more = yield from stubs.audit_recount(
                self._pages.keys, lane=lane, first=first, limit=PAGE
            )
            prints.add(print_)
            count, first = count + jobs, first + entries
        if len(prints) != 1:
            return None
        return b"\n".join((prints.pop(), b"%d" % count, lane))

    # ── totals ──────────────────────────────────────────────────────────────────────────────

    def totals(self) -> Operation[None]:
        """In one script, or in pages where there are too many lanes for that."""
        for _ in range(TRIES):
            self._pages.refused.discard(b"lanes")
            yield from self._pages.walk("totals")
            if b"lanes" not in self._pages.refused:
                return
            summed = yield from self._sums()
            if summed is not None and (yield from self._judge("totals", (summed,))):
                return
        self._unchecked.append(
            "the queue's totals were left open: there are too many lanes to be added up in one "
            "moment, and work went on meanwhile"
        )

    def _sums(self) -> Operation[bytes | None]:
        first, waiting = yield from self._sum(active=False)
        last, permits = yield from self._sum(active=True)
        if first is None or first != last:
            return None
        return b"\n".join((first, b"%d" % sum(waiting.values()), b"%d" % sum(permits.values())))

    def _sum(self, *, active: bool) -> Operation[tuple[Print, Sums]]:
        """The lanes' counts as stated: of permits, or of waiting jobs."""
        prints: set[bytes] = set()
        counts: Sums = {}
        cursor = ""
        while cursor != "0":
            print_, after, flat = yield from stubs.audit_sums(
                self._pages.keys, active=active, cursor=cursor or "0", limit=PAGE
            )
            counts |= {lane: _whole(n) for lane, n in zip(flat[::2], flat[1::2], strict=True)}
            prints.add(print_)
            cursor = after.decode()
        return prints.pop() if len(prints) == 1 else None, counts


def _split(place: bytes) -> tuple[bytes, bytes | None]:
    """Lane and key of `<bytes of lane>:<lane>[:<key>]`."""
    size, _, rest = place.partition(b":")
    lane, tail = rest[: int(size)], rest[int(size) :]
    return lane, tail[1:] if tail else None


def _whole(text: bytes) -> int:
    return int(text) if text.isdigit() else 0
