"""Who has a running job, and who holds a lane's permits: asked of the consumers, in pages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.explain.facts import ConsumerFacts, Holder
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Operation, Packed, together
from rota.values.names import text_of

LOOKED_AT = 1000
"""Consumers a page that are asked for one job."""
LISTED = 250
"""Consumers a page that tell what they hold, which is more work."""
JOBS = 1000
"""Jobs of one consumer looked at by one call."""
AT_ONCE = 50
"""Consumers asked together."""
MOST_HOLDERS = 20

Held = tuple[bytes, bytes]
"""A job's id and its delivery, `number,score,mark,home` (see lua/lib/delivery)."""


def find_holder(keys: Keys, id: str) -> Operation[ConsumerFacts | None]:
    """The consumer that holds a running job; None where none does any more."""
    cursor = "0"
    while True:
        after, found = yield from stubs.holder_page(keys, id=id, cursor=cursor, limit=LOOKED_AT)
        for consumer, name, lease in found:
            return ConsumerFacts(
                text_of(consumer), text_of(name), None if lease < 0 else float(lease)
            )
        cursor = after.decode()
        if cursor == "0":
            return None


def holders_of(keys: Keys, lane: str, permits: int) -> Operation[list[Holder]]:
    """The holders of a lane's permits, at most 20, found while things move on."""
    found: list[Holder] = []
    wanted, cursor = min(permits, MOST_HOLDERS), "0"
    while True:
        cursor, page = yield from stubs.consumers_page(keys, cursor=cursor, limit=LISTED)
        busy = [(one.id, one.name) for one in page if one.held]
        for start in range(0, len(busy), AT_ONCE):
            if len(found) < wanted:
                found += yield from _held_by(keys, lane, busy[start : start + AT_ONCE], wanted)
        if cursor == "0" or len(found) >= wanted:
            return (yield from _with_tasks(keys, found[:MOST_HOLDERS]))


def _held_by(
    keys: Keys, lane: str, consumers: Sequence[tuple[str, str]], wanted: int
) -> Operation[list[Holder]]:
    """What these consumers hold of the lane, read in turns until there is enough of it."""
    names = dict(consumers)
    held: dict[str, list[Held]] = {id: [] for id in names}
    cursors = dict.fromkeys(names, "0")
    while cursors and sum(map(len, held.values())) < wanted:
        pages = yield from together(
            [
                stubs.held_page(keys, consumer=id, lane=lane, cursor=cursor, limit=JOBS)
                for id, cursor in cursors.items()
            ]
        )
        for id, (after, ids, deliveries) in zip(list(cursors), pages, strict=True):
            held[id] += zip(ids, deliveries, strict=True)
            cursors[id] = after.decode()
        cursors = {id: cursor for id, cursor in cursors.items() if cursor != "0"}
    return [one for id, jobs in held.items() for one in _entries(id, names[id], jobs)]


def _entries(consumer: str, name: str, held: Sequence[Held]) -> list[Holder]:
    """One holder an entry: jobs of a sequence are one, named by the first of them."""
    entries: dict[bytes, list[tuple[float, str]]] = {}
    for id, delivery in sorted(held):
        _, score, _, home = delivery.split(b",", 3)
        length, _, rest = home.partition(b":")
        is_sequence = len(rest) > int(length)
        entries.setdefault(home if is_sequence else b"!" + id, []).append(
            (float(score), text_of(id))
        )
    return [
        Holder(job=min(jobs)[1], task="", consumer=consumer, name=name, behind=len(jobs) - 1)
        for jobs in entries.values()
    ]


def _with_tasks(keys: Keys, holders: list[Holder]) -> Operation[list[Holder]]:
    if not holders:
        return []
    tasks = yield from stubs.tasks_of(keys, ids=Packed([one.job for one in holders]))
    return [
        msgspec.structs.replace(one, task=task) for one, task in zip(holders, tasks, strict=True)
    ]
