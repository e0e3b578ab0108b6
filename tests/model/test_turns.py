"""Fair turns as properties: a claim of many is many claims of one, and shares follow weights.

Shares are of what jobs are charged: one each, unless they declare another cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations, count, cycle, islice
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.connection import Client, parse_url
from rota.script.keys import Keys
from rota.store import Store
from rota.values.jobspec import JobSpec
from rota.values.limits import Rate
from tests.model import audit
from tests.support.clock import Clock, library
from tests.support.servers import Server

LANES = ("a", "b", "c", "d", "!o", "!p")
RATES = (None, None, Rate(1, per=60, burst=4), Rate(7, burst=2), Rate(700, burst=5), Rate(2500))

numbers = count()
few = settings(
    max_examples=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Queue:
    """A queue under its own clock, with one consumer who claims."""

    def __init__(self, server: Server, client: Client) -> None:
        self.keys = Keys(f"turns{next(numbers)}")
        self.store = Store(self.keys)
        self.client = client
        self.raw = server.raw(decode=False)
        self.clock = Clock(self.raw, self.keys)
        self.claims = 0
        client.run(self.store.join("c", lease_ms=30_000, name="c"))

    def claim(self, want: int, prefetch: int) -> list[list[str]]:
        self.claims += 1
        answer = self.client.run(
            self.store.exchange("c", number=self.claims, want=want, prefetch=prefetch, park=False)
        )
        assert answer.status == "ok"
        return [[job.id for job in entry] for entry in answer.entries]

    def complete(self, first: int) -> None:
        """The first of what is held, by name."""
        held = sorted(audit.read(self.raw, self.keys).deliveries("c").items())[:first]
        done = [(id, delivery.number) for id, delivery in held]
        self.client.run(
            self.store.exchange("c", number=0, want=0, prefetch=1, park=False, done=done)
        )

    def picture(self) -> dict[str, Any]:
        """The whole state, but for the numbers of the claims."""
        dump = audit.read(self.raw, self.keys)
        assert not audit.findings(dump)
        found = audit.picture(dump)
        del found["claims"]
        sums = {figure: round(sum, 3) for figure, sum in found["figures"].items()}
        found["figures"] = {figure: sum for figure, sum in sums.items() if sum}
        found["deliveries"] = {
            consumer: {id: mark for id, (_, mark) in held.items()}
            for consumer, held in found["deliveries"].items()
        }
        return found


@contextmanager
def client_of(server: Server) -> Iterator[Client]:
    client = Client(parse_url(server.url), library=library())
    yield client
    client.close()


# ── a claim of many ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class History:
    """What happened before: limits, then batches with claims and completions between them."""

    limits: dict[str, dict[str, Any]]
    ceiling: int | None
    steps: list[tuple[list[JobSpec], int, int, int]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    limit = st.fixed_dictionaries(
        {
            "weight": st.sampled_from((1, 1, 1, 2, 3, 0.3, 7, 100, 0.01)),
            "ceiling": st.sampled_from((None, None, 1, 2, 5)),
            "rate": st.sampled_from(RATES),
        }
    )
    limits = draw(st.dictionaries(st.sampled_from(LANES), limit))
    costs = draw(st.sampled_from(((1,), (1,), (1, 1, 0.5, 3), (0.001, 1, 700.5))))
    steps = []
    ids = count()
    for _ in range(draw(st.integers(1, 4))):
        jobs = draw(
            st.lists(
                st.tuples(
                    st.sampled_from(LANES),
                    st.sampled_from((None, None, "k", "l")),
                    st.sampled_from((0, 0, 0, 1, -1)),
                    st.sampled_from(costs),
                ),
                min_size=1,
                max_size=25,
            )
        )
        batch = [
            JobSpec(
                task="t",
                id=f"j{next(ids):03}",
                lane=lane,
                ordering_key=None if lane.startswith("!") else key,
                priority=priority,
                cost=cost,
            )
            for lane, key, priority, cost in jobs
        ]
        claims, completions = draw(st.integers(0, 6)), draw(st.integers(0, 5))
        steps.append((batch, claims, completions, draw(st.sampled_from((0, 1, 7, 1001)))))
    return History(limits, draw(st.sampled_from((None, None, 3, 10, 20))), steps)


def replay(queue: Queue, history: History, prefetch: int) -> None:
    queue.client.run(queue.store.queue_set(ceiling=history.ceiling))
    for lane, limits in history.limits.items():
        queue.client.run(queue.store.lane_set(lane, **limits))
    for batch, claims, completions, ms in history.steps:
        queue.client.run(queue.store.enqueue(batch))
        for _ in range(claims):
            queue.claim(1, prefetch)
        queue.complete(completions)
        queue.clock.advance(ms)


def test_a_claim_of_many_is_as_many_claims_of_one(server: Server) -> None:
    @few
    @given(history=histories(), want=st.integers(2, 30), prefetch=st.integers(1, 4))
    def check(history: History, want: int, prefetch: int) -> None:
        at_once, one_by_one = Queue(server, client), Queue(server, client)
        for queue in (at_once, one_by_one):
            replay(queue, history, prefetch)
        taken = at_once.claim(want, prefetch)
        assert taken == [entry for _ in taken for entry in one_by_one.claim(1, prefetch)]
        if len(taken) < want:  # one that finds nothing may begin a new busy period
            assert at_once.claim(1, prefetch) == one_by_one.claim(1, prefetch) == []
        assert at_once.picture() == one_by_one.picture()

    with client_of(server) as client:
        check()


# ── shares ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Line:
    """A backlogged lane: its weight and whose setting that is, how many jobs one turn may take of
    it, and what these cost, one after the other."""

    weight: float = 1
    turn: int = 1
    costs: tuple[float, ...] = (1,)
    setting: str = "lane"

    @property
    def most(self) -> float:
        """What one turn may be charged, at most, by weight."""
        return self.turn * max(self.costs) / self.weight


lines = st.builds(
    Line,
    weight=st.sampled_from((1, 1, 2, 3, 0.3, 7)),
    turn=st.integers(1, 4),
    costs=st.sampled_from(((1,), (1,), (0.01,), (3, 0.5), (1, 1, 40))),
    setting=st.sampled_from(("lane", "template", "queue")),
)


def set_weights(queue: Queue, lanes: dict[str, Line]) -> None:
    """Each lane's where the line says; the queue has one weight for all."""
    run, store = queue.client.run, queue.store
    for lane, line in lanes.items():
        if line.setting == "lane":
            run(store.lane_set(lane, weight=line.weight))
        elif line.setting == "template":
            run(store.set_template(f"of {lane}", weight=line.weight))
            run(store.lane_set(lane, template=f"of {lane}"))
        else:
            run(store.queue_set(default_weight=line.weight))


