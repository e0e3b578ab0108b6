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
- a heartbeat renews a lease that has run out as long as no beat has marked it;
- a lane out of tokens is out until its `r` block has ended, even where it has one meanwhile;
- a claim of many that meets a lane which no sweep has reached looks further than its turns go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from rota.values.jobspec import JobSpec
from rota.values.model import (
    UNPACED,
    Answer,
    CancelAnswer,
    DeadAnswer,
    Enqueued,
    Holdings,
    JobState,
    Outcome,
    Settlement,
)
from tests.model.allowance import Allowance, Limits, change

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
    cost: float = 1
    task: str | None = None  # whose time it is charged
    place: int | None = None  # None: never available yet
    state: JobState = "waiting"
    due: int = 0
    attempts: int = 0
    deaths: int = 0
    releases: int = 0  # in a row, without a delay
    charged: float | None = None  # for time that was not known yet
    available: int = 0  # since when, at first

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
        self.allowance = Allowance()
        self.tats: dict[str, float] = {}
        self.paused: set[str] = set()
        self.blocked: dict[tuple[str, str | SequenceName], float] = {}
        self.blockers: dict[SequenceName, str] = {}  # of `h` blocks: whose delay or hold it is
        self.ceiling: float = inf
        self.sweeping = False
        self.sweeping_weights = False
        self.costs_declared = False
        self.durations: dict[str, float] = {}
        self.cancels: set[str] = set()
        self.figures: dict[str, dict[int, dict[str, float]]] = {
            name: {} for name in ("served", "waited", "charged")
        }
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

    def has_room(self, lane: str) -> bool:
        return self.permits(lane) < self.allowance.ceiling(lane)

    def tokens(self, lane: str) -> float:
        """How many of its jobs may start now by its rate."""
        pace = self.allowance.pace(lane)
        return inf if pace is None else pace.tokens(self.tats.get(lane, -inf), self.now)

    def may_be_served(self, lane: str) -> bool:
        """But for its tokens."""
        return (
            bool(self.pending(lane))
            and lane not in self.paused
            and not {("l", lane), ("r", lane)} & self.blocked.keys()
            and self.has_room(lane)
        )

    @property
    def free_permits(self) -> float:
        """How many entries the queue as a whole lets out."""
        return 0 if self.shut else max(0, self.ceiling - sum(map(self.permits, self._lanes())))

    def claimable(self) -> set[tuple[str, str]]:
        if not self.free_permits:
            return set()
        return {(lane, entry) for lane in self.ring for entry in self.pending(lane)}

    def _lanes(self) -> set[str]:
        return {job.lane for job in self.jobs.values()}

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
        lanes = self._lanes()
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
            "gtat": self.tats,
            "limits": self.allowance.own,
            "templates": self.allowance.templates,
            "template_of": self.allowance.template_of,
            "shut": self.shut,
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
            "releases": {job.id: job.releases for job in jobs if job.releases},
            "costs": {
                job.id: job.charged if job.task else job.cost
                for job in jobs
                if job.task or job.cost != 1
            },
            "durations": self.durations,
            "cancels": self.cancels,
            "figures": {
                (name, minute, lane): sum
                for name, minutes in self.figures.items()
                for minute, lanes in minutes.items()
                for lane, sum in lanes.items()
            },
            "seq": self.sequence_number,
        }

    # ── the ring ────────────────────────────────────────────────────────────────────────────

    def _reconcile(self) -> None:
        """Membership by its rule; a running sweep reaches only the lanes an operation touched."""
        for lane in self._touched if self.sweeping else self._lanes() | self.ring.keys():
            self._close_without_tokens(lane)
            allowed = self.may_be_served(lane)
            if allowed and lane not in self.ring:
                tag = self.owed.pop(lane, -inf)
                self.ring[lane] = tag if tag >= self.vt else self._newcomer(lane)
            elif not allowed and lane in self.ring:
                self.owed[lane] = self.ring.pop(lane)
        self._touched.clear()

    def _newcomer(self, lane: str) -> float:
        """The tag of a lane that comes with nothing kept: as if it had just had such a turn."""
        entries = self.pending(lane)
        entry = min(entries, key=lambda entry: entries[entry])
        sequence = (lane, entry[1:])
        head = self.waiting_in(sequence)[0] if entry.startswith("!") else self.jobs[entry]
        return self.vt + self._cost(head) / self.allowance.weight(lane)

    def _close_without_tokens(self, lane: str) -> None:
        """A lane that only its rate keeps from being served is out until its next token."""
        pace = self.allowance.pace(lane)
        if pace is not None and self.may_be_served(lane) and self.tokens(lane) < 1:
            self.tats[lane] = pace.start(self.tats[lane], self.now)
            self.blocked["r", lane] = pace.next_token(self.tats[lane], self.now)

    def _in_turn(self) -> list[str]:
        return sorted(self.ring, key=lambda lane: (self.ring[lane], lane.encode()))

    def _shut_out(self, want: int) -> None:
        """Out with what stands in a claim's way and may not be served: no sweep has reached it."""
        seen = 0
        while True:
            first = self._in_turn()[: max(want, seen)]
            for lane in first:
                self._close_without_tokens(lane)
            shut = [lane for lane in first if not self.may_be_served(lane)]
            if not shut:
                return
            self.owed.update({lane: self.ring.pop(lane) for lane in shut})
            seen += len(first)

    def _serve(self, name: str, prefetch: int) -> list[Job]:
        """One turn: the entry of the lowest tag, for consumer `name`; [] when there is none."""
        if not self.ring:
            return []
        lane = self._in_turn()[0]
        tag = self.ring.pop(lane)
        entries = self.pending(lane)
        entry = min(entries, key=lambda entry: entries[entry])
        most = min(prefetch, self.tokens(lane))
        if entry.startswith("!"):
            sequence = (lane, entry[1:])
            jobs = self.waiting_in(sequence)[: int(most)]
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
        for job in jobs:
            job.charged = self._cost(job) if job.task else None
            tag += self._cost(job) / self.allowance.weight(lane)
            self._count(lane, "served", 1)
            self._count(lane, "waited", self.now - job.available)
            self._count(lane, "charged", self._cost(job) - 1)
        usual = not self.costs_declared and tag <= self.vt + 1 / self.allowance.weight(lane)
        pace = self.allowance.pace(lane)
        if pace is not None:
            self.tats[lane] = pace.served(self.tats.get(lane, -inf), self.now, len(jobs))
        self._close_without_tokens(lane)
        if self.may_be_served(lane):
            self.ring[lane] = tag
        elif self.jobs_of(lane, "waiting") or not usual:
            self.owed[lane] = tag
        return jobs

    def _count(self, lane: str, name: str, n: float) -> None:
        """In the figures of this minute: of the lane, and of all, under the empty name."""
        minute = self.figures[name].setdefault(self.now // 60_000, {})
        for whose in (lane, ""):
            minute[whose] = minute.get(whose, 0) + n

    def _cost(self, job: Job) -> float:
        """Of a job charged by time, what jobs of its task took of late."""
        return self.durations.get(job.task, 1) if job.task else job.cost

    def _charge_time(self, job: Job, seconds: float | None) -> None:
        """What was charged too little, or too much; the rotation does not go back for it."""
        if seconds is None or job.task is None or job.charged is None:
            return
        seconds = max(seconds, 0.001)
        by = (seconds - job.charged) / self.allowance.weight(job.lane)
        tags = self.ring if job.lane in self.ring else self.owed
        if job.lane in tags:
            tags[job.lane] = max(self.vt, tags[job.lane] + by)
        elif by > 0:
            tags[job.lane] = self.vt + by
        self._count(job.lane, "charged", seconds - job.charged)
        mean = self.durations.get(job.task, seconds)
        self.durations[job.task] = mean + (seconds - mean) / 8

    def _refund(self, lane: str, jobs: int) -> None:
        """Tokens of jobs that went back unstarted; whether the lane has one is asked anew."""
        pace = self.allowance.pace(lane)
        if pace is not None and jobs and lane in self.tats:
            self.tats[lane] = pace.start(self.tats[lane], self.now) - jobs * pace.interval
            self._forget_wait(lane)

    def _forget_wait(self, lane: str) -> None:
        self.blocked.pop(("r", lane), None)
        self._touched.add(lane)

    # ── time ────────────────────────────────────────────────────────────────────────────────

    def _promote(self) -> None:
        due = [j for j in self.jobs.values() if j.state == "delayed" and j.due <= self.now]
        for job in sorted(due, key=_due_order):
            self.sequence_number += 1
            if job.place is None:
                job.available = self.now
                job.place = self.sequence_number - job.priority * PRIORITY_STEP
            job.state = "waiting"
            self._touched.add(job.lane)
        for kind, name in [member for member, until in self.blocked.items() if until <= self.now]:
            del self.blocked[kind, name]
            lane = name if isinstance(name, str) else name[0]
            if kind == "q":
                self.shut = False
            elif kind == "p":
                self.paused.discard(lane)
            elif kind == "h":
                del self.blockers[lane, name[1]]
            self._touched.add(lane)

    def beat(self, watched: int = 0) -> None:
        """`watched`: for how long the caller was there without a break, and would have beaten."""
        silent_from = max(self.last_beat or 0, self.now - watched)
        self.last_beat = self.now
        self._promote()
        for name, consumer in list(self.consumers.items()):
            if consumer.deadline <= self.now:
                spared = consumer.deadline - silent_from > consumer.lease / 2
                self._take_back(name, blame=not spared)
        self.owed = {lane: tag for lane, tag in self.owed.items() if tag >= self.vt}
        self.tats = {lane: tat for lane, tat in self.tats.items() if tat > self.now}
        self._reconcile()
        self._end_sweep()
        self._reconcile()

    def _end_sweep(self) -> None:
        """A changed weight has no exact old one to count with, but none may owe a long past."""
        for tags in (self.ring, self.owed) if self.sweeping_weights else ():
            for lane in tags:
                tags[lane] = min(tags[lane], self.vt + 1 / self.allowance.weight(lane))
        for lane in self._lanes() if self.sweeping else ():
            if self.jobs_of(lane, "waiting"):
                self._forget_wait(lane)
        self.sweeping = self.sweeping_weights = False

    def _take_back(self, name: str, *, blame: bool) -> None:
        consumer = self.consumers[name]
        consumer_jobs = sorted(consumer.held, key=lambda id: _place(self.jobs[id]))
        firsts = {jobs[0] for jobs in self.held.values() if jobs}
        for id in consumer_jobs:
            if id not in consumer.held:
                continue
            job = self.jobs[id]
            started = id not in consumer.unstarted and (job.sequence is None or id in firsts)
            behind = bool(job.sequence) and id not in firsts
            if id in self.cancels:
                self._refund(job.lane, int(behind))
                self._cancel(consumer, job, later=True)
                continue
            if blame and started:
                job.deaths += 1
            if blame and started and job.deaths >= DEATHS_MAX:
                self._bury(consumer, job, hold=job.on_dead == "hold")
            else:
                self._give_back(consumer, job, 0, unstarted=behind)
        del self.consumers[name]

    # ── consumers ───────────────────────────────────────────────────────────────────────────

    def join(self, name: str, lease: int) -> int:
        self.consumers[name] = Consumer(self.now + lease, lease)
        return self.now

    def leave(self, name: str, *, died: bool = False) -> int:
        if name not in self.consumers:
            return 0
        went = self.consumers[name].held.keys() - self.cancels
        self._take_back(name, blame=died)
        self._reconcile()
        return len([id for id in went if self.jobs[id].state != "dead"])

    def heartbeat(self, names: Sequence[str], lease: int) -> list[Holdings | None]:
        for name in names:
            if name in self.consumers:
                self.consumers[name].deadline = self.now + lease
        found = [self.consumers.get(name) for name in names]
        return [Holdings(one.claim, len(one.held)) if one else None for one in found]

    def deliveries_of(self, name: str, number: int) -> dict[str, str] | None:
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

    def enqueue(self, specs: Sequence[JobSpec], *, atomic: bool = False) -> list[Enqueued]:
        outcomes: list[Outcome] = []
        created: list[JobSpec] = []
        for spec in specs:
            lane = spec.lane
            stored = len(self._stored(lane))
            stored += sum(other.lane == lane for other in created)
            if spec.id in self.jobs or any(other.id == spec.id for other in created):
                outcomes.append("duplicate")
            elif stored >= self.allowance.backlog(lane):
                if atomic:
                    raise Full(lane)
                outcomes.append("lane_full")
            else:
                outcomes.append("created")
                created.append(spec)
        for spec in created:
            self._create(spec)
        self._reconcile()
        return [
            Enqueued(spec.id, one, self.jobs[spec.id].state if one == "duplicate" else None)
            for spec, one in zip(specs, outcomes, strict=True)
        ]

    def _create(self, spec: JobSpec) -> None:
        self.sequence_number += 1
        number = self.sequence_number
        key = "" if spec.lane.startswith("!") else spec.ordering_key
        task = spec.task if spec.charge == "time" else None
        job = Job(spec.id, spec.lane, key, spec.priority, spec.on_dead, number, spec.cost, task)
        job.due = self.now + spec.delay_ms if spec.delay_ms else spec.at_ms or 0
        if job.due > self.now:
            job.state = "delayed"
        else:
            job.place, job.available = number - spec.priority * PRIORITY_STEP, self.now
        self.jobs[spec.id] = job
        self.costs_declared |= job.cost != 1 or job.task is not None
        is_entry = job.sequence is None or self.is_free(job.sequence)
        if spec.lane not in self.ring and job.state == "waiting" and is_entry:
            self._touched.add(spec.lane)

    def exchange(
        self, name: str, *, number: int, want: int, prefetch: int, done: Iterable[Settlement]
    ) -> tuple[Status, list[Answer], list[list[Job]]]:
        """Status, answers, entries in turn order. `done`: completions."""
        answers = self._settle(name, done)
        consumer = self.consumers.get(name)
        status: Status = "ok"
        if consumer is None or consumer.deadline <= self.now:
            status = "lost"
        elif want and (number < 1 or (consumer.claim and number != consumer.claim + 1)):
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
        self._shut_out(int(min(want, self.free_permits)))
        while len(entries) < want and self.free_permits:
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
        self._charge_time(job, one.ran)
        ends = one.action in ("complete", "bury", "cancel")
        pause = one.delay
        if one.action in ("block_lane", "block_sequence"):
            pause = self._limit(job, one.delay, whole=one.action == "block_lane")
        self._refund(job.lane, int(one.unstarted and one.action == "release"))
        if not ends and job.id in self.cancels:  # believed back in its place
            self._cancel(consumer, job, later=True)
            return "ok"
        answer: Answer = "ok"
        if one.action in ("retry", "bury"):
            job.attempts, job.releases = job.attempts + 1, 0
        elif one.action == "release" and one.delay == UNPACED:
            job.releases += 1
            pause = min(1000 * 2 ** (job.releases - 3), 60_000) if job.releases >= 3 else 0
            answer = "slowed" if job.releases == 3 else "ok"
        match one.action:
            case "complete":
                self._let_go(consumer, job)
                self._forget(job)
            case "cancel":
                self._cancel(consumer, job, later=False)
            case "bury":
                self._bury(consumer, job, hold=one.hold)
            case _:
                self._give_back(consumer, job, pause)
        return answer

    def _limit(self, job: Job, delay: int, *, whole: bool) -> int:
        """Blocks the lane or the sequence; what has none waits alone, so long as is answered."""
        if whole or job.key == "":  # an ordered lane is one sequence
            member: tuple[str, str | SequenceName] = ("l", job.lane)
        elif job.sequence is not None:
            member = ("s", job.sequence)
        else:
            return delay
        if delay:
            self._block(member, delay)
        return 0

    def _cancel(self, consumer: Consumer, job: Job, *, later: bool) -> None:
        self._let_go(consumer, job, later=later)
        self._forget(job)

    def _forget(self, job: Job) -> None:
        del self.jobs[job.id]
        self.cancels.discard(job.id)

    def _let_go(self, consumer: Consumer, job: Job, *, later: bool = False) -> None:
        """Out of the consumer's hands; with `later`, what it took of the sequence behind it too."""
        del consumer.held[job.id]
        consumer.unstarted.discard(job.id)
        if job.sequence is None:
            self._touched |= set() if self.has_room(job.lane) else {job.lane}
            return
        holding = self.held[job.sequence]
        behind = holding[holding.index(job.id) + 1 :] if later else []
        for id in behind:
            del consumer.held[id]
            consumer.unstarted.discard(id)
            self.jobs[id].state = "waiting"
            if id in self.cancels:
                self._forget(self.jobs[id])
        self._refund(job.lane, len(behind))
        self.held[job.sequence] = [id for id in holding if id != job.id and id not in behind]
        if not self.held[job.sequence]:
            del self.held[job.sequence]
            self._touched.add(job.lane)

    def _give_back(
        self, consumer: Consumer, job: Job, delay: int, *, unstarted: bool = False
    ) -> None:
        self._refund(job.lane, int(unstarted))
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
        self.cancels.discard(job.id)
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
        job.state, job.attempts, job.deaths, job.releases = "waiting", 0, 0, 0
        self._end_own_block(job)
        self._touched.add(job.lane)

    def _delete(self, job: Job) -> None:
        self._end_own_block(job)
        self._forget(job)

    def _end_own_block(self, job: Job) -> None:
        """The delay or hold that a job put on its sequence ends with the job."""
        if job.sequence is not None and self.blockers.get(job.sequence) == job.id:
            del self.blockers[job.sequence], self.blocked["h", job.sequence]
            self._touched.add(job.lane)

    def purge(self, lane: str) -> int:
        gone = self._stored(lane)
        for job in gone:
            self._delete(job)
        self._look_at(lane)
        return len(gone)

    # ── bulk ────────────────────────────────────────────────────────────────────────────────

    def cancel(self, id: str) -> CancelAnswer:
        job = self.jobs.get(id)
        if job is None or job.state == "dead":
            return "none" if job is None else "dead"
        if job.state == "running":
            self.cancels.add(id)
            return "asked"
        if job.state == "waiting":
            self._touched.add(job.lane)
        self._delete(job)
        self._reconcile()
        return "cancelled"

    def cancel_lane(self, lane: str) -> tuple[int, int]:
        """How many are gone, and how many were asked to stop."""
        running = self.jobs_of(lane, "running")
        self.cancels |= {job.id for job in running}
        return self.purge(lane), len(running)

    def move(self, source: str, target: str) -> tuple[int, int]:
        """How many went, and how many waiting and delayed ones are left."""
        before = self._stored(source)
        room = self.allowance.backlog(target) - len(self._stored(target))
        for entry, _ in sorted(self.pending(source).items(), key=lambda item: item[1]):
            sequence = (source, entry[1:])
            jobs = self.waiting_in(sequence) if entry.startswith("!") else [self.jobs[entry]]
            if room < 1:
                break
            if len(jobs) <= room:
                room -= len(jobs)
                for job in jobs:
                    job.lane = target
        for job in sorted(self.jobs_of(source, "delayed"), key=_due_order, reverse=True):
            line = job.sequence
            stays = line and (self.waiting_in(line) or not self.is_free(line))
            if room >= 1 and not stays:
                room -= 1
                job.lane = target
        self._touched |= {source, target}
        self._reconcile()
        return len(before) - len(self._stored(source)), len(self._stored(source))

    def reprioritize(self, lane: str, priority: int) -> int:
        changed = [job for job in self._stored(lane) if job.priority != priority]
        for job in changed:
            job.priority = priority
            if job.place is not None:
                job.place = job.place % PRIORITY_STEP - priority * PRIORITY_STEP
            if job.state == "waiting" and job.sequence is not None:
                self._touched.add(lane)
        self._reconcile()
        return len(changed)

    def _stored(self, lane: str) -> list[Job]:
        return self.jobs_of(lane, "waiting") + self.jobs_of(lane, "delayed")

    # ── lanes and the queue ─────────────────────────────────────────────────────────────────

    def set_lane(self, lane: str, changes: Limits) -> bool:
        """`changes`: of ceiling, weight, rate, backlog, template; None removes."""
        if changes.get("template") not in {None, *self.allowance.templates}:
            return False
        old, old_pace = self.allowance.weight(lane), self.allowance.pace(lane)
        self.allowance.set_own(lane, changes)
        weight = self.allowance.weight(lane)
        for tags in (self.ring, self.owed) if weight != old else ():
            if lane in tags:
                tags[lane] = self.vt + (tags[lane] - self.vt) * (old / weight)
        if {"rate", "template"} & changes.keys():
            self._forget_wait(lane)
            pace = self.allowance.pace(lane)
            if pace is None:
                self.tats.pop(lane, None)
            elif old_pace is not None and pace != old_pace:
                tat = pace.carried(old_pace, self.tats.pop(lane, 0), self.now)
                self.tats.update({lane: tat} if tat > self.now else {})
        self._look_at(lane)
        return True

    def set_queue(self, changes: Limits) -> None:
        """`changes`: of ceiling, default_ceiling, default_weight; None removes."""
        if "ceiling" in changes:
            self.ceiling = inf if changes["ceiling"] is None else changes["ceiling"]
        defaults = {name: changes.get(f"default_{name}") for name in ("ceiling", "weight")}
        given = {n: value for n, value in defaults.items() if f"default_{n}" in changes}
        self._change_many(self.allowance.defaults, given)

    def set_template(self, name: str, changes: Limits) -> None:
        """None removes. A template of no limits is one."""
        self._change_many(self.allowance.templates.setdefault(name, {}), changes)
        self.sweeping = True

    def drop_template(self, name: str) -> bool:
        limits = self.allowance.templates.get(name)
        if limits is None:
            return False
        self._change_many(limits, dict.fromkeys(limits))
        del self.allowance.templates[name]
        self.sweeping = True
        return True

    def _change_many(self, limits: Limits, changes: Limits) -> None:
        """What holds for many lanes reaches them by a sweep."""
        before = dict(limits)
        change(limits, changes)
        self.sweeping |= limits != before
        self.sweeping_weights |= limits.get("weight") != before.get("weight")

    def pause_queue(self, until: int | None) -> None:
        self.open_gate()
        self.shut = True
        if until is not None:
            self.blocked["q", ""] = until

    def open_gate(self) -> bool:
        was = self.shut
        self.shut = False
        self.blocked.pop(("q", ""), None)
        return was

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
    return job.due, f"{job.number if job.place is None else job.place:+017d}{job.id}"


def _place(job: Job) -> int:
    assert job.place is not None
    return job.place
