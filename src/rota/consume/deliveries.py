"""What one consumer holds, and the rules of claiming: numbers, unknown outcomes, lost leases.

Operations without I/O; the worker's loop, the async and the blocking consumer all drive these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rota.consume.lease import STRETCHED, TRIPS
from rota.errors import LeaseLost, PayloadError, RotaError, UnknownTask
from rota.script.loader import Operation
from rota.store import Store
from rota.values import endings
from rota.values.endings import Failed, burial, error_text
from rota.values.ids import new_nonce
from rota.values.model import (
    UNFIT,
    Answer,
    Claimed,
    Exchanged,
    Holdings,
    Job,
    NewerRecord,
    Settlement,
    job_from,
    process_name,
)

JOINS = 3
"""How often a consumer joins at most to measure a round trip: the first opens a connection, too."""

Decode = Callable[[Job], None]
"""Fills a job's arguments where its task is known. A PayloadError or UnknownTask says that it can
never be run; any other error is a failed attempt."""

Why = str | Failed | NewerRecord
"""Why a job cannot be run."""

UNREAD_PAUSE_MS = 1000
"""How long a job stays away whose record could not be read now, for no fault of the record's."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended otherwise than done: how, and where it could not be run, why. `job` is None
    where it cannot be read."""

    job: Job | None
    what: Settlement
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What an exchange brought: entries that can be run, the server's answer, and the jobs that
    cannot be run."""

    entries: list[list[Job]]
    reply: Exchanged
    unrun: Sequence[Ended] = ()

    @property
    def jobs(self) -> list[Job]:
        return [job for entry in self.entries for job in entry]