def stock(queue: Queue, lanes: dict[str, Line]) -> dict[str, float]:
    """Forty turns' worth of work in each lane, and what each job costs."""
    specs = [
        JobSpec(
            task="t",
            lane=lane,
            id=f"{lane}-{entry:02}-{n}",
            ordering_key=None if line.turn == 1 else f"k{entry}",
            cost=line.costs[(entry * line.turn + n) % len(line.costs)],
        )
        for lane, line in lanes.items()
        for entry in range(40)
        for n in range(line.turn)
    ]
    queue.client.run(queue.store.enqueue(specs))
    return {spec.id: spec.cost for spec in specs}


Turns = list[tuple[str, float]]
"""Lanes of the entries claimed, and what they were charged."""


def claimed(queue: Queue, lanes: dict[str, Line], costs: dict[str, float], want: int) -> Turns:
    entries = queue.claim(want, prefetch=4)
    return [(entry[0].partition("-")[0], sum(costs[id] for id in entry)) for entry in entries]


def served(queue: Queue, lanes: dict[str, Line], wants: list[int], before: int = 0) -> Turns:
    """What is claimed while all lanes stand in the ring; with `before`, after so many turns of
    equal weights."""
    if not before:
        set_weights(queue, lanes)
    costs = stock(queue, lanes)
    if before:
        claimed(queue, lanes, costs, before)
        set_weights(queue, lanes)
    turns: Turns = []
    for want in wants:
        found = claimed(queue, lanes, costs, want)
        if queue.raw.zcard(queue.keys.key("ring")) < len(lanes):
            break
        turns += found
    return turns


def worst_gap(turns: Turns, lanes: dict[str, Line], a: str, b: str) -> float:
    """The most that `charges / weight` of two lanes differ over any stretch."""
    balance, low, high, worst = 0.0, 0.0, 0.0, 0.0
    for lane, charge in turns:
        if lane in (a, b):
            share = charge / lanes[lane].weight
            balance += share if lane == a else -share
            low, high = min(low, balance), max(high, balance)
            worst = max(worst, balance - low, high - balance)
    return worst


def check_shares(turns: Turns, lanes: dict[str, Line], least: float = 0) -> None:
    """`least`: what a turn is taken to be charged at least, by weight 1."""
    for a, b in combinations(lanes, 2):
        bound = sum(max(lanes[one].most, least / lanes[one].weight) for one in (a, b))
        gap = worst_gap(turns, lanes, a, b)
        assert gap <= bound + 1e-9, f"{a} and {b} are {gap} apart, allowed {bound}: {turns}"


def of_one_default(drawn: list[Line]) -> dict[str, Line]:
    """By name; those that go by the queue's weight have the same."""
    default = next((line.weight for line in drawn if line.setting == "queue"), 1)
    same = [replace(line, weight=default) if line.setting == "queue" else line for line in drawn]
    return {f"lane{i}": line for i, line in enumerate(same)}


def test_shares_follow_weights_over_any_stretch(valkey: Server) -> None:
    @few
    @given(
        drawn=st.lists(lines, min_size=2, max_size=4),
        wants=st.lists(st.integers(1, 12), min_size=10, max_size=10),
    )
    def check(drawn: list[Line], wants: list[int]) -> None:
        lanes = of_one_default(drawn)
        turns = served(Queue(valkey, client), lanes, wants)
        check_shares(turns, lanes)

    with client_of(valkey) as client:
        check()


