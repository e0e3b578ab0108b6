"""A brute-force search over the doorbell's protocol: every interleaving of a small world.

The world is a model of the server (work in the ring, delayed jobs, the wake list, blocked
BLPOPs in order), of two processes, each with the real `Doorbell` and a model of its driver, and
of every message between them: sent, arrived, answered and received are separate steps. What
users and faults do comes from a budget per world (`Plan.events`), in any order, at any moment.

Found is a *deaf* state: nothing is in flight and nobody is about to do anything, work can run or
will fall due, and a waiter sleeps in a process that is not stopping. The beat, which would end
it, is left out on purpose: it is the safety net, not the rule. The search also finds *spins*:
cycles of steps that need no event from outside.

Time is a small integer. A message may take any number of ticks, a timer may be late.
Not modelled, so covered by the beat only: a killed process, a connection that the client has
given up and the server has not noticed yet, a due time more than a beat away.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.consume.doorbell import Actions, Doorbell, Poke

TOKENS = 3  # stands for LTRIM's 64
BEAT = 100.0  # every due time of a small world lies within a beat

# What a waiter is about to do. AWAY: it left the registry, its slots are in use elsewhere.
WILL, SENT, ANSWERED, IDLE, BUSY, AWAY, UNSURE, OUT = range(8)
# Where the blocker's BLPOP is.
NONE, UNDERWAY, BLOCKED, RECEIVED = range(4)


class Waiter(NamedTuple):
    """A consumer: one loop that claims for `slots` slots."""

    doing: int
    slots: int = 1
    running: int = 0
    want: int = 0
    taken: int = 0  # by the claim in flight, once it has arrived
    arrived: bool = False
    left: bool = False
    due: int | None = None


class Process(NamedTuple):
    bell: int  # its snapshot's number in the search
    waiters: tuple[Waiter, ...]
    blpop: int = NONE
    passing: int = 0  # pass_on scripts in flight
    stopping: bool = False


class World(NamedTuple):
    processes: tuple[Process, ...]
    budget: tuple[int, ...]
    now: int = 0
    ring: int = 0
    scheduled: tuple[int, ...] = ()
    wake: int = 0
    blocked: tuple[int, ...] = ()


class Step(NamedTuple):
    name: str
    must: bool  # happens without anyone deciding it; a tick is no such step
    world: World


@dataclass(frozen=True)
class Plan:
    """A bounded world: the slots of each waiter of each process, and how often each event may
    happen."""

    slots: tuple[tuple[int, ...], ...]
    events: dict[str, int]
    bell: type[Doorbell[int]] = Doorbell
    chain: bool = True  # a claim that leaves work rings
    announce: bool = True  # an earlier due time rings
    pass_on_due: bool = True  # pass_on rings for what falls due, too
    see_out: bool = True  # a stopping process reads its BLPOP to the end, so loses no token
    settle: bool = True  # `failed` is reported again when the claim can no longer act
    look: bool = True  # a waiter claims before it registers
    unrung: int = 0  # jobs in the ring from the start, whose bell is lost


@dataclass
class Findings:
    states: int = 0
    complete: bool = False
    deaf: list[str] | None = None
    spin: list[str] | None = None
    reached: set[str] = field(default_factory=set)


class Search:
    """All states of a plan, breadth first, so that what is found is shortest."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = tuple(plan.events)
        self._bells: list[Doorbell[int]] = []
        self._numbers: dict[tuple[Hashable, ...], int] = {}
        self._after: dict[tuple[Hashable, ...], tuple[int, Actions[int]]] = {}

    def run(self, limit: int) -> Findings:
        first = self._canonical(self._first())
        found = Findings()
        came: dict[World, tuple[World | None, str]] = {first: (None, "start")}
        must: dict[World, list[World]] = {}
        frontier = [first]
        while frontier and len(came) < limit:
            following: list[World] = []
            for world in frontier:
                steps = list(self._steps(world))
                found.reached.update(step.name.split(" of ")[0] for step in steps)
                if not any(step.must for step in steps) and self._deaf(world):
                    found.deaf = self._trace(came, world)
                    found.states = len(came)
                    return found
                ahead = []
                for step in steps:
                    after = self._canonical(step.world)
                    if after not in came:
                        came[after] = (world, step.name)
                        following.append(after)
                    if step.must:
                        ahead.append(after)
                must[world] = ahead
            frontier = following
        found.states, found.complete = len(came), not frontier
        if (circle := _circle(must)) is not None:
            found.spin = self._trace(came, circle)
        return found

    def _first(self) -> World:
        bell = self._remember(self.plan.bell(beat=BEAT))
        processes = tuple(
            Process(bell, tuple(Waiter(WILL if self.plan.look else AWAY, n) for n in group))
            for group in self.plan.slots
        )
        return World(processes, tuple(self.plan.events.values()), ring=self.plan.unrung)

    def _canonical(self, world: World) -> World:
        """Of worlds that differ only in names, of processes or of moments, the same one."""
        if (
            world.now
            and not world.scheduled
            and not any(
                self._timer(process) is not None or any(w.due is not None for w in process.waiters)
                for process in world.processes
            )
        ):
            world = world._replace(now=0)
        if self.plan.slots != self.plan.slots[:1] * 2:
            return world
        one, two = world.processes
        if hash(one) > hash(two):
            blocked = tuple(1 - index for index in world.blocked)
            return world._replace(processes=(two, one), blocked=blocked)
        return world

    def _deaf(self, world: World) -> bool:
        if not (world.ring or world.scheduled):
            return False
        return any(
            waiter.doing == IDLE
            for process in world.processes
            if not process.stopping and self._timer(process) is None
            for waiter in process.waiters
        ) and not any(
            not process.stopping and self._timer(process) is not None for process in world.processes
        )

    def _trace(self, came: dict[World, tuple[World | None, str]], world: World) -> list[str]:
        lines = [str(world)]
        at: World | None = world
        while at is not None:
            at, name = came[at]
            lines.append(name)
        return lines[::-1]

    # ── the real doorbell ───────────────────────────────────────────────────────────────────

    def _remember(self, bell: Doorbell[int]) -> int:
        flights = frozenset((w, f.owes, f.newest) for w, f in bell._flying.items())
        state = (tuple(bell._idle), frozenset(bell._poked), flights, bell._due, bell._blind)
        number = self._numbers.setdefault(state, len(self._bells))
        if number == len(self._bells):
            self._bells.append(bell)
        return number

    def _timer(self, process: Process) -> float | None:
        return self._bells[process.bell].next_timer()

    def _tell(
        self,
        world: World,
        p: int,
        key: tuple[Hashable, ...],
        event: Callable[[Doorbell[int]], Actions[int] | None],
    ) -> World:
        """Reports an event to a process's bell and carries out the actions."""
        process = world.processes[p]
        known = self._after.get((process.bell, *key))
        if known is None:
            bell = deepcopy(self._bells[process.bell])
            actions = event(bell) or ()
            known = self._after[(process.bell, *key)] = (self._remember(bell), actions)
        number, actions = known
        process = process._replace(bell=number)
        for action in actions:
            if isinstance(action, Poke):
                w = action.waiter
                if process.waiters[w].doing == IDLE:
                    process = _with_waiter(process, w, process.waiters[w]._replace(doing=WILL))
            else:
                process = process._replace(passing=process.passing + 1)
        return _with(world, p, process)

    # ── steps ───────────────────────────────────────────────────────────────────────────────

    def _steps(self, world: World) -> Iterator[Step]:
        for p, process in enumerate(world.processes):
            yield from self._blocker_steps(world, p, process)
            if process.passing:
                yield Step(f"pass_on of {p} runs", True, self._pass_on(world, p))
            timer = self._timer(process)
            if timer is not None and timer <= world.now and not process.stopping:
                now = world.now
                after = self._tell(world, p, ("timer", now), lambda bell: bell.timer(now))
                yield Step(f"timer of {p}", True, after)
            for w, waiter in enumerate(process.waiters):
                yield from self._waiter_steps(world, p, w, waiter)
        if self._time_matters(world):
            yield Step("tick", False, world._replace(now=world.now + 1))
        for index, name in enumerate(self.names):
            if world.budget[index]:
                budget = list(world.budget)
                budget[index] -= 1
                spent = world._replace(budget=tuple(budget))
                for what, after in self._events(name, spent):
                    yield Step(what, False, after)

    def _time_matters(self, world: World) -> bool:
        return any(due > world.now for due in world.scheduled)

    def _blocker_steps(self, world: World, p: int, process: Process) -> Iterator[Step]:
        blpop = process.blpop
        if blpop == RECEIVED:
            after = _with(world, p, process._replace(blpop=NONE))
            if process.stopping and not self.plan.see_out:
                yield Step(f"token of {p} dropped", True, after)
                return
            after = self._tell(after, p, ("token",), lambda bell: bell.token())
            yield Step(f"token of {p} received", True, after)
        elif process.stopping and blpop != NONE:
            blocked = tuple(other for other in world.blocked if other != p)
            after = _with(world, p, process._replace(blpop=NONE))._replace(blocked=blocked)
            yield Step(f"blpop of {p} withdrawn", True, after)
        elif blpop == UNDERWAY and world.wake:
            after = _with(world, p, process._replace(blpop=RECEIVED))
            yield Step(f"blpop of {p} finds a token", True, after._replace(wake=world.wake - 1))
        elif blpop == UNDERWAY:
            after = _with(world, p, process._replace(blpop=BLOCKED))
            yield Step(f"blpop of {p} blocks", True, after._replace(blocked=(*world.blocked, p)))
        elif blpop == NONE and not process.stopping and self._bells[process.bell].wants_park():
            yield Step(
                f"blpop of {p} sent", True, _with(world, p, process._replace(blpop=UNDERWAY))
            )

    def _waiter_steps(self, world: World, p: int, w: int, waiter: Waiter) -> Iterator[Step]:
        who = f"of {p}.{w}"
        if waiter.doing == WILL:
            sent = waiter._replace(doing=SENT, want=waiter.slots - waiter.running)
            after = self._tell(
                _set(world, p, w, sent), p, ("sending", w), lambda bell: bell.sending(w)
            )
            yield Step(f"claim {who} sent", True, after)
        elif waiter.doing == SENT:
            yield Step(f"claim {who} arrives", True, self._claim(world, p, w, waiter))
        elif waiter.doing == ANSWERED:
            yield Step(f"answer {who} received", True, self._answer(world, p, w, waiter))
        elif waiter.doing == UNSURE:
            if not waiter.arrived:
                late = self._claim(world, p, w, waiter)
                yield Step(f"late claim {who} arrives", False, late)
            yield Step(f"reconcile {who}", True, self._reconcile(world, p, w, waiter))
        elif waiter.doing == AWAY:
            yield Step(f"return {who}", False, self._return(world, p, w, waiter))
        if waiter.running and waiter.doing in (IDLE, BUSY, SENT, ANSWERED):
            # The settlement travels with the consumer's next claim.
            doing = waiter.doing if waiter.doing in (SENT, ANSWERED) else WILL
            done = waiter._replace(doing=doing, running=waiter.running - 1)
            yield Step(f"job {who} ends", False, _set(world, p, w, done))

    def _events(self, name: str, world: World) -> Iterator[tuple[str, World]]:
        if name in ("one", "two"):
            yield name, _ring(world._replace(ring=world.ring + (1 if name == "one" else 2)))
        elif name in ("delayed", "later", "one and delayed"):
            yield name, self._delay(name, world)
        for p, process in enumerate(world.processes):
            if name == "stop" and not process.stopping:
                yield f"stop of {p}", self._stop(world, p)
            elif name == "lost" and process.blpop != NONE and not process.stopping:
                blocked = tuple(other for other in world.blocked if other != p)
                after = _with(world, p, process._replace(blpop=NONE))._replace(blocked=blocked)
                yield f"lost of {p}", self._tell(after, p, ("lost",), lambda bell: bell.lost())
            elif name == "pass_on fails" and process.passing:
                after = _with(world, p, process._replace(passing=process.passing - 1))
                after = self._tell(after, p, ("lost",), lambda bell: bell.lost())
                yield f"pass_on fails of {p}", after
            for w, waiter in enumerate(process.waiters):
                if name == "cancel" and waiter.doing in (IDLE, WILL) and not process.stopping:
                    away = _set(world, p, w, waiter._replace(doing=AWAY))
                    yield f"cancel of {p}.{w}", self._gone(away, p, w)
                elif name == "fail" and waiter.doing in (SENT, ANSWERED):
                    unsure = _set(world, p, w, waiter._replace(doing=UNSURE))
                    yield f"claim fails of {p}.{w}", self._failed(unsure, p, w)

    # ── the server's scripts ────────────────────────────────────────────────────────────────

    def _claim(self, world: World, p: int, w: int, waiter: Waiter) -> World:
        fallen = sum(due <= world.now for due in world.scheduled)
        ring, scheduled = world.ring + fallen, world.scheduled[fallen:]
        taken = min(waiter.want, ring)
        ring -= taken
        short, left = taken < waiter.want, ring > 0
        world = world._replace(ring=ring, scheduled=scheduled)
        if self.plan.chain and taken and left and not world.wake:
            world = _ring(world)
        if short and not left:  # sent by one that meant to park, whatever became of it
            world = world._replace(wake=0)
        due = scheduled[0] if short and scheduled else None
        doing = ANSWERED if waiter.doing == SENT else waiter.doing
        answered = waiter._replace(doing=doing, arrived=True, taken=taken, left=left, due=due)
        return _set(world, p, w, answered)

    def _pass_on(self, world: World, p: int) -> World:
        process = world.processes[p]
        world = _with(world, p, process._replace(passing=process.passing - 1))
        due = bool(world.scheduled) and self.plan.pass_on_due
        return _ring(world) if world.ring or due else world

    def _delay(self, name: str, world: World) -> World:
        due = world.now + (2 if name == "later" else 1)
        earlier = not world.scheduled or due < world.scheduled[0]
        earlier = earlier and self.plan.announce
        world = world._replace(scheduled=tuple(sorted((*world.scheduled, due))))
        if name == "one and delayed":  # one call rings once
            return _ring(world._replace(ring=world.ring + 1))
        return _ring(world) if earlier else world

    # ── the driver ──────────────────────────────────────────────────────────────────────────

    def _answer(self, world: World, p: int, w: int, waiter: Waiter) -> World:
        now, taken, left = world.now, waiter.taken, waiter.left
        short = taken < waiter.want
        running = waiter.running + taken
        rest = Waiter(IDLE, waiter.slots, running)
        if world.processes[p].stopping:
            return self._gone(self._give_back(_set(world, p, w, OUTSIDE), taken), p, w)
        if not short and running < waiter.slots:  # a job ended meanwhile: claims again at once
            return _set(world, p, w, rest._replace(doing=WILL))
        if not short:
            after = _set(world, p, w, rest._replace(doing=BUSY))
            key = ("busy", w, left, now)
            return self._tell(after, p, key, lambda bell: bell.busy(w, left=left, now=now))
        due_in = None if waiter.due is None else max(0, waiter.due - now)
        return self._tell(
            _set(world, p, w, rest),
            p,
            ("idle", w, due_in, bool(taken), left, now),
            lambda bell: bell.idle(w, due_in=due_in, taken=bool(taken), left=left, now=now),
        )

    def _return(self, world: World, p: int, w: int, waiter: Waiter) -> World:
        if self.plan.look:
            return _set(world, p, w, waiter._replace(doing=WILL))
        return self._tell(
            _set(world, p, w, waiter._replace(doing=IDLE)),
            p,
            ("return", w, world.now),
            lambda bell: bell.idle(w, due_in=None, taken=False, left=False, now=world.now),
        )

    def _reconcile(self, world: World, p: int, w: int, waiter: Waiter) -> World:
        """From here on a late claim bounces off the raised number."""
        stopping = world.processes[p].stopping
        fresh = OUTSIDE if stopping else Waiter(WILL, waiter.slots, waiter.running)
        world = self._give_back(_set(world, p, w, fresh), waiter.taken)
        return self._failed(world, p, w) if self.plan.settle else world

    def _give_back(self, world: World, taken: int) -> World:
        return _ring(world._replace(ring=world.ring + taken)) if taken else world

    def _stop(self, world: World, p: int) -> World:
        process = world.processes[p]._replace(stopping=True)
        world = _with(world, p, process)
        for w, waiter in enumerate(process.waiters):
            if waiter.doing not in (SENT, ANSWERED, UNSURE):
                world = self._gone(_set(world, p, w, OUTSIDE), p, w)
        return world

    def _gone(self, world: World, p: int, w: int) -> World:
        now = world.now
        return self._tell(world, p, ("gone", w, now), lambda bell: bell.gone(w, now=now))

    def _failed(self, world: World, p: int, w: int) -> World:
        now = world.now
        return self._tell(world, p, ("failed", w, now), lambda bell: bell.failed(w, now=now))


