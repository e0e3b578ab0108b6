"""A lane in a user's hands: its limits, its pause, its block, its figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.explain import Explanation, explain_lane
from rota.link import AsyncFace, BlockingFace, Link, verb
from rota.script.loader import Operation
from rota.values import names
from rota.values.limits import UNSET, Rate, Unset
from rota.values.listing import SequenceInfo
from rota.values.model import Cancelled, LaneInfo, Moved


class _LaneVerbs:
    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self._link = link

    @verb
    def set(
        self,
        *,
        ceiling: int | Unset | None = UNSET,
        weight: float | Unset | None = UNSET,
        rate: Rate | Unset | None = UNSET,
        backlog: int | Unset | None = UNSET,
        template: str | Unset | None = UNSET,
    ) -> Operation[None]:
        """Changes limits; what is not given stays, None removes a setting.

        `ceiling`: most entries in flight at once, 0 stops the lane. `weight`: 0.01 … 100, its
        share of turns. `rate`: how fast its jobs may start. `backlog`: most jobs waiting and
        delayed. `template`: whose limits hold where the lane has none of its own (see
        `Queue.set_template`). Applies at once to what is queued; jobs in flight go on. Raises
        ConfigError, also for a template that does not exist.
        """
        return self._link.store.lane_set(
            self.name,
            ceiling=ceiling,
            weight=weight,
            rate=rate,
            backlog=backlog,
            template=template,
        )

    @verb
    def reset(self) -> Operation[None]:
        """Removes all limits of the lane: the template's and the queue's hold. A pause stays."""
        return self._link.store.lane_reset(self.name)

    @verb
    def pause(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: datetime | float | None = None,
    ) -> Operation[None]:
        """Hands out nothing of the lane until `resume`, or until the instant `until`.

        What is in flight goes on. Pausing again replaces end and reason.
        """
        return self._link.store.pause(self.name, reason=reason, by=by, until=until)

    @verb
    def resume(self) -> Operation[bool]:
        """Ends a pause; False where there was none."""
        return self._link.store.resume(self.name)

    @verb
    def block(
        self, delay: float | timedelta, *, reason: str | None = None, by: str | None = None
    ) -> Operation[None]:
        """Hands out nothing of the lane for `delay` seconds; an earlier block only ever extends."""
        return self._link.store.block(self.name, delay, reason=reason, by=by)

    @verb
    def unblock(self) -> Operation[bool]:
        """Ends a block before its time; False where there was none."""
        return self._link.store.unblock(self.name)

    @verb
    def purge(self) -> Operation[int]:
        """Deletes the lane's waiting and delayed jobs, in pages; what is in flight goes on."""
        return self._link.store.purge(self.name)

    @verb
    def cancel(self, *, by: str | None = None) -> Operation[Cancelled]:
        """Deletes the lane's waiting and delayed jobs, in pages, and asks those in flight to stop.

        Counts both. What becomes of a job in flight is said at `JobHandle.cancel`; `by` likewise.
        """
        return self._link.store.cancel_lane(self.name, by=by)

    @verb
    def move(self, to: str) -> Operation[Moved]:
        """Takes what waits and what is delayed over to another lane, in pages, places kept.

        Jobs in flight stay, and so does a sequence of which some are, or that is blocked; what the
        other lane's backlog limit leaves no room for stays too. While a long sequence moves, its
        rest is kept out; where the move breaks off, moving the lane there again finishes it. Jobs
        enqueued here meanwhile may stay. Raises ConfigError where one lane of the two is ordered.
        """
        return self._link.store.move(self.name, to)

    @verb
    def reprioritize(self, priority: int) -> Operation[int]:
        """Gives what waits and what is delayed this priority, in pages; says how many changed.

        Jobs that had the same priority keep their order. Those in flight keep theirs, also when
        they come back.
        """
        return self._link.store.reprioritize(self.name, priority)

    @verb
    def sequence(self, ordering_key: str | None = None) -> Operation[SequenceInfo | None]:
        """A sequence of the lane as it stands; an ordered lane is one, without an ordering key.

        None where there is nothing of it. Raises ConfigError where a key is missing, or too much.
        """
        key = names.sequence_key(ordering_key, self.name)
        return self._link.inspector.sequence(self.name, key)

    @verb
    def skip(
        self, ordering_key: str | None = None, *, by: str | None = None
    ) -> Operation[str | None]:
        """Lets a sequence go on past the job that stops it; says which that was, None: none did.

        A dead job's hold ends, and the job stays dead; a head that waits for its retry goes to the
        dead, with `by` in its error. A rate limit's block stays.
        """
        key = names.sequence_key(ordering_key, self.name)
        return self._link.store.skip(self.name, key, by=by)

    @verb
    def info(self) -> Operation[LaneInfo]:
        """The lane as it stands."""
        return self._link.inspector.lane(self.name)

    @verb
    def explain(self, *, shell: Sequence[str] = ()) -> Operation[Explanation]:
        """Why the lane is not served now, and what would free it; its counts, its oldest wait.

        `shell`: the queue's name, and options, as on a command line; then what frees it is told as
        commands.
        """
        return explain_lane(self._link.keys, self.name, shell=shell)


class Lane(_LaneVerbs, AsyncFace):
    """One tenant's line in a queue. Settings last until they are removed, jobs or none."""


class SyncLane(_LaneVerbs, BlockingFace):
    """A lane for code without an event loop; its verbs are those of `Lane`, without `await`."""
