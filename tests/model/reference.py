"""A queue as plain dicts: what the real one has to do, said in the slowest and plainest way.

Written from the design, not from the Lua. Nothing is counted or indexed: what waits, what may be
claimed and how many permits are held is worked out anew from the jobs at each question, and a
claim of many entries is that many claims of one. Times are Unix milliseconds.

Where the design leaves room this follows the shipped scripts:
- a delayed retry replaces the block of another's delayed retry in the sequence, not a dead job's
  hold; a second hold replaces the first;
- each job that falls due uses up a number of the counter, also one that has its place already
  (`_due_order`), which leaves gaps and changes no order;
- a block of no length is none; an unordered job that blocks its sequence waits alone;
- a first beat ever follows no gap;
- a heartbeat renews a lease that has run out as long as no beat has marked it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from rota.model import Answer, DeadAnswer, JobSpec, Outcome, Settlement

PRIORITY_STEP = 2**42
DEATHS_MAX = 3

Status = Literal["ok", "lost", "stale"]
SequenceName = tuple[str, str]
"""Lane and ordering key; an ordered lane is one sequence, with the empty key."""


class Full(Exception):
    """A lane's backlog limit refuses an atomic batch."""


@dataclass
class Job:
    id: str
    lane: str
    key: str | None
    priority: int
    on_dead: str
    number: int
    place: int | None = None  # None: never available yet
    state: str = "waiting"
    due: int = 0
    attempts: int = 0
    deaths: int = 0

    @property
    def sequence(self) -> SequenceName | None:
        return None if self.key is None else (self.lane, self.key)


@dataclass
class Consumer:
    deadline: float
    lease: int
    claim: int = 0
    held: dict[str, str] = field(default_factory=dict)  # job → delivery
    unstarted: set[str] = field(default_factory=set)


