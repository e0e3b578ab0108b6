"""Many jobs at once, and one by its id: purged, cancelled, moved, reprioritised, replayed,
discarded; in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from rota.errors import ConfigError
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Call, Operation, Packed, together
from rota.store.jobs import jobs_page
from rota.store.settings import note
from rota.values import names
from rota.values.listing import Place, RetryAnswer
from rota.values.model import CancelAnswer, Cancelled, DeadAnswer, Moved
from rota.values.names import shown, text_of

PAGE = 200
CONSUMERS_PAGE = 100
HELD_PAGE = 500
MOVE_START = b"waiting -inf "
PRIORITY_START = b"delayed 0"
PRIORITY_SWEEPS = 10
"""Sequences that go and come meanwhile may be missed by a sweep, not by one that finds none."""

Act = Callable[..., Call[list[DeadAnswer]]]
"""What is done to dead jobs, by their ids."""


class Bulk:
    """The part of the store that acts on jobs by lane, and on one by its id."""

    keys: Keys

    def purge(self, lane: str) -> Operation[int]:
        """Deletes what waits and what is delayed in the lane, in pages."""
        return (yield from self._empty(lane, "purged"))

    def purge_queue(self) -> Operation[int]:
        """Deletes what waits and what is delayed in the whole queue, in pages.

        What was there at the beginning goes; jobs enqueued meanwhile may go or stay.
        """
        total, cursor = 0, ""
        while True:
            cursor, lanes = yield from stubs.purge_page(self.keys, cursor=cursor, limit=PAGE)
            for lane in lanes:
                total += yield from self.purge(lane)
            if not cursor:
                return total

    def cancel(self, id: str, *, by: str | None) -> Operation[CancelAnswer]:
        """Deletes a job that waits or is delayed; flags one in flight."""
        answer = yield from stubs.cancel(self.keys, id=id, by=note(by, "by") or "")
        return cast(CancelAnswer, answer)

    def cancel_lane(self, lane: str, *, by: str | None) -> Operation[Cancelled]:
        """Deletes what waits and what is delayed in the lane, flags what runs.

        What runs and goes back between the two would be missed: the lane is emptied once more.
        """
        asker = note(by, "by") or ""
        removed = yield from self._empty(lane, "cancelled")
        asked = yield from self._ask_running(lane, asker)
        removed += yield from self._empty(lane, "cancelled")
        return Cancelled(removed=removed, asked=asked)

    def move(self, lane: str, to: str) -> Operation[Moved]:
        """Takes what waits and what is delayed over to another lane, in pages, places kept."""
        target = _other_lane(lane, to)
        moved, cursor = 0, MOVE_START
        while True:
            cursor, page, left = yield from stubs.move(
                self.keys, source=lane, target=target, cursor=cursor, limit=PAGE
            )
            moved += page
            if not cursor:
                return Moved(moved=moved, left=left)

    def reprioritize(self, lane: str, priority: int) -> Operation[int]:
        """Gives what waits and what is delayed in the lane this priority, in pages."""
        number, total = names.priority(priority), 0
        for _ in range(PRIORITY_SWEEPS):
            changed, cursor = 0, PRIORITY_START
            while cursor:
                cursor, page = yield from stubs.reprioritize(
                    self.keys, lane=lane, priority=number, cursor=cursor, limit=PAGE
                )
                changed += page
            total += changed
            if not changed:
                break
        return total

    def retry(self, id: str) -> Operation[RetryAnswer]:
        """Replays a dead job, lets a delayed one fall due now."""
        answer = yield from stubs.hasten(self.keys, id=id)
        if answer == "dead":
            (replayed,) = yield from stubs.replay(self.keys, ids=Packed([id]))
            return replayed
        return cast(RetryAnswer, answer)

    def replay(self, ids: Sequence[str]) -> Operation[list[DeadAnswer]]:
        return (yield from self._each(stubs.replay, ids))

    def discard(self, ids: Sequence[str]) -> Operation[list[DeadAnswer]]:
        return (yield from self._each(stubs.discard, ids))

    def replay_where(self, *, lane: str | None, task: str | None) -> Operation[int]:
        """Page by page; each page is done when it is answered. Returns how many were replayed."""
        return (yield from self._each_where(stubs.replay, lane, task))

    def discard_where(self, *, lane: str | None, task: str | None) -> Operation[int]:
        return (yield from self._each_where(stubs.discard, lane, task))

    def _each(self, act: Act, ids: Sequence[str]) -> Operation[list[DeadAnswer]]:
        answers: list[DeadAnswer] = []
        for start in range(0, len(ids), PAGE):
            answers += yield from act(self.keys, ids=Packed(list(ids[start : start + PAGE])))
        return answers

    def _each_where(self, act: Act, lane: str | None, task: str | None) -> Operation[int]:
        """Those that were dead when it began: what a worker buries again meanwhile is left."""
        total, began = 0, 0
        place: Place = []
        while True:
            page = yield from jobs_page(self.keys, "dead", place, lane=lane, task=task, limit=PAGE)
            began, place = began or page.now, page.place
            ids = [text_of(job.id) for job in page.jobs if job.time <= began]
            total += (yield from self._each(act, ids)).count("ok")
            if not place or float(place[0]) > began:
                return total

    def skip(self, lane: str, key: str, *, by: str | None) -> Operation[str | None]:
        """Lets a sequence go on past the job that stops it, and says which; None: nothing did."""
        asker = note(by, "by") or ""
        found = yield from stubs.sequence_info(self.keys, lane=lane, key=key)
        if found is None or found.head is None or found.state == "ready":
            return None
        answer = yield from stubs.skip(self.keys, lane=lane, key=key, id=found.head, by=asker)
        return found.head if answer == "ok" else None

    def _empty(self, lane: str, total: str) -> Operation[int]:
        count, more = 0, True
        while more:
            more, deleted = yield from stubs.purge(self.keys, lane=lane, limit=PAGE, total=total)
            count += deleted
        return count

    def _ask_running(self, lane: str, by: str) -> Operation[int]:
        """Asks every consumer for the lane's jobs it holds; how many were flagged."""
        asked, cursor = 0, "0"
        while True:
            cursor, page = yield from stubs.consumers_page(
                self.keys, cursor=cursor, limit=CONSUMERS_PAGE
            )
            asked += yield from self._ask([(one.id, "0") for one in page if one.held], lane, by)
            if cursor == "0":
                return asked

    def _ask(self, places: list[tuple[str, str]], lane: str, by: str) -> Operation[int]:
        """From each place (consumer, cursor of its hash) on, a page of all at a time."""
        asked = 0
        while places:
            pages = yield from together(
                [
                    stubs.cancel_running(
                        self.keys,
                        consumer=consumer,
                        lane=lane,
                        by=by,
                        cursor=cursor,
                        limit=HELD_PAGE,
                    )
                    for consumer, cursor in places
                ]
            )
            asked += sum(found for _, found in pages)
            places = [
                (consumer, cursor)
                for (consumer, _), (cursor, _) in zip(places, pages, strict=True)
                if cursor != "0"
            ]
        return asked


def _other_lane(lane: str, to: object) -> str:
    """The lane that jobs of `lane` may move to."""
    target = names.lane_name(to)
    if target == lane:
        raise ConfigError(f"move: expected another lane than {shown(lane)}, given the same")
    if names.is_ordered_lane(target) != names.is_ordered_lane(lane):
        kind = "ordered lane (its name begins with '!')"
        wanted = f"an {kind}" if names.is_ordered_lane(lane) else f"none that is an {kind}"
        raise ConfigError(f"move: lane {shown(lane)} moves to {wanted}, given {shown(target)}")
    return target
