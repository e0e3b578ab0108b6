"""The real queue against the reference, operation by operation.

A Hypothesis state machine draws operations; each is done to both. After each, what was answered
and the whole state must be equal, and the keys must pass the audit. The clock is the machine's.

`ROTA_MODEL_EXAMPLES=5000` makes a long run of it; a failure prints the operations that led there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from math import inf
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from rota.connection import Client, parse_url
from rota.errors import LaneFull
from rota.script import stubs
from rota.script.keys import Keys
from rota.script.loader import Call, Operation, Packed
from rota.store import Store
from rota.store.bulk import MOVE_START
from rota.store.inspector import Inspector
from rota.values.jobspec import JobSpec
from rota.values.limits import UNSET, Rate, change
from rota.values.model import UNPACED, Action, Cancelled, Claimed, Enqueued, Exchanged, Settlement
from rota.values.timing import seconds
from tests.model import audit
from tests.model.allowance import Limits, Pace
from tests.model.reference import Full, Reference
from tests.support.clock import START_MS, Clock, library
from tests.support.servers import Server

T = TypeVar("T")

LEASE = 30_000
LANES = ("a", "b", "c", "!o", "!é:1")
KEYS = ("k", "1:k", "ü")

lanes = st.sampled_from(LANES)
delays = st.sampled_from((0, 0, 0, 1, 5_000, 10_000))
some = st.integers(0, 30)
"""An index, taken modulo the length of what it picks from."""
rarely = st.sampled_from((False, False, False, True))
wants = st.sampled_from((1, 1, 2, 3, 5, 10))
prefetches = st.integers(1, 4)
kinds = st.sampled_from(("held", "held", "held", "held", "held", "held", "foreign", "stale"))
indexes = st.integers(0, 60)
ceilings = st.sampled_from((UNSET, None, 0, 1, 1, 2, 5))
weights = st.sampled_from((UNSET, None, 0.3, 1, 2, 3, 7))
backlogs = st.sampled_from((UNSET, UNSET, None, None, 0, 2, 5))
rates = st.sampled_from(
    (
        *(UNSET, UNSET, None, None),
        *(Rate(1, per=60), Rate(1, burst=1), Rate(3, per=10, burst=2), Rate(1, per=5, burst=5)),
        *(Rate(7, burst=3), Rate(30, burst=2), Rate(700), Rate(2500, burst=3)),
    )
)
TEMPLATES = ("free", "pro")
limits = st.fixed_dictionaries(
    {"ceiling": ceilings, "weight": weights, "rate": rates, "backlog": backlogs}
)
costs = st.sampled_from((1, 1, 1, 1, 0.001, 0.5, 2, 10.5, 1000))


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    lane = draw(lanes)
    keyed = not lane.startswith("!") and draw(st.booleans())
    delay, instant = 0, None
    if draw(st.integers(0, 3)) == 0:
        delay = draw(delays)
        instant = None if delay else START_MS + draw(st.integers(0, 40)) * 1_000
    return JobSpec(
        task=draw(st.sampled_from(("t", "u"))),
        id=f"j{draw(indexes)}",
        lane=lane,
        ordering_key=draw(st.sampled_from(KEYS)) if keyed else None,
        priority=draw(st.sampled_from((0, 0, 0, 1, -1, 1000, -1000))),
        delay_ms=delay,
        at_ms=instant,
        on_dead=draw(st.sampled_from(("skip", "hold"))),
        cost=draw(costs),
        charge=draw(st.sampled_from(("cost", "cost", "cost", "time"))),
    )


batches = st.lists(specs(), min_size=1, max_size=8)
runs = st.sampled_from((None, None, 0, 0.25, 3, 100))
"""For how many seconds a job ran, where that is told."""
endings = st.tuples(
    kinds,
    some,
    st.sampled_from(
        (*("complete", "retry") * 2, "release", "bury", "block_lane", "block_sequence", "cancel"),
    ),
    delays,
    st.booleans(),
    runs,
)


class QueueModel(RuleBasedStateMachine):
    numbers = count()

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server
        self.keys = Keys(f"model{next(self.numbers)}")
        self.raw = server.raw(decode=False)
        self.clock = Clock(self.raw, self.keys)
        self.client = Client(parse_url(server.url), library=library())
        self.store = Store(self.keys)
        self.inspector = Inspector(self.keys)
        self.ref = Reference(self.clock.now)
        self.agreed = True
        self.keeps_time = False  # whether the caller of this step will
        self.consumers: list[str] = []
        self.sent: list[tuple[Call[Any], Any]] = []  # what keeps a receipt, and its raw reply
        self.taken: list[tuple[str, str]] = []  # every delivery there ever was

    # ── one step ────────────────────────────────────────────────────────────────────────────

    def run(self, operation: Operation[T]) -> T:
        return self.client.run(self.noted(operation))

    def noted(self, operation: Operation[T]) -> Operation[T]:
        """Remembers the calls that may be sent again."""
        try:
            request = next(operation)
            while True:
                reply = yield request
                if isinstance(request, Call) and request.script.receipt:
                    self.sent = [*self.sent[-20:], (request, reply)]
                request = operation.send(reply)
        except StopIteration as end:
            return cast(T, end.value)

    def both(self, real: Operation[T], reference: Callable[[], T]) -> T:
        """Does a step to both queues; answers and states must be equal."""
        claimable, due = self.ref.claimable(), self.ref.next_time()
        self.agreed = self.keeps_time = False
        answer, expected = self.run(real), reference()
        assert answer == expected, f"answered {answer}, expected {expected}"
        self.compare()
        sooner = self.ref.next_time() < due and not self.keeps_time
        if self.ref.claimable() - claimable or sooner:
            assert self.bell() > 0, "work or an earlier due time, and nobody was woken"
        self.agreed = True
        return answer

    def compare(self) -> audit.Dump:
        dump = audit.read(self.raw, self.keys)
        found, expected = audit.picture(dump), self.ref.picture()
        wanted = expected["figures"]
        for figure in [*wanted.keys() | found["figures"].keys()]:  # added up in another order
            if abs(found["figures"].get(figure, 0) - wanted.get(figure, 0)) < 1e-3:
                found["figures"].pop(figure, None)
                wanted.pop(figure, None)
        wrong = {
            name: difference(found[name], expected[name])
            for name in expected
            if found[name] != expected[name]
        }
        assert not wrong, wrong
        problems = audit.findings(dump)
        assert not problems, problems
        return dump

    def bell(self) -> int:
        length: Any = self.raw.llen(self.keys.wake)
        return int(length)

    # ── enqueueing ──────────────────────────────────────────────────────────────────────────

    @initialize(
        batch=st.lists(specs(), min_size=4, max_size=16),
        given=st.dictionaries(lanes, limits, max_size=3),
        template=limits,
        referring=st.lists(lanes, max_size=3),
        want=wants,
        prefetch=prefetches,
    )
    def begin(
        self,
        batch: list[JobSpec],
        given: dict[str, Limits],
        template: Limits,
        referring: list[str],
        want: int,
        prefetch: int,
    ) -> None:
        """In the midst of work: most runs leave most rules out."""
        for lane, own in given.items():
            self.set_lane(lane=lane, own={**own, "backlog": UNSET}, template=UNSET)
        self.set_template(name=TEMPLATES[0], own={**template, "backlog": UNSET}, swept=True)
        for lane in referring:
            self.set_lane(lane=lane, own={}, template=TEMPLATES[0])
        self.enqueue(batch=batch, atomic=False)
        for name in (self.join(), self.join()):
            self.exchange_of(name, want=want, prefetch=prefetch)

    @rule(batch=batches, atomic=rarely)
    def enqueue(self, batch: list[JobSpec], atomic: bool) -> None:
        def real() -> Operation[str | list[Enqueued]]:
            try:
                return (yield from self.store.enqueue(batch, atomic=atomic))
            except LaneFull as full:
                return full.lane

        def expected() -> str | list[Enqueued]:
            try:
                return self.ref.enqueue(batch, atomic=atomic)
            except Full as full:
                return str(full)

        self.both(real(), expected)

    @rule(which=some)
    def send_again(self, which: int) -> None:
        """A resend is answered from the receipt, whatever happened since, and changes nothing."""

        def again(call: Call[Any]) -> Operation[Any]:
            return (yield call)

        for call, reply in [pick(which, self.sent)] if self.sent else []:
            self.both(again(call), lambda: reply)

    # ── consumers ───────────────────────────────────────────────────────────────────────────

    def join(self) -> str:
        name = f"consumer{next(self.numbers)}"
        self.consumers = [*self.consumers[-5:], name]
        self.both(
            self.store.join(name, lease_ms=LEASE, name="host:1"), lambda: self.ref.join(name, LEASE)
        )
        return name

    def consumer(self, index: int) -> str:
        """Mostly one that has jobs; sometimes one that is gone."""
        live = [*self.ref.consumers]
        busy = [name for name in live if self.ref.consumers[name].held]
        gone = [name for name in self.consumers if name not in live][:1]
        if not live or (len(live) < 3 and index == 30):
            return self.join()
        return pick(index, busy * 3 + live + gone)

    @rule(who=some, died=st.booleans())
    def leave(self, who: int, died: bool) -> None:
        name = self.consumer(who)
        self.both(self.store.leave(name, died=died), lambda: self.ref.leave(name, died=died))

    @rule(all_but=some)
    def heartbeat(self, all_but: int) -> None:
        names = [name for i, name in enumerate(self.consumers) if i != all_but]
        self.both(
            self.store.heartbeat(names, lease_ms=LEASE), lambda: self.ref.heartbeat(names, LEASE)
        )

    @rule(who=some, ahead=st.integers(-1, 2))
    def reconcile(self, who: int, ahead: int) -> None:
        name = self.consumer(who)
        number = self.number(name, ahead)
        self.both(
            self.store.deliveries_of(name, number=number),
            lambda: self.ref.deliveries_of(name, number),
        )

    @rule(who=some, which=some, kind=kinds)
    def start(self, who: int, which: int, kind: str) -> None:
        name = self.consumer(who)
        for id, delivery in self.deliveries(name, [(kind, which)]):
            self.both(
                self.store.start(name, id, delivery), lambda: self.ref.start(name, id, delivery)
            )

    def number(self, name: str, ahead: int) -> int:
        known = self.ref.consumers.get(name)
        return max(0, (known.claim if known else 0) + ahead)

    # ── claiming and settling ───────────────────────────────────────────────────────────────

    def deliveries(self, name: str, drawn: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
        """Deliveries to settle: mostly the consumer's own, some of others, some of the past."""
        own = self.ref.consumers.get(name)
        others = [pair for c in self.ref.consumers.values() for pair in c.held.items()]
        pools = {"held": [*own.held.items()] if own else [], "foreign": others, "stale": self.taken}
        # Shifted, so that the same draw again is the next one.
        shifted = [(kind, i + n) for n, (kind, i) in enumerate(drawn)]
        return [pick(i, pools[kind]) for kind, i in shifted if pools[kind]]

    @rule(who=some, want=wants, prefetch=prefetches)
    def claim(self, who: int, want: int, prefetch: int) -> None:
        self.exchange_of(self.consumer(who), want=want, prefetch=prefetch)

    @rule(
        who=some,
        ahead=st.sampled_from((1, 1, 1, 1, 1, 3, 0)),
        want=st.one_of(wants, st.just(0)),
        prefetch=prefetches,
        park=st.booleans(),
        done=st.lists(st.tuples(kinds, some), max_size=5),
    )
    def exchange(
        self,
        who: int,
        ahead: int,
        want: int,
        prefetch: int,
        park: bool,
        done: list[tuple[str, int]],
    ) -> None:
        name = self.consumer(who)
        self.exchange_of(name, want=want, prefetch=prefetch, ahead=ahead, park=park, done=done)

    def exchange_of(
        self,
        name: str,
        *,
        want: int,
        prefetch: int,
        ahead: int = 1,
        park: bool = False,
        done: Sequence[tuple[str, int]] = (),
    ) -> None:
        number = self.number(name, ahead)
        settled = self.deliveries(name, done)
        # As long as it takes, by where they stand.
        ran = [[None, 0.5, 20.0][i % 3] for i in range(len(settled))]
        completions = [
            Settlement(id, delivery, ran=seconds)
            for (id, delivery), seconds in zip(settled, ran, strict=True)
        ]
        rings = self.bell()

        def real() -> Operation[Exchanged]:
            found = yield from self.store.exchange(
                name,
                number=number,
                want=want,
                prefetch=prefetch,
                park=park,
                done=settled,
                ran=ran,
            )
            records = [job.record for entry in found.entries for job in entry]
            assert all(record and record.endswith(b"\n{}") for record in records), records
            return replace(found, entries=[[_bare(job) for job in e] for e in found.entries])

        def expected() -> Exchanged:
            status, answers, entries = self.ref.exchange(
                name, number=number, want=want, prefetch=prefetch, done=completions
            )
            ok = status == "ok"
            due = self.ref.next_due() if ok and len(entries) < want else None
            self.keeps_time = ok and len(entries) < want and park
            left = ok and bool(self.ref.ring and self.ref.free_permits)
            claimed = [[Claimed(j.id, None, j.attempts, j.deaths > 0) for j in e] for e in entries]
            due = None if due is None else due / 1000
            return Exchanged(status, self.ref.now, due, left, answers, claimed, str(number))

        answer = self.both(real(), expected)
        self.taken += [(job.id, str(number)) for entry in answer.entries for job in entry]
        del self.taken[:-40]
        if answer.left and answer.entries:
            assert self.bell() > 0, "work was left, and nobody was woken"
        elif answer.status == "ok" and len(answer.entries) < want and park and not answer.left:
            assert self.bell() == 0, "stale wakes were left"
        else:
            assert self.bell() >= rings, "a wake was lost"

    @rule(who=some, drawn=st.lists(endings, min_size=1, max_size=5))
    def settle(
        self, who: int, drawn: list[tuple[str, int, Action, int, bool, float | None]]
    ) -> None:
        name = self.consumer(who)
        rows = []
        for n, (kind, which, action, delay, hold, ran) in enumerate(drawn):
            for id, delivery in self.deliveries(name, [(kind, which + n)]):
                error = '{"error":"x"}' if action in ("retry", "bury") else None
                unstarted = action == "release" and hold
                if action == "release" and not hold and not delay and ran is None:
                    delay = UNPACED
                rows.append(Settlement(id, delivery, action, delay, error, hold, unstarted, ran))
        self.both(self.store.settle(name, rows), lambda: self.ref.settle(name, rows))

    @rule(who=some, times=st.integers(2, 6), wait=st.booleans())
    def release_again(self, who: int, times: int, wait: bool) -> None:
        """By handlers that name no delay, over and over."""
        name = self.consumer(who)
        for _ in range(times):
            self.exchange_of(name, want=2, prefetch=2)
            held = self.deliveries(name, [("held", 0), ("held", 1)])
            rows = [Settlement(id, delivery, "release", UNPACED) for id, delivery in held]
            self.both(self.store.settle(name, rows), lambda: self.ref.settle(name, rows))
            if wait:
                self.advance_to_next(0)

    # ── time ────────────────────────────────────────────────────────────────────────────────

    @rule(ms=st.sampled_from((1, 999, 5_000, 10_000, 15_001, LEASE)))
    def advance(self, ms: int) -> None:
        self.ref.now = self.clock.advance(ms)

    @rule(beside=st.integers(-1, 1))
    def advance_to_next(self, beside: int) -> None:
        """To just before, to, or just after what falls due next."""
        due = self.ref.next_due()
        if due is not None and due + beside > 0:
            self.ref.now = self.clock.advance(int(due) + beside)

    @rule(watched=st.sampled_from((0, LEASE, 10**9)))
    def beat(self, watched: int = 0) -> None:
        def expected() -> float | None:
            self.ref.beat(watched)
            due = self.ref.next_due()
            return None if due is None else due / 1000

        self.both(self.store.beat(watched_ms=watched), expected)

    @rule(crashes=st.integers(1, 4), want=wants, prefetch=prefetches, starts=st.booleans())
    def crash(self, crashes: int, want: int, prefetch: int, starts: bool) -> None:
        """A worker claims and dies, several in a row; others renew, somebody beats."""
        for _ in range(crashes):
            name = self.join()
            self.exchange_of(name, want=want, prefetch=prefetch)
            if not self.ref.consumers[name].held:
                break
            for id, delivery in [*self.ref.consumers[name].held.items()][: 1 if starts else 0]:
                self.both(
                    self.store.start(name, id, delivery), lambda: self.ref.start(name, id, delivery)
                )
            for _ in range(2):
                self.advance(ms=LEASE // 2)
                others = [other for other in self.ref.consumers if other != name]
                self.both(
                    self.store.heartbeat(others, lease_ms=LEASE),
                    lambda: self.ref.heartbeat(others, LEASE),
                )
                self.beat()

    @rule(what=st.sampled_from(("bell", "scripts")))
    def lose(self, what: str) -> None:
        if what == "bell":
            self.raw.delete(self.keys.wake)
            return
        for node in self.server.nodes:
            with node.client() as client:
                client.script_flush()

    # ── lanes and the queue ─────────────────────────────────────────────────────────────────

    @rule(
        lane=lanes,
        own=limits,
        template=st.sampled_from((UNSET, UNSET, None, *TEMPLATES)),
    )
    def set_lane(self, lane: str, own: Limits, template: Any) -> None:
        change_of = change(**own, template=template)
        self.both(
            iter(stubs.lane_set(self.keys, lane=lane, **change_of)),
            lambda: int(self.ref.set_lane(lane, in_words({**own, "template": template}))),
        )

    @rule(lane=lanes)
    def reset_lane(self, lane: str) -> None:
        gone = ("ceiling", "weight", "rate", "backlog", "template")

        def reset() -> None:
            self.ref.set_lane(lane, dict.fromkeys(gone))

        self.both(void(self.store.lane_reset(lane)), reset)

    @rule(name=st.sampled_from(TEMPLATES), own=limits, swept=st.booleans())
    def set_template(self, name: str, own: Limits, swept: bool) -> None:
        """Without the sweep that carries it on, lanes are reached as they are touched."""
        texts = change(**own)
        del texts["template"]
        self.both(
            iter(stubs.template_set(self.keys, name=name, **texts)),
            one(lambda: self.ref.set_template(name, in_words(own))),
        )
        self.beats(swept)

    @rule(name=st.sampled_from(TEMPLATES), swept=st.booleans())
    def drop_template(self, name: str, swept: bool) -> None:
        self.both(
            iter(stubs.template_drop(self.keys, name=name)),
            lambda: int(self.ref.drop_template(name)),
        )
        self.beats(swept)

    @rule(
        ceiling=st.sampled_from((UNSET, UNSET, None, 0, 1, 2, 5)),
        default_ceiling=st.sampled_from((UNSET, UNSET, None, 0, 1, 2)),
        default_weight=st.sampled_from((UNSET, UNSET, None, 0.3, 2, 7)),
        swept=st.booleans(),
    )
    def set_queue(
        self, ceiling: Any, default_ceiling: Any, default_weight: Any, swept: bool
    ) -> None:
        given = {
            "ceiling": ceiling,
            "default_ceiling": default_ceiling,
            "default_weight": default_weight,
        }
        self.both(
            iter(first_call(self.store.queue_set(**given))),
            one(lambda: self.ref.set_queue(in_words(given))),
        )
        self.beats(swept)

    def beats(self, wanted: bool) -> None:
        if wanted:
            self.beat()

    @rule(lane=lanes, seconds=st.sampled_from((None, None, 0, 5, 20)))
    def pause(self, lane: str, seconds: int | None) -> None:
        until = None if seconds is None else self.ref.now + seconds * 1000
        self.both(
            self.store.pause(
                lane, reason="r", by=None, until=None if until is None else until / 1000
            ),
            lambda: self.ref.pause(lane, until),
        )

    @rule(lane=lanes, seconds=st.sampled_from((0, 1, 5, 20)))
    def block(self, lane: str, seconds: int) -> None:
        self.both(
            self.store.block(lane, seconds, reason=None, by="me"),
            lambda: self.ref.block(lane, seconds * 1000) if seconds else None,
        )

    @rule(lane=lanes, blocked=st.booleans())
    def let_go(self, lane: str, blocked: bool) -> None:
        self.both(
            self.store.unblock(lane) if blocked else self.store.resume(lane),
            lambda: self.ref.unblock(lane) if blocked else self.ref.resume(lane),
        )

    @rule(shut=rarely, seconds=st.sampled_from((None, 0, 5, 20)))
    def gate(self, shut: bool, seconds: int | None) -> None:
        if not shut:
            self.both(self.store.open_gate(), self.ref.open_gate)
            return
        until = None if seconds is None else self.ref.now + seconds * 1000
        self.both(
            self.store.shut_gate(
                reason=None, by=None, until=None if until is None else until / 1000
            ),
            lambda: self.ref.pause_queue(until),
        )

    # ── the dead ────────────────────────────────────────────────────────────────────────────

    @rule(which=st.lists(some, min_size=1, max_size=3), discard=rarely)
    def act_on_dead(self, which: list[int], discard: bool) -> None:
        dead = [job.id for job in self.ref.jobs.values() if job.state == "dead"]
        ids = [pick(i, dead or ["j0"]) for i in which]
        script = stubs.discard if discard else stubs.replay
        self.both(
            iter(script(self.keys, ids=Packed(ids))),
            lambda: self.ref.discard(ids) if discard else self.ref.replay(ids),
        )

    @rule(lane=lanes)
    def purge(self, lane: str) -> None:
        """In one page; between smaller ones the lane might join the ring and leave it again."""
        call = stubs.purge(self.keys, lane=lane, limit=500, total="purged")
        self.both(iter(call), lambda: [0, self.ref.purge(lane)])

    # ── bulk ────────────────────────────────────────────────────────────────────────────────

    @rule(which=st.lists(indexes, min_size=1, max_size=4), running=st.booleans())
    def cancel(self, which: list[int], running: bool) -> None:
        held = [id for c in self.ref.consumers.values() for id in c.held]
        for i in which:
            id = pick(i, held) if running and held else f"j{i}"
            self.both(self.store.cancel(id, by="me"), lambda: self.ref.cancel(id))

    @rule(
        who=some,
        which=some,
        action=st.sampled_from(("retry", "release", "block_sequence", "cancel", "bury")),
    )
    def stop(self, who: int, which: int, action: Action) -> None:
        """Asked for while it runs, and ended by its worker some way or other."""
        name = self.consumer(who)
        for id, delivery in self.deliveries(name, [("held", which)]):
            self.both(self.store.cancel(id, by=None), lambda: self.ref.cancel(id))
            rows = [Settlement(id, delivery, action, 0)]
            self.both(self.store.settle(name, rows), lambda: self.ref.settle(name, rows))

    @rule(lane=lanes)
    def cancel_lane(self, lane: str) -> None:
        self.both(
            self.store.cancel_lane(lane, by=None), lambda: Cancelled(*self.ref.cancel_lane(lane))
        )

    @rule(
        lane=lanes,
        rate=st.sampled_from((Rate(1, per=20), Rate(1), Rate(3, per=10, burst=2))),
        who=some,
        beside=st.integers(-1, 1),
        then=st.sampled_from(("add", "resume", "release", "leave", "weigh")),
    )
    def run_out(self, lane: str, rate: Rate, who: int, beside: int, then: str) -> None:
        """A lane that has spent its tokens, and what is done to it about the time of the next."""
        self.set_lane(lane=lane, own={"rate": rate}, template=UNSET)
        more = [JobSpec(task="t", lane=lane, id=f"r{next(self.numbers)}") for _ in range(3)]
        self.enqueue(batch=more[:2], atomic=False)
        self.exchange_of(self.consumer(who), want=10, prefetch=4)
        due = self.ref.blocked.get(("r", lane), 0)
        if due + beside > self.ref.now:
            self.ref.now = self.clock.advance(int(due) + beside - self.ref.now)
        match then:
            case "add":
                self.enqueue(batch=more[2:], atomic=False)
            case "resume":
                self.let_go(lane=lane, blocked=False)
            case "weigh":
                self.set_lane(lane=lane, own={"weight": 2}, template=UNSET)
            case "release":
                self.settle(
                    who=who, drawn=[("held", n, "release", 0, n > 0, None) for n in range(3)]
                )
            case "leave":
                self.leave(who=who, died=False)

    @rule(who=some, action=st.sampled_from(("complete", "release", "bury")))
    def free_at_the_ceiling(self, who: int, action: Action) -> None:
        """Of the queue: who sleeps must hear of it."""
        most = sum(self.ref.permits(lane) for lane in LANES)
        self.set_queue(ceiling=most or 1, default_ceiling=UNSET, default_weight=UNSET, swept=True)
        self.exchange_of(self.consumer(who), want=1, prefetch=1)
        self.lose(what="bell")
        self.settle(who=who, drawn=[("held", 0, action, 0, False, None)])

    @rule(which=some)
    def asked(self, which: int) -> None:
        """What a worker is told it was asked to stop."""
        names = [name for i, name in enumerate(self.consumers) if i != which]
        expected = {
            name: sorted((id, d) for id, d in consumer.held.items() if id in self.ref.cancels)
            for name, consumer in self.ref.consumers.items()
            if name in names and consumer.held.keys() & self.ref.cancels
        }
        found = self.run(self.store.asked(names))
        assert {name: sorted(rows) for name, rows in found.items()} == expected

    @rule(source=lanes, to=lanes)
    def move(self, source: str, to: str) -> None:
        """In one page, as a sequence of up to 500 jobs goes at once."""
        if source == to or (source[0] == "!") != (to[0] == "!"):
            return
        call = stubs.move(self.keys, source=source, target=to, cursor=MOVE_START, limit=500)
        self.both(iter(call), lambda: (b"", *self.ref.move(source, to)))

    @rule(lane=lanes, priority=st.sampled_from((0, 0, 1, -1, 1000, -1000)))
    def reprioritize(self, lane: str, priority: int) -> None:
        self.both(
            self.store.reprioritize(lane, priority), lambda: self.ref.reprioritize(lane, priority)
        )

    # ── looking ─────────────────────────────────────────────────────────────────────────────

    @rule(lane=lanes, which=indexes)
    def look(self, lane: str, which: int) -> None:
        ref = self.ref
        info = self.run(self.inspector.lane(lane))
        counts = [len(ref.jobs_of(lane, state)) for state in ("waiting", "delayed")]
        assert [info.waiting, info.delayed, info.running] == [*counts, ref.permits(lane)]
        assert (info.paused, info.in_ring) == (lane in ref.paused, lane in ref.ring)
        assert (inf if info.ceiling is None else info.ceiling) == ref.allowance.ceiling(lane)
        assert info.weight == ref.allowance.weight(lane)
        job, expected = self.run(self.inspector.job(f"j{which}")), ref.jobs.get(f"j{which}")
        assert (job and job.state) == (expected and expected.state)
        total = self.run(self.inspector.queue())
        states = [job.state for job in ref.jobs.values()]
        assert [total.waiting, total.running, total.delayed, total.dead] == [
            states.count(state) for state in ("waiting", "running", "delayed", "dead")
        ]

    # ── the end ─────────────────────────────────────────────────────────────────────────────

    def teardown(self) -> None:
        try:
            if self.agreed:
                self.drain()
        finally:
            self.client.close()

    def drain(self) -> None:
        """Whatever happened, all can be worked off, and then nothing is left (invariant 6)."""
        self.gate(shut=False, seconds=None)
        self.set_queue(ceiling=None, default_ceiling=None, default_weight=None, swept=True)
        for name in TEMPLATES:
            self.drop_template(name=name, swept=True)
        for lane in LANES:
            self.reset_lane(lane=lane)
            self.let_go(lane=lane, blocked=True)
            self.let_go(lane=lane, blocked=False)
        while self.ref.consumers:
            self.leave(who=0, died=False)
        name = self.join()
        while self.ref.jobs:
            held = [("held", i) for i in range(len(self.ref.consumers[name].held))]
            self.exchange_of(name, want=10, prefetch=4, done=held)
            if not self.ref.consumers[name].held:
                dead = [job.id for job in self.ref.jobs.values() if job.state == "dead"]
                self.both(
                    iter(stubs.discard(self.keys, ids=Packed(dead or ["-"]))),
                    lambda: self.ref.discard(dead or ["-"]),
                )
                self.advance_to_next(beside=0)
                self.heartbeat(all_but=-1)
        self.exchange_of(name, want=1, prefetch=1, park=True)
        self.both(self.store.leave(name), lambda: self.ref.leave(name))
        self.beat()
        left = {key for key in self.compare().types if not key.startswith(audit.TRANSIENT)}
        assert left - {"durations"} == {"config", "seq", "stats"}, left


def in_words(given: dict[str, Any]) -> Limits:
    """Limits as the reference takes them."""
    return {
        name: Pace.of(value.n, seconds(value.per, "per"), value.burst)
        if isinstance(value, Rate)
        else value
        for name, value in given.items()
        if value is not UNSET
    }


def void(operation: Operation[Any]) -> Operation[None]:
    yield from operation


def one(done: Callable[[], None]) -> Callable[[], Any]:
    """The reference's step, answered as the script does that changes settings."""

    def step() -> int:
        done()
        return 1

    return step


def pick(index: int, from_: Sequence[T]) -> T:
    return from_[index % len(from_)]


def difference(found: Any, expected: Any) -> Any:
    """Where the two differ, as pairs of what is and what was expected."""
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return found, expected
    return {
        name: difference(found.get(name), expected.get(name))
        for name in [*found, *(name for name in expected if name not in found)]
        if found.get(name) != expected.get(name)
    }


def first_call(operation: Operation[Any]) -> Call[Any]:
    """The call an operation begins with, to be sent alone."""
    request = next(operation)
    operation.close()
    assert isinstance(request, Call)
    return request


def _bare(job: Claimed) -> Claimed:
    return Claimed(job.id, None, job.attempts, job.suspect)


EXAMPLES = {"valkey": 150, "redis7": 40, "cluster": 20}
LONG = int(os.environ.get("ROTA_MODEL_EXAMPLES", "0"))


@pytest.mark.legs("valkey", "cluster", "redis7")
@pytest.mark.timeout(24 * 3600 if LONG else 900)  # a failure takes its time to shrink
def test_the_queue_does_what_the_reference_does(server: Server) -> None:
    here: Any = lambda: QueueModel(server)  # noqa: E731 (typed as a class, called as a factory)
    run_state_machine_as_test(
        here,
        settings=settings(
            max_examples=LONG or EXAMPLES[server.kind],
            stateful_step_count=50,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