class Reference:
    def __init__(self, now: int) -> None:
        self.now = now
        self.last_beat: int | None = None
        self.sequence_number = 0
        self.jobs: dict[str, Job] = {}
        self.held: dict[SequenceName, list[str]] = {}
        self.consumers: dict[str, Consumer] = {}
        self.ceilings: dict[str, int] = {}
        self.weights: dict[str, float] = {}
        self.backlogs: dict[str, int] = {}
        self.paused: set[str] = set()
        self.blocked: dict[tuple[str, str | SequenceName], float] = {}
        self.blockers: dict[SequenceName, str] = {}  # of `h` blocks: whose delay or hold it is
        self.default_ceiling: int | None = None
        self.sweeping = False
        self.shut = False
        self.ring: dict[str, float] = {}
        self.owed: dict[str, float] = {}
        self.vt = 0.0
        self._touched: set[str] = set()

    # ── what follows from the jobs ──────────────────────────────────────────────────────────

    def jobs_of(self, lane: str, state: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.lane == lane and job.state == state]

    def waiting_in(self, sequence: SequenceName) -> list[Job]:
        """A sequence's waiting jobs, in order."""
        found = [j for j in self.jobs_of(sequence[0], "waiting") if j.sequence == sequence]
        return sorted(found, key=_place)

    def is_free(self, sequence: SequenceName) -> bool:
        blocks = {("s", sequence), ("h", sequence)} & self.blocked.keys()
        return sequence not in self.held and not blocks

    def pending(self, lane: str) -> dict[str, int]:
        """What may be claimed: unordered jobs, and a token per free sequence, where its head is."""
        entries: dict[str, int] = {}
        for job in sorted(self.jobs_of(lane, "waiting"), key=_place):
            if job.sequence is None:
                entries[job.id] = _place(job)
            elif self.is_free(job.sequence):
                entries.setdefault(f"!{job.key}", _place(job))
        return entries

    def out(self, lane: str) -> dict[str, int]:
        """The lane's sequences that have waiting jobs and may not be claimed."""
        entries: dict[str, int] = {}
        for job in sorted(self.jobs_of(lane, "waiting"), key=_place):
            if job.sequence is not None and not self.is_free(job.sequence):
                entries.setdefault(job.sequence[1], _place(job))
        return entries

    def permits(self, lane: str) -> int:
        running = self.jobs_of(lane, "running")
        return len({job.sequence or job.id for job in running})

    def ceiling(self, lane: str) -> float:
        own = self.ceilings.get(lane, self.default_ceiling)
        return inf if own is None else own

    def weight(self, lane: str) -> float:
        return self.weights.get(lane, 1)

    def may_be_served(self, lane: str) -> bool:
        return (
            bool(self.pending(lane))
            and lane not in self.paused
            and ("l", lane) not in self.blocked
            and self.permits(lane) < self.ceiling(lane)
        )

    def claimable(self) -> set[tuple[str, str]]:
        return set() if self.shut else {(lane, e) for lane in self.ring for e in self.pending(lane)}

    def next_time(self) -> float:
        """When the next delayed job, block or pause is due."""
        dues = [job.due for job in self.jobs.values() if job.state == "delayed"]
        return min([*dues, *self.blocked.values()], default=inf)

    def next_due(self) -> float | None:
        """Milliseconds until the next of those, or the end of a lease; None: nothing."""
        soonest = min([self.next_time(), *(c.deadline for c in self.consumers.values())])
        return None if soonest == inf else max(0, soonest - self.now)

    def picture(self) -> dict[str, Any]:
        """The whole state, as `audit.picture` reads it from the keys."""
        jobs = self.jobs.values()
        lanes = {job.lane for job in jobs}
        waiting = {lane: self.jobs_of(lane, "waiting") for lane in lanes}
        sequences = {job.sequence for job in jobs if job.sequence and job.state == "waiting"}
        return {
            "ring": self.ring,
            "owed": self.owed,
            "vt": self.vt,
            "pending": {lane: found for lane in lanes if (found := self.pending(lane))},
            "out": {lane: found for lane in lanes if (found := self.out(lane))},
            "sequences": {s: {j.id: j.place for j in self.waiting_in(s)} for s in sequences},
            "delayed": {job.id: job.due for job in jobs if job.state == "delayed"},
            "held": self.held,
            "gwaiting": {lane: len(found) for lane, found in waiting.items() if found},
            "gactive": {lane: held for lane in lanes if (held := self.permits(lane))},
            "paused": self.paused,
            "blocked": self.blocked,
            "blockers": self.blockers,
            "leases": {name: c.deadline for name, c in self.consumers.items()},
            "deliveries": {
                name: {id: (d, "-u"[id in c.unstarted]) for id, d in c.held.items()}
                for name, c in self.consumers.items()
            },
            "claims": {name: c.claim for name, c in self.consumers.items()},
            "dead": {job.id for job in jobs if job.state == "dead"},
            "records": set(self.jobs),
            "attempts": {job.id: job.attempts for job in jobs if job.attempts},
            "deaths": {job.id: job.deaths for job in jobs if job.deaths},
            "seq": self.sequence_number,
        }

    # ── the ring ────────────────────────────────────────────────────────────────────────────

    def _reconcile(self) -> None:
        """Membership by its rule; a running sweep reaches only the lanes an operation touched."""
        lanes = {job.lane for job in self.jobs.values()} | self.ring.keys()
        for lane in self._touched if self.sweeping else lanes:
            allowed = self.may_be_served(lane)
            if allowed and lane not in self.ring:
                tag = self.owed.pop(lane, -inf)
                self.ring[lane] = tag if tag >= self.vt else self.vt + 1 / self.weight(lane)
            elif not allowed and lane in self.ring:
                self.owed[lane] = self.ring.pop(lane)
        self._touched.clear()

    def _serve(self, name: str, prefetch: int) -> list[Job]:
        """One turn: the entry of the lowest tag, for consumer `name`; [] when there is none."""
        for lane in sorted(self.ring, key=lambda lane: (self.ring[lane], lane.encode())):
            if self.permits(lane) < self.ceiling(lane):
                break
            self.owed[lane] = self.ring.pop(lane)  # not reached by a running sweep
        else:
            return []
        tag = self.ring.pop(lane)
        entries = self.pending(lane)
        entry = min(entries, key=lambda entry: entries[entry])
        if entry.startswith("!"):
            sequence = (lane, entry[1:])
            jobs = self.waiting_in(sequence)[:prefetch]
            self.held[sequence] = [job.id for job in jobs]
        else:
            jobs = [self.jobs[entry]]
        consumer = self.consumers[name]
        for job in jobs:
            job.state = "running"
            consumer.held[job.id] = str(consumer.claim)
            if job.deaths:
                consumer.unstarted.add(job.id)
        self.vt = max(self.vt, tag)
        for _ in jobs:
            tag += 1 / self.weight(lane)
        if self.may_be_served(lane):
            self.ring[lane] = tag
        elif self.jobs_of(lane, "waiting") or tag > self.vt + 1 / self.weight(lane):
            self.owed[lane] = tag
        return jobs

    # ── time ────────────────────────────────────────────────────────────────────────────────

    def _promote(self) -> None:
        due = [j for j in self.jobs.values() if j.state == "delayed" and j.due <= self.now]
        for job in sorted(due, key=_due_order):
            self.sequence_number += 1
            if job.place is None:
                job.place = self.sequence_number - job.priority * PRIORITY_STEP
            job.state = "waiting"
            self._touched.add(job.lane)
        for kind, name in [member for member, until in self.blocked.items() if until <= self.now]:
            del self.blocked[kind, name]
            lane = name if isinstance(name, str) else name[0]
            if kind == "p":
                self.paused.discard(lane)
            elif kind == "h":
                del self.blockers[lane, name[1]]
            self._touched.add(lane)

    def beat(self, watched: int = 0) -> None:
        """`watched`: for how long the caller was there without a break, and would have beaten."""
        gap = 0 if self.last_beat is None else self.now - self.last_beat
        self.last_beat = self.now
        self._promote()
        for name, consumer in list(self.consumers.items()):
            if consumer.deadline <= self.now:
                spared = gap > consumer.lease / 2 and watched > gap
                self._take_back(name, blame=not spared)
        self.owed = {lane: tag for lane, tag in self.owed.items() if tag >= self.vt}
        self.sweeping = False
        self._reconcile()

    def _take_back(self, name: str, *, blame: bool) -> None:
        consumer = self.consumers[name]
        firsts = {jobs[0] for jobs in self.held.values() if jobs}
        for id in sorted(consumer.held, key=lambda id: _place(self.jobs[id])):
            job = self.jobs[id]
            started = id not in consumer.unstarted and (job.sequence is None or id in firsts)
            if id not in consumer.held:
                continue
            if blame and started:
                job.deaths += 1
            if blame and started and job.deaths >= DEATHS_MAX:
                self._bury(consumer, job, hold=job.on_dead == "hold")
            else:
                self._give_back(consumer, job, 0)
        del self.consumers[name]

    # ── consumers ───────────────────────────────────────────────────────────────────────────

    def join(self, name: str, lease: int) -> int:
        self.consumers[name] = Consumer(self.now + lease, lease)
        return self.now

    def leave(self, name: str) -> int:
        if name not in self.consumers:
            return 0
        back = len(self.consumers[name].held)
        self._take_back(name, blame=False)
        self._reconcile()
        return back

    def heartbeat(self, names: Sequence[str], lease: int) -> list[bool]:
        for name in names:
            if name in self.consumers:
                self.consumers[name].deadline = self.now + lease
        return [name in self.consumers for name in names]

    def held_by(self, name: str, number: int) -> dict[str, str] | None:
        if name not in self.consumers:
            return None
        self.consumers[name].claim = max(number, self.consumers[name].claim)
        return dict(self.consumers[name].held)

    def start(self, name: str, id: str, delivery: str) -> str:
        if name not in self.consumers:
            return "lost"
        if self.consumers[name].held.get(id) != delivery:
            return "settled"
        self.consumers[name].unstarted.discard(id)
        return "ok"

    # ── jobs ────────────────────────────────────────────────────────────────────────────────

    def enqueue(self, specs: Sequence[JobSpec], *, atomic: bool = False) -> list[Outcome]:
        outcomes: list[Outcome] = []
        created: list[JobSpec] = []
        for spec in specs:
            lane = spec.lane
            stored = len(self.jobs_of(lane, "waiting")) + len(self.jobs_of(lane, "delayed"))
            stored += sum(other.lane == lane for other in created)
            if spec.id in self.jobs or any(other.id == spec.id for other in created):
                outcomes.append("duplicate")
            elif stored >= self.backlogs.get(lane, inf):
                if atomic:
                    raise Full(lane)
                outcomes.append("lane_full")
            else:
                outcomes.append("created")
                created.append(spec)
        for spec in created:
            self._create(spec)
        self._reconcile()
        return outcomes

    def _create(self, spec: JobSpec) -> None:
        self.sequence_number += 1
        number = self.sequence_number
        key = "" if spec.lane.startswith("!") else spec.ordering_key
        job = Job(spec.id, spec.lane, key, spec.priority, spec.on_dead, number)
        job.due = self.now + spec.delay_ms if spec.delay_ms else spec.at_ms or 0
        if job.due > self.now:
            job.state = "delayed"
        else:
            job.place = number - spec.priority * PRIORITY_STEP
        self.jobs[spec.id] = job
        is_entry = job.sequence is None or self.is_free(job.sequence)
        if spec.lane not in self.ring and job.state == "waiting" and is_entry:
            self._touched.add(spec.lane)

    def exchange(
        self, name: str, *, number: int, want: int, prefetch: int, done: Iterable[tuple[str, str]]
    ) -> tuple[Status, list[Answer], list[list[Job]]]:
        """Status, answers, entries in turn order."""
        answers = self._settle(name, [Settlement(id, delivery) for id, delivery in done])
        consumer = self.consumers.get(name)
        status: Status = "ok"
        if consumer is None or consumer.deadline <= self.now:
            status = "lost"
        elif want and number <= consumer.claim:
            status = "stale"
        elif want:
            consumer.claim = number
            self._promote()
        self._reconcile()
        entries: list[list[Job]] = []
        if status != "ok" or not want:
            return status, answers, entries
        if not self.ring and not any(job.state == "waiting" for job in self.jobs.values()):
            self.owed.clear()  # a new busy period
            self.vt = 0.0
        while len(entries) < want and not self.shut:
            jobs = self._serve(name, prefetch)
            if not jobs:
                break
            entries.append(jobs)
        return status, answers, entries

    def settle(self, name: str, settlements: Iterable[Settlement]) -> list[Answer]:
        answers = self._settle(name, settlements)
        self._reconcile()
        return answers

    def _settle(self, name: str, settlements: Iterable[Settlement]) -> list[Answer]:
        return [self._settle_one(self.consumers.get(name), one) for one in settlements]

    def _settle_one(self, consumer: Consumer | None, one: Settlement) -> Answer:
        if consumer is None:
            return "lost"
        if consumer.held.get(one.id) != one.delivery:
            return "settled"
        job = self.jobs[one.id]
        match one.action:
            case "complete":
                self._let_go(consumer, job)
                del self.jobs[job.id]
            case "bury":
                job.attempts += 1
                self._bury(consumer, job, hold=one.hold)
            case "retry" | "release":
                job.attempts += one.action == "retry"
                self._give_back(consumer, job, one.delay)
            case "block_lane" | "block_sequence":
                whole = one.action == "block_lane" or job.key == ""  # an ordered lane is one
                alone = not whole and job.sequence is None
                if one.delay and whole:
                    self._block(("l", job.lane), one.delay)
                elif one.delay and job.sequence is not None:
                    self._block(("s", job.sequence), one.delay)
                self._give_back(consumer, job, one.delay if alone else 0)
        return "ok"

    def _let_go(self, consumer: Consumer, job: Job, *, later: bool = False) -> None:
        """Out of the consumer's hands; with `later`, what it took of the sequence behind it too."""
        del consumer.held[job.id]
        consumer.unstarted.discard(job.id)
        full = self.permits(job.lane) >= self.ceiling(job.lane)
        if job.sequence is None:
            self._touched |= {job.lane} if full else set()
            return
        holding = self.held[job.sequence]
        behind = holding[holding.index(job.id) + 1 :] if later else []
        for id in behind:
            del consumer.held[id]
            consumer.unstarted.discard(id)
            self.jobs[id].state = "waiting"
        self.held[job.sequence] = [id for id in holding if id != job.id and id not in behind]
        if not self.held[job.sequence]:
            del self.held[job.sequence]
            self._touched.add(job.lane)

    def _give_back(self, consumer: Consumer, job: Job, delay: int) -> None:
        self._let_go(consumer, job, later=True)
        job.state = "waiting"
        if delay and job.sequence is not None:
            if self.blocked.get(("h", job.sequence)) != inf:
                self.blocked["h", job.sequence] = self.now + delay
                self.blockers[job.sequence] = job.id
        elif delay:
            job.state, job.due = "delayed", self.now + delay
        if job.state == "waiting":
            self._touched.add(job.lane)

    def _bury(self, consumer: Consumer, job: Job, *, hold: bool) -> None:
        self._let_go(consumer, job, later=hold)
        job.state = "dead"
        if hold and job.sequence is not None:
            self.blocked["h", job.sequence] = inf
            self.blockers[job.sequence] = job.id

    # ── the dead ────────────────────────────────────────────────────────────────────────────

    def replay(self, ids: Sequence[str]) -> list[DeadAnswer]:
        return [self._act_on_dead(id, self._revive) for id in ids]

    def discard(self, ids: Sequence[str]) -> list[DeadAnswer]:
        return [self._act_on_dead(id, self._delete) for id in ids]

    def _act_on_dead(self, id: str, act: Callable[[Job], None]) -> DeadAnswer:
        job = self.jobs.get(id)
        if job is None or job.state != "dead":
            return "none"
        act(job)
        self._reconcile()
        return "ok"

    def _revive(self, job: Job) -> None:
        job.state, job.attempts, job.deaths = "waiting", 0, 0
        self._end_own_block(job)
        self._touched.add(job.lane)

    def _delete(self, job: Job) -> None:
        self._end_own_block(job)
        del self.jobs[job.id]

    def _end_own_block(self, job: Job) -> None:
        """The delay or hold that a job put on its sequence ends with the job."""
        if job.sequence is not None and self.blockers.get(job.sequence) == job.id:
            del self.blockers[job.sequence], self.blocked["h", job.sequence]
            self._touched.add(job.lane)

    def purge(self, lane: str) -> int:
        gone = self.jobs_of(lane, "waiting") + self.jobs_of(lane, "delayed")
        for job in gone:
            self._delete(job)
        self._look_at(lane)
        return len(gone)

    # ── lanes and the queue ─────────────────────────────────────────────────────────────────

    def set_lane(self, lane: str, limits: dict[str, Any], unset: object) -> None:
        """`limits`: ceiling, weight, backlog; None removes, `unset` leaves."""
        old = self.weight(lane)
        for name, value in limits.items():
            if value is not unset:
                settings = getattr(self, f"{name}s")
                settings.pop(lane, None)
                settings.update({} if value is None else {lane: value})
        for tags in (self.ring, self.owed):
            if lane in tags and limits["weight"] is not unset:
                tags[lane] = self.vt + (tags[lane] - self.vt) * (old / self.weight(lane))
        self._look_at(lane)

    def set_default_ceiling(self, ceiling: int | None) -> int:
        self.default_ceiling = ceiling
        self.sweeping = True
        return 1

    def pause(self, lane: str, until: int | None) -> None:
        self.paused.add(lane)
        self.blocked.pop(("p", lane), None)
        if until is not None:
            self.blocked["p", lane] = until
        self._look_at(lane)

    def resume(self, lane: str) -> bool:
        was = lane in self.paused
        self.paused.discard(lane)
        self.blocked.pop(("p", lane), None)
        self._look_at(lane)
        return was

    def block(self, lane: str, ms: int) -> None:
        self._block(("l", lane), ms)
        self._look_at(lane)

    def _block(self, member: tuple[str, str | SequenceName], ms: int) -> None:
        """Only ever extends."""
        self.blocked[member] = max(self.now + ms, self.blocked.get(member, 0))
        self._touched.add(member[1] if isinstance(member[1], str) else member[1][0])

    def unblock(self, lane: str) -> bool:
        was = self.blocked.pop(("l", lane), None) is not None
        self._look_at(lane)
        return was

    def _look_at(self, lane: str) -> None:
        self._touched.add(lane)
        self._reconcile()


def _due_order(job: Job) -> tuple[int, str]:
    """In due order, then in enqueue order; those that have a place stand at it, as text."""
    return job.due, f"{job.number if job.place is None else job.place:+017d}"


def _place(job: Job) -> int:
    assert job.place is not None
    return job.place