OUTSIDE = Waiter(OUT, 0)


def _with(world: World, p: int, process: Process) -> World:
    processes = world.processes
    return world._replace(processes=(*processes[:p], process, *processes[p + 1 :]))


def _with_waiter(process: Process, w: int, waiter: Waiter) -> Process:
    waiters = process.waiters
    return process._replace(waiters=(*waiters[:w], waiter, *waiters[w + 1 :]))


def _set(world: World, p: int, w: int, waiter: Waiter) -> World:
    return _with(world, p, _with_waiter(world.processes[p], w, waiter))


def _ring(world: World) -> World:
    """LPUSH: who is blocked longest gets the token, else the list keeps it."""
    if not world.blocked:
        return world._replace(wake=min(world.wake + 1, TOKENS))
    p, *rest = world.blocked
    world = world._replace(blocked=tuple(rest))
    return _with(world, p, world.processes[p]._replace(blpop=RECEIVED))


def _circle(must: dict[World, list[World]]) -> World | None:
    """A state from which steps nobody decides lead on for ever, if there is one."""
    incoming: dict[World, int] = dict.fromkeys(must, 0)
    for ahead in must.values():
        for world in ahead:
            if world in incoming:
                incoming[world] += 1
    free = [world for world, count in incoming.items() if not count]
    while free:
        world = free.pop()
        del incoming[world]
        for after in must[world]:
            if after in incoming:
                incoming[after] -= 1
                if not incoming[after]:
                    free.append(after)
    return next(iter(incoming), None)


def search(plan: Plan, *, limit: int = 2_000_000) -> Findings:
    """Searches a plan's worlds, at most about `limit` states."""
    collecting = gc.isenabled()
    gc.disable()  # millions of live tuples, no cycles: collecting would take half the time
    try:
        return Search(plan).run(limit)
    finally:
        if collecting:
            gc.enable()