class Deliveries:
    """One consumer's identity and the jobs in its hands.

    Claims are numbered one by one, and the number is the delivery of what they bring. It goes on
    rising when the consumer starts anew, so a job of a lost lease never passes for one held now.

    A server that has lost what it was told, by a failover or a restored snapshot, may think other
    jobs in these hands than are. A claim that it refuses as not the next tells so, and otherwise
    the numbers of `Holdings` do.
    """

    def __init__(self, store: Store, *, lease_ms: int, decode: Decode) -> None:
        self.id = ""
        self.jobs: dict[str, Job] = {}
        self._store = store
        self._lease_ms = lease_ms
        self._decode = decode
        self._number = 0
        self._known = 0
        """The last claim whose jobs are all in its hands, or have left them."""
        self._joined_at = 0
        self._failed = 0
        """The number of the last claim or reconciling that was left unanswered, where all before
        it are known."""
        self.unsure = False
        self._joined = False
        self._former = ""

    def join(self) -> Operation[tuple[float, float]]:
        """Starts under a fresh identity; what was held is another's by now. Since when, by the
        monotonic clock, its lease counts, and for how many seconds: where the server is so far away
        that the one it should have leaves no time to renew it, longer."""
        self.jobs.clear()
        self.unsure = False
        self._joined_at, self._known = self._number, 0
        if self._joined:
            self._former, self._joined = self.id, False
        self.id = new_nonce()
        lease = given = self._lease_ms / 1000
        for n in range(JOINS):
            began, given = time.monotonic(), lease
            ms = round(given * 1000)
            yield from self._store.join(self.id, lease_ms=ms, name=process_name())
            took = time.monotonic() - began
            if took * TRIPS <= given:
                break
            if n:
                lease = max(lease, took * STRETCHED)
        self._joined = True
        return began, given

    def leave_former(self) -> Operation[None]:
        """Ends the lease that was lost, once another is kept. A heartbeat that lay in a server that
        stood still may have renewed it, and its end would be blamed on its jobs; but who has lost
        it lives."""
        former, self._former = self._former, ""
        if former:
            with suppress(RotaError):
                yield from self._store.leave(former)

    def disown(self) -> None:
        """In a forked child: the jobs it has inherited, and their lease, are its parent's."""
        self.jobs.clear()
        self._joined = False

    def leave(self) -> Operation[int]:
        """Ends the lease; what is held goes back to its place uncounted."""
        self.jobs.clear()
        return (yield from self._store.leave(self.id))

    def exchange(
        self, *, want: int, prefetch: int, park: bool, done: Sequence[Job] = ()
    ) -> Operation[Taken]:
        """Completes `done` and claims up to `want` entries; what cannot be run is buried.

        Raises LeaseLost, unless all of `done` counts even so. After any other failure the outcome
        is unknown, and the next call first asks the server what this consumer holds.
        """
        reply = yield from self.exchange_unread(want=want, prefetch=prefetch, park=park, done=done)
        if reply.lost and (not done or "lost" in reply.answers):
            raise LeaseLost(f"the lease of consumer {self.id} is gone")
        taken = self._open(reply)
        if taken.unrun:
            self.unsure = True
            try:
                yield from self._store.settle(self.id, [one.what for one in taken.unrun])
            except BaseException:
                self._failed = int(reply.delivery)
                raise
            self.unsure = False
        # Only now: had burying failed, what came with it would be given back by reconciling.
        self._hold(taken)
        return taken

    def exchange_unread(
        self, *, want: int, prefetch: int, park: bool, done: Sequence[Job] = ()
    ) -> Operation[Exchanged]:
        """As `exchange`, and leaves it to the caller to look whether the lease is lost, to `read`
        the answer and to settle what cannot be run. To be read before `reconcile`, which gives back
        what it does not know."""
        if self.unsure:
            yield from self.reconcile()
        if want > 0:
            self._number += 1
            self.unsure = True
        number = self._number
        # A list, not `any`: between one answer and the next question the server waits for this.
        timed = [job for job in done if job.charge == "time"]
        try:
            reply = yield from self._store.exchange(
                self.id,
                number=number,
                want=want,
                prefetch=prefetch,
                park=park,
                done=[(job.id, job.delivery) for job in done],
                ran=[job.ran() for job in done] if timed else (),
                within=self._lease_ms / 1000,
            )
        except BaseException:
            if want > 0 and max(self._known, self._joined_at) == number - 1:
                self._failed = number
            raise
        self.let_go(done)
        self.unsure = reply.status == "stale"
        return reply

    def read(self, reply: Exchanged) -> Taken:
        """Takes what was claimed into its hands; what cannot be run is named, and not held."""
        taken = self._open(reply)
        self._hold(taken)
        return taken

    def settle(self, settlements: Sequence[Settlement]) -> Operation[list[Answer]]:
        """Ends deliveries, each in its own way; jobs answered are no longer held."""
        answers = yield from self._store.settle(self.id, settlements)
        for settlement, answer in zip(settlements, answers, strict=True):
            job = self._let_go(settlement.id, settlement.delivery)
            # Also where the answer is `settled`: then an earlier call, unheard, has done it.
            if job is not None and job.sequence and answer != "lost" and _stops(settlement):
                self._let_go_behind(job)
        return answers

    def mark_cancelled(self, asked: Iterable[tuple[str, str]]) -> list[Job]:
        """Marks held jobs, named with their deliveries; those that were not marked before."""
        marked = []
        for id, delivery in asked:
            job = self.jobs.get(id)
            if job is not None and job.delivery == delivery and not job.cancelled:
                job.cancelled = True
                marked.append(job)
        return marked

    def let_go(self, jobs: Iterable[Job]) -> None:
        """They have ended, or are others' by now."""
        for job in jobs:
            self._let_go(job.id, job.delivery)

    def has(self, job: Job) -> bool:
        """Whether this very delivery is in its hands."""
        return self.jobs.get(job.id) is job

    def is_of_lost_lease(self, job: Job) -> bool:
        """Whether it was claimed before the consumer had to start anew."""
        return int(job.delivery) <= self._joined_at

    def start(self, job: Job) -> Operation[bool]:
        """Marks a job with a death behind it as started; False: it must not be run."""
        answer = yield from self._store.start(self.id, job.id, job.delivery)
        if answer == "lost":
            raise LeaseLost(f"the lease of consumer {self.id} is gone")
        return answer == "ok"

    def reconcile(self) -> Operation[list[Job]]:
        """After an unknown outcome: gives back what it does not know, forgets what is gone, and
        says what that was."""
        self._number += 1
        number = self._number
        try:
            found = yield from self._compare(number, raised=number)
        except BaseException:
            self._failed = number
            raise
        if found is None:
            raise LeaseLost(f"the lease of consumer {self.id} is gone")
        _, gone = found
        self.let_go(gone)
        self._known = number
        self.unsure = False
        return gone

    def agrees(self, holdings: Holdings) -> bool:
        """Whether the server seems to think the same jobs in its hands. While calls are on their
        way the two may differ. From any thread."""
        return holdings == (self._known, len(self.jobs))

    def compare(self) -> Operation[tuple[int, list[Job]]]:
        """Gives back what the server thinks in its hands and is not; how many jobs that were, and
        which are in its hands and not on the server: those are still to be let go.

        From any thread, while claims and settlements go on: it judges only what claims have brought
        that were answered before, and a settlement of an old delivery changes nothing. Where a
        claim was left unanswered and no other has followed it settles that too.
        """
        raised = self._number + 1  # before it looks: any claim to come is numbered higher
        if self.unsure and self._failed == raised - 1:
            found = yield from self._compare(raised, raised=raised)
        else:
            found = yield from self._compare(self._known, raised=0)
        return found or (0, [])

    def _compare(self, newest: int, *, raised: int) -> Operation[tuple[int, list[Job]] | None]:
        """Of deliveries up to `newest`; None where the lease is gone."""
        id, known, before = self.id, self._known, self.jobs.copy()
        on_server = yield from self._store.deliveries_of(id, number=raised)
        if on_server is None:
            return None
        held = self.jobs.copy()
        unknown = [
            Settlement(job, delivery, "release", unstarted=int(delivery) > known)
            for job, delivery in on_server.items()
            if int(delivery) <= newest and (job not in held or held[job].delivery != delivery)
        ]
        if unknown:
            yield from self._store.settle(id, unknown)
            # What was taken behind them in their sequences has gone back as well.
            on_server = (yield from self._store.deliveries_of(id, number=0)) or {}
        gone = [
            job
            for job in before.values()
            if on_server.get(job.id) != job.delivery and self.has(job)
        ]
        return len(unknown), gone

    def _let_go(self, id: str, delivery: str) -> Job | None:
        job = self.jobs.get(id)
        if job is None or job.delivery != delivery:
            return None
        return self.jobs.pop(id, None)

    def _let_go_behind(self, job: Job) -> None:
        """The server has given back what was taken behind the job in its sequence."""
        for other in self.jobs.copy().values():
            if other.sequence == job.sequence and other.place > job.place:
                self.jobs.pop(other.id, None)

    def _hold(self, taken: Taken) -> None:
        self.jobs.update([(job.id, job) for entry in taken.entries for job in entry])
        if taken.reply.status == "ok":
            self._known = int(taken.reply.delivery)

    def _open(self, reply: Exchanged) -> Taken:
        """The jobs that can be run, and how those end that cannot: dead, their bytes kept."""
        entries: list[list[Job]] = []
        unrun: list[Ended] = []
        delivery, now = reply.delivery, reply.now
        for claimed in reply.entries:
            entry: list[Job] = []
            for one in claimed:
                job, why = self._read(one, delivery, now)
                if why is not None:
                    what = _refusal(one.id, delivery, job, why)
                    stops = _stops(what)
                    if stops and entry:
                        # It may stop its sequence only when it is the head: next time.
                        what = Settlement(one.id, delivery, "release", unstarted=True)
                    unrun.append(Ended(job, what, _text(why)))
                    if stops:
                        break  # the server gives back what was taken behind it
                elif job is not None:
                    job.begin()
                    entry.append(job)
            if entry:
                entries.append(entry)
        return Taken(entries, reply, unrun)

    def _read(self, claimed: Claimed, delivery: str, now: int) -> tuple[Job | None, Why | None]:
        """The job, and why it cannot be run: ever, this time, or here."""
        try:
            job = job_from(claimed, delivery)
        except NewerRecord as newer:
            return newer.job, newer
        except PayloadError as error:
            return None, str(error)
        except Exception as error:
            return None, Failed.by(error)
        if job.expires is not None and job.expires <= now:
            return job, "expired before it was started"
        try:
            self._decode(job)
        except (PayloadError, UnknownTask) as error:
            return job, f"{type(error).__name__}: {error}"
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a validator is another's code, as a handler is
            return job, Failed.by(error)
        return job, None


def _refusal(id: str, delivery: str, job: Job | None, why: Why) -> Settlement:
    """What can never be run is buried; what failed may be tried again, and what is newer by
    others."""
    if isinstance(why, NewerRecord):
        return Settlement(id, delivery, "release", UNFIT, error_text(str(why)), unstarted=True)
    if not isinstance(why, Failed):
        return burial(id, delivery, why, hold=job is not None and job.on_dead == "hold")
    if job is None:  # of its attempts nothing is known
        return Settlement(id, delivery, "release", UNREAD_PAUSE_MS, unstarted=True)
    return endings.settlement(job, why)


def _text(why: Why) -> str:
    return why.error or "" if isinstance(why, Failed) else str(why)


def _stops(settlement: Settlement) -> bool:
    """Whether this ending gives back what the same consumer took behind the job."""
    if settlement.action == "bury":
        return settlement.hold
    return settlement.action not in ("complete", "cancel")