def test_changed_weights_hold_for_what_is_queued(valkey: Server) -> None:
    """From the next turn on, whatever the lanes were charged before."""

    @few
    @given(
        drawn=st.lists(lines, min_size=2, max_size=4),
        wants=st.lists(st.integers(1, 12), min_size=8, max_size=8),
        before=st.integers(1, 20),
    )
    def check(drawn: list[Line], wants: list[int], before: int) -> None:
        lanes = of_one_default(drawn)
        turns = served(Queue(valkey, client), lanes, wants, before)
        check_shares(turns, lanes, least=1)

    with client_of(valkey) as client:
        check()


@pytest.mark.parametrize("want", [1, 7, 40])
def test_equal_lanes_take_turns_in_rotation(valkey: Server, want: int) -> None:
    lanes = {f"lane{i}": Line() for i in range(5)}
    with client_of(valkey) as client:
        turns = [lane for lane, _ in served(Queue(valkey, client), lanes, [want] * (40 // want))]
    assert turns == [*lanes] * (len(turns) // 5) + [*lanes][: len(turns) % 5]
    assert max(Counter(turns).values()) >= 7


def test_a_lane_that_comes_and_goes_gains_and_loses_nothing(valkey: Server) -> None:
    """Paused and resumed between all turns, it still has half of them."""
    lanes = {lane: Line() for lane in ("a", "b")}
    turns: Counter[str] = Counter()
    with client_of(valkey) as client:
        queue = Queue(valkey, client)
        served(queue, lanes, [])
        for _ in range(50):
            client.run(queue.store.pause("a", reason=None, by=None, until=None))
            client.run(queue.store.resume("a"))
            ((id,),) = queue.claim(1, 1)
            turns[id[0]] += 1
    assert turns == {"a": 25, "b": 25}


def add(queue: Queue, lane: str, ids: Iterable[str], **options: Any) -> None:
    specs = [JobSpec(task="t", lane=lane, id=id, **options) for id in ids]
    queue.client.run(queue.store.enqueue(specs))


@pytest.mark.parametrize("costs", [(1,), (0.01,), (1, 0.001), (10, 1, 0.001), (500, 1)])
def test_draining_and_refilling_earns_no_turns(valkey: Server, costs: tuple[float, ...]) -> None:
    """A lane that always has one job, the next as soon as that is taken, gets its share at most."""
    with client_of(valkey) as client:
        queue = Queue(valkey, client)
        add(queue, "b", (f"b-{n}" for n in range(300)))
        charged = {"a": 0.0, "b": 0.0}
        for n, cost in enumerate(islice(cycle(costs), 10_000)):
            add(queue, "a", [f"a-{n}"], cost=cost)
            while (taken := queue.claim(1, 1)[0][0])[0] == "b":
                charged["b"] += 1
            charged["a"] += cost
            assert taken == f"a-{n}"
            assert charged["a"] <= charged["b"] + max(costs) + 1 + 1e-6
            if charged["b"] > 100 or n > 300:
                break
        audit.read(queue.raw, queue.keys)


@pytest.mark.parametrize("cost", [0.01, 1, 100])
def test_an_idle_past_earns_nothing(valkey: Server, cost: float) -> None:
    with client_of(valkey) as client:
        queue = Queue(valkey, client)
        add(queue, "a", ["a-first"], cost=cost)
        add(queue, "b", (f"b-{n}" for n in range(100)), cost=cost)
        queue.claim(61, 1)
        add(queue, "a", (f"a-{n}" for n in range(40)), cost=cost)
        turns = Counter(entry[0][0] for entry in queue.claim(20, 1))
    assert turns == {"a": 10, "b": 10}


def test_many_sequences_of_a_lane_share_its_turns(valkey: Server) -> None:
    with client_of(valkey) as client:
        queue = Queue(valkey, client)
        for n in range(40):
            add(queue, "a", [f"a-{n}"], ordering_key=f"k{n}")
        add(queue, "b", (f"b-{n}" for n in range(40)))
        turns = [entry[0][0] for entry in queue.claim(40, 4)]
    assert turns == ["a", "b"] * 20


def test_what_a_lane_out_of_rate_leaves_goes_to_the_others(valkey: Server) -> None:
    """By their weights; and it comes back to its own share, with nothing to catch up."""
    with client_of(valkey) as client:
        queue = Queue(valkey, client)
        queue.client.run(queue.store.lane_set("a", weight=3, rate=Rate(4, per=60, burst=4)))
        queue.client.run(queue.store.lane_set("c", weight=2))
        for lane in "abc":
            add(queue, lane, (f"{lane}-{n}" for n in range(300)))
        turns = Counter(entry[0][0] for entry in queue.claim(94, 1))
        assert turns["a"] == 4
        assert abs(turns["c"] - 2 * turns["b"]) <= 3
        queue.clock.advance(15_000)
        turns = Counter(entry[0][0] for entry in queue.claim(31, 1))
        assert turns["a"] == 1
        queue.client.run(queue.store.lane_set("a", rate=None))
        turns = Counter(entry[0][0] for entry in queue.claim(60, 1))
        assert abs(turns["a"] - 30) <= 2
