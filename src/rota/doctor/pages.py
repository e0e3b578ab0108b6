"""Goes through what a queue consists of, page by page, and mends what the judges find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from rota.doctor.findings import Finding, FindingKind
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Operation, Tail
from rota.script.replies import FindingReply
from rota.values.names import text_of

PAGE = 100
"""How much one script looks at: well under 10 ms."""
KEYS_PAGE = 500
NAMES = 200
MENDS = 10

_NOTING = ("consumers", "hand")

KeyRow = tuple[bytes, bytes, int]
"""A key's name below the root, its type, its life in ms."""


class Pages:
    """One round through a queue. What it meets is gathered: findings, lanes, what stays open."""

    def __init__(self, keys: Keys, *, repair: bool) -> None:
        self.keys = keys
        self._repair = repair
        self.findings: dict[tuple[str, str], Finding] = {}
        self.lanes: set[bytes] = set()
        self.large: list[bytes] = []
        """Lanes, or sequences that no entry names, as the last walk said."""
        self.notes: list[bytes] = []
        """What the last walk through consumers met, or through hands: jobs and their places."""
        self.refused: set[bytes] = set()
        """Why something could not be judged: see `lua/audit_page.lua`."""

    def walk(
        self, kind: str, names: Iterable[bytes] = (b"",), *, lanes: bool = False
    ) -> Operation[None]:
        """Has everything of a kind judged. `lanes`: what is noted are lanes."""
        self.large = []
        if kind in _NOTING:
            self.notes = []
        for batch in _batches(names):
            start, cursor = 0, "0"
            while start < len(batch):
                done, cursor, rows, notes, large = yield from stubs.audit_page(
                    self.keys,
                    kind=kind,
                    cursor=cursor,
                    limit=PAGE,
                    names=Tail(batch[start:]),
                )
                start += done
                if kind in _NOTING:
                    self.notes += notes
                else:
                    (self.lanes if lanes else self.refused).update(notes)
                self.large += large
                yield from self._take(rows)

    def _take(self, rows: Sequence[FindingReply]) -> Operation[None]:
        if not self._repair:
            self._note(rows)
            return
        items = list(dict.fromkeys((row.judge, row.name, row.member) for row in rows))
        for start in range(0, len(items), MENDS):
            mended, lanes = yield from stubs.audit_mend(
                self.keys,
                things=Tail([part for item in items[start : start + MENDS] for part in item]),
            )
            self.lanes.update(lanes)
            self._note(mended)

    def _note(self, rows: Sequence[FindingReply]) -> None:
        for row in rows:
            kind = cast(FindingKind, text_of(row.kind))
            self.note(Finding(kind, text_of(row.subject), text_of(row.what), row.mended == 1))

    def note(self, finding: Finding) -> None:
        """One finding for each thing: the first, or the first that could not be mended."""
        place = (finding.kind, finding.subject)
        known = self.findings.get(place)
        if known is None or (known.mended and not finding.mended):
            self.findings[place] = finding

    def each_key(
        self, pattern: str, take: Callable[[list[KeyRow]], Operation[None]]
    ) -> Operation[None]:
        """Gives `take` the queue's keys that match a glob, page by page."""
        cursor = ""
        while cursor != "0":
            after, names, types, lives = yield from stubs.audit_keys(
                self.keys, pattern=pattern, cursor=cursor or "0", limit=KEYS_PAGE
            )
            yield from take(list(zip(names, types, lives, strict=True)))
            cursor = after.decode()


def _batches(names: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for name in names:
        batch.append(name)
        if len(batch) == NAMES:
            yield batch
            batch = []
    if batch:
        yield batch
