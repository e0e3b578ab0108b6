"""The real queue against the reference, operation by operation.

A Hypothesis state machine draws operations; each is done to both. After each, what was answered
and the whole state must be equal, and the keys must pass the audit. The clock is the machine's.

`ROTA_MODEL_EXAMPLES=5000` makes a long run of it; a failure prints the operations that led there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count
from math import inf
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rota import scripts
from rota.connection import Client, parse_url
from rota.errors import LaneFull
from rota.inspector import Inspector
from rota.keys import Keys
from rota.model import Exchanged, JobSpec, Settlement
from rota.scripting import Operation, Packed, Tail
from rota.store import UNSET, Store, _columns
from tests.model import audit
from tests.model.reference import Full, Job, Reference
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


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    lane = draw(lanes)
    keyed = not lane.startswith("!") and draw(st.booleans())
    delay, instant = 0, None
    if draw(st.integers(0, 3)) == 0:
        delay = draw(delays)
        instant = None if delay else START_MS + draw(st.integers(0, 40)) * 1_000
    return JobSpec(
        task="t",
        id=f"j{draw(some)}",
        lane=lane,
        ordering_key=draw(st.sampled_from(KEYS)) if keyed else None,
        priority=draw(st.sampled_from((0, 0, 0, 1, -1, 1000, -1000))),
        delay=delay,
        at=instant,
        on_dead=draw(st.sampled_from(("skip", "hold"))),
    )


batches = st.lists(specs(), min_size=1, max_size=8)
endings = st.tuples(
    st.sampled_from(("held", "held", "held", "held", "foreign", "stale")),
    some,
    st.sampled_from(("complete", "complete", "retry", "release", "bury")),
    delays,
    st.booleans(),
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
        self.consumers: list[str] = []
        self.taken: list[tuple[str, str]] = []  # every delivery there ever was

    # ── one step ────────────────────────────────────────────────────────────────────────────

    def run(self, operation: Operation[T]) -> T:
        return self.client.run(operation)

    def both(self, real: Operation[T], reference: Callable[[], T]) -> T:
        """Does a step to both queues; answers and states must be equal."""
        claimable, due = self.ref.claimable(), self.ref.next_time()
        answer, expected = self.run(real), reference()
        assert answer == expected, f"answered {answer}, expected {expected}"
        self.compare()
        if self.ref.claimable() - claimable or self.ref.next_time() < due:
            assert self.bell() > 0, "work or an earlier due time, and nobody was woken"
        return answer

    def compare(self) -> audit.Dump:
        dump = audit.read(self.raw, self.keys)
        found, expected = audit.picture(dump), self.ref.picture()
        wrong = {
            name: {"is": found[name], "expected": expected[name]}
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

    def pick(self, index: int, from_: Sequence[T]) -> T:
        return from_[index % len(from_)]

    # ── enqueueing ──────────────────────────────────────────────────────────────────────────

    def _enqueue(self, batch: list[JobSpec], atomic: bool) -> list[str]:
        try:
            return [*self.ref.enqueue(batch, atomic=atomic)]
        except Full as full:
            return ["full", str(full)]

    def _real_enqueue(self, batch: list[JobSpec], atomic: bool) -> Operation[list[str]]:
        try:
            done = yield from self.store.enqueue(batch, atomic=atomic)
        except LaneFull as full:
            return ["full", full.lane]
        assert [one.id for one in done] == [spec.id for spec in batch]
        return [one.outcome for one in done]

    @rule(batch=batches, atomic=st.booleans())
    def enqueue(self, batch: list[JobSpec], atomic: bool) -> None:
        self.both(self._real_enqueue(batch, atomic), lambda: self._enqueue(batch, atomic))

    @rule(batch=batches)
    def enqueue_and_send_again(self, batch: list[JobSpec]) -> None:
        def call() -> Operation[str]:
            letters = {}
            for _ in range(2):
                status, text = yield from scripts.enqueue(
                    self.keys,
                    nonce=nonce,
                    atomic=False,
                    large=False,
                    jobs=_columns(batch),
                    bodies=Tail([spec.body for spec in batch]),
                )
                letters[status] = letters.get(status, text) if text == letters.get(status, text) else "differs"
            return letters["ok"]

        nonce = f"n{next(self.numbers)}"
        self.both(call(), lambda: "".join({"created": "c", "duplicate": "d", "lane_full": "f"}[o] for o in self.ref.enqueue(batch)))

    # ── consumers ───────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: len(self.ref.consumers) < 4)
    @rule()
    def join(self) -> None:
        name = f"consumer{next(self.numbers)}"
        self.consumers = [*self.consumers[-5:], name]
        self.both(
            self.store.join(name, lease_ms=LEASE, name="host:1"),
            lambda: self.ref.join(name, LEASE) or self.ref.now,
        )

    @precondition(lambda self: self.consumers)
    @rule(who=some)
    def leave(self, who: int) -> None:
        name = self.pick(who, self.consumers)
        self.both(self.store.leave(name), lambda: self.ref.leave(name))

    @precondition(lambda self: self.consumers)
    @rule(all_but=some)
    def heartbeat(self, all_but: int) -> None:
        names = [name for i, name in enumerate(self.consumers) if i != all_but]
        self.both(
            self.store.heartbeat(names, lease_ms=LEASE), lambda: self.ref.heartbeat(names, LEASE)
        )

    @precondition(lambda self: self.consumers)
    @rule(who=some, ahead=st.integers(-1, 2))
    def reconcile(self, who: int, ahead: int) -> None:
        name = self.pick(who, self.consumers)
        number = self._number(name, ahead)
        self.both(
            self.store.held_by(name, number=number), lambda: self.ref.held_by(name, number)
        )

    @precondition(lambda self: self.taken)
    @rule(which=some, latest=st.booleans())
    def start(self, which: int, latest: bool) -> None:
        name = self.pick(which, self.consumers)
        known = self.ref.consumers.get(name)
        held = [*known.held.items()] if known else []
        id, delivery = self.pick(which, held if latest and held else self.taken)
        self.both(
            self.store.start(name, id, delivery), lambda: self.ref.start(name, id, delivery)
        )

    def _number(self, name: str, ahead: int) -> int:
        known = self.ref.consumers.get(name)
        return max(0, (known.claim if known else 0) + ahead)

    # ── claiming and settling ───────────────────────────────────────────────────────────────

    def _deliveries(self, name: str, drawn: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
        """Deliveries to settle: mostly the consumer's own, some of others, some of the past."""
        own = self.ref.consumers.get(name)
        others = [(i, d) for c in self.ref.consumers.values() for i, d in c.held.items()]
        pools = {"held": [*own.held.items()] if own else [], "foreign": others, "stale": self.taken}
        return [self.pick(i, pools[kind]) for kind, i in drawn if pools[kind]]

    @precondition(lambda self: self.consumers)
    @rule(
        who=some,
        ahead=st.sampled_from((1, 1, 1, 1, 1, 3, 0)),
        want=st.sampled_from((0, 1, 1, 2, 3, 5, 10)),
        prefetch=st.integers(1, 4),
        park=st.booleans(),
        done=st.lists(st.tuples(st.sampled_from(("held", "held", "held", "stale")), some), max_size=4),
    )
    def exchange(
        self, who: int, ahead: int, want: int, prefetch: int, park: bool, done: list[tuple[str, int]]
    ) -> None:
        name = self.pick(who, self.consumers)
        number = self._number(name, ahead)
        settled = self._deliveries(name, done)
        rings = self.bell()

        def expected() -> Exchanged:
            status, answers, entries = self.ref.exchange(
                name, number=number, want=want, prefetch=prefetch, done=settled
            )
            answered = status == "ok"
            due = self.ref.next_due() if answered and len(entries) < want else None
            return Exchanged(
                status=status,  # type: ignore[arg-type]
                now=self.ref.now,
                due=None if due is None else due / 1000,
                left=answered and bool(self.ref.ring) and not self.ref.shut,
                answers=answers,  # type: ignore[arg-type]
                entries=[[_claimed(job) for job in jobs] for jobs in entries],
            )

        def real() -> Operation[Exchanged]:
            found = yield from self.store.exchange(
                name, number=number, want=want, prefetch=prefetch, park=park, done=settled
            )
            for entry in found.entries:
                for i, job in enumerate(entry):
                    assert job.record is not None
                    entry[i] = type(job)(job.id, b"", job.attempts, job.suspect)
            return found

        answer = self.both(real(), expected)
        self.taken += [(job.id, str(number)) for entry in answer.entries for job in entry]
        del self.taken[:-40]
        if answer.status != "ok":
            return
        if answer.left and answer.entries:
            assert self.bell() > 0, "work was left, and nobody was woken"
        elif want > len(answer.entries) and park and not answer.left:
            assert self.bell() == 0, "stale wakes were left"
        else:
            assert self.bell() >= rings, "a wake was lost"

    @precondition(lambda self: self.consumers)
    @rule(who=some, drawn=st.lists(endings, min_size=1, max_size=5))
    def settle(self, who: int, drawn: list[tuple[str, int, Any, int, bool]]) -> None:
        name = self.pick(who, self.consumers)
        rows = []
        for kind, which, action, delay, hold in drawn:
            for id, delivery in self._deliveries(name, [(kind, which)]):
                error = '{"error": "x"}' if action in ("retry", "bury") else None
                rows.append(Settlement(id, delivery, action, delay, error, hold))
        self.both(self.store.settle(name, rows), lambda: self.ref.settle(name, rows))

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

    @rule()
    def beat(self) -> None:
        def expected() -> float | None:
            self.ref.beat()
            due = self.ref.next_due()
            return None if due is None else due / 1000

        self.both(self.store.beat(), expected)

    @rule()
    def empty_bell(self) -> None:
        self.raw.delete(self.keys.wake)

    @rule()
    def flush_scripts(self) -> None:
        for node in self.server.nodes:
            with node.client() as client:
                client.script_flush()

    # ── lanes and the queue ─────────────────────────────────────────────────────────────────

    @rule(lane=lanes, ceiling=st.sampled_from((None, 0, 1, 1, 2, 5)))
    def set_ceiling(self, lane: str, ceiling: int | None) -> None:
        def expected() -> None:
            self.ref.ceilings.pop(lane, None)
            if ceiling is not None:
                self.ref.ceilings[lane] = ceiling
            self.ref.look_at(lane)

        self.both(self.store.lane_set(lane, ceiling=ceiling), expected)

    @rule(lane=lanes, weight=st.sampled_from((None, 0.3, 1, 2, 3, 7)))
    def set_weight(self, lane: str, weight: float | None) -> None:
        self.both(
            self.store.lane_set(lane, weight=weight), lambda: self.ref.set_weight(lane, weight)
        )

    @rule(lane=lanes, backlog=st.sampled_from((None, 0, 2, 5)))
    def set_backlog(self, lane: str, backlog: int | None) -> None:
        def expected() -> None:
            self.ref.backlogs.pop(lane, None)
            if backlog is not None:
                self.ref.backlogs[lane] = backlog
            self.ref.look_at(lane)

        self.both(self.store.lane_set(lane, ceiling=UNSET, backlog=backlog), expected)

    @rule(ceiling=st.sampled_from((None, None, 0, 1, 2)), swept=st.booleans())
    def set_default_ceiling(self, ceiling: int | None, swept: bool) -> None:
        def expected() -> int:
            self.ref.default_ceiling = ceiling
            self.ref.sweeping = True
            return 1

        setting = "-" if ceiling is None else str(ceiling)
        self.both(
            iter(scripts.queue_set(self.keys, default_ceiling=setting, paused="")), expected
        )
        if swept:
            self.beat()

    @rule(lane=lanes, seconds=st.sampled_from((None, None, 0, 5, 20)))
    def pause(self, lane: str, seconds: int | None) -> None:
        until = None if seconds is None else self.ref.now / 1000 + seconds

        def expected() -> None:
            self.ref.paused.add(lane)
            self.ref.blocked.pop(("p", lane), None)
            if seconds is not None:
                self.ref.blocked["p", lane] = self.ref.now + seconds * 1000
            self.ref.look_at(lane)

        self.both(self.store.pause(lane, reason="r", by=None, until=until), expected)

    @rule(lane=lanes)
    def resume(self, lane: str) -> None:
        def expected() -> bool:
            was = lane in self.ref.paused
            self.ref.paused.discard(lane)
            self.ref.blocked.pop(("p", lane), None)
            self.ref.look_at(lane)
            return was

        self.both(self.store.resume(lane), expected)

    @rule(lane=lanes, seconds=st.sampled_from((0, 1, 5, 20)))
    def block(self, lane: str, seconds: int) -> None:
        def expected() -> None:
            if seconds:
                until = self.ref.blocked.get(("l", lane), -inf)
                self.ref.blocked["l", lane] = max(until, self.ref.now + seconds * 1000)
                self.ref.look_at(lane)

        self.both(self.store.block(lane, seconds, reason=None, by="me"), expected)

    @rule(lane=lanes)
    def unblock(self, lane: str) -> None:
        def expected() -> bool:
            was = self.ref.blocked.pop(("l", lane), None) is not None
            self.ref.look_at(lane)
            return was

        self.both(self.store.unblock(lane), expected)

    @rule(shut=st.booleans())
    def gate(self, shut: bool) -> None:
        def expected() -> None:
            self.ref.shut = shut

        step = self.store.shut_gate(reason=None, by=None) if shut else self.store.open_gate()
        self.both(step, expected)

    # ── looking ─────────────────────────────────────────────────────────────────────────────

    @rule(lane=lanes, which=some)
    def look(self, lane: str, which: int) -> None:
        ref = self.ref
        info = self.run(self.inspector.lane(lane))
        counts = [len(ref.jobs_of(lane, state)) for state in ("waiting", "delayed")]
        assert [info.waiting, info.delayed, info.running] == [*counts, ref.permits(lane)]
        assert (info.paused, info.in_ring) == (lane in ref.paused, lane in ref.ring)
        assert (inf if info.ceiling is None else info.ceiling) == ref.ceiling(lane)
        assert info.weight == ref.weight(lane)
        job = self.run(self.inspector.job(f"j{which}"))
        expected = ref.jobs.get(f"j{which}")
        assert (job and job.state) == (expected and expected.state)
        total = self.run(self.inspector.queue())
        states = [job.state for job in ref.jobs.values()]
        assert [total.waiting, total.running, total.delayed, total.dead] == [
            states.count(state) for state in ("waiting", "running", "delayed", "dead")
        ]

    # ── the end ─────────────────────────────────────────────────────────────────────────────

    def teardown(self) -> None:
        self.client.close()


def _claimed(job: Job) -> Any:
    from rota.model import Claimed

    return Claimed(job.id, b"", job.attempts, job.deaths > 0)


EXAMPLES = int(os.environ.get("ROTA_MODEL_EXAMPLES", "0"))


@pytest.mark.timeout(24 * 3600 if EXAMPLES else 300)
def test_the_queue_does_what_the_reference_does(server: Server) -> None:
    examples = EXAMPLES or (200 if server.kind == "valkey" else 20)
    run_state_machine_as_test(
        lambda: QueueModel(server),
        settings=settings(
            max_examples=examples,
            stateful_step_count=60,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
