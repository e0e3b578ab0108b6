"""Fair turns as properties: a claim of many is many claims of one, and shares follow weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.connection import Client, parse_url
from rota.keys import Keys
from rota.model import JobSpec
from rota.store import Store
from tests.model import audit
from tests.support.clock import Clock, library
from tests.support.servers import Server

LANES = ("a", "b", "c", "d", "!o", "!p")

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

    limits: dict[str, tuple[float, int | None]]
    steps: list[tuple[list[JobSpec], int, int]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    limit = st.tuples(
        st.sampled_from((1, 1, 1, 2, 3, 0.3, 7, 100, 0.01)), st.sampled_from((None, None, 1, 2, 5))
    )
    limits = draw(st.dictionaries(st.sampled_from(LANES), limit))
    steps = []
    ids = count()
    for _ in range(draw(st.integers(1, 4))):
        jobs = draw(
            st.lists(
                st.tuples(
                    st.sampled_from(LANES),
                    st.sampled_from((None, None, "k", "l")),
                    st.sampled_from((0, 0, 0, 1, -1)),
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
            )
            for lane, key, priority in jobs
        ]
        steps.append((batch, draw(st.integers(0, 6)), draw(st.integers(0, 5))))
    return History(limits, steps)


def replay(queue: Queue, history: History, prefetch: int) -> None:
    for lane, (weight, ceiling) in history.limits.items():
        queue.client.run(queue.store.lane_set(lane, weight=weight, ceiling=ceiling))
    for batch, claims, completions in history.steps:
        queue.client.run(queue.store.enqueue(batch))
        for _ in range(claims):
            queue.claim(1, prefetch)
        queue.complete(completions)


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
    """A backlogged lane: its weight, and how many jobs one turn may take of it."""

    weight: float
    turn: int


lines = st.builds(
    Line,
    weight=st.sampled_from((1, 1, 2, 3, 0.3, 7)),
    turn=st.integers(1, 4),
)


def served(queue: Queue, lanes: dict[str, Line], wants: list[int], prefetch: int) -> list[str]:
    """The lanes of the entries claimed while all of them stand in the ring, one per entry."""
    for lane, line in lanes.items():
        queue.client.run(queue.store.lane_set(lane, weight=line.weight))
    queue.client.run(
        queue.store.enqueue(
            [
                JobSpec(
                    task="t",
                    lane=lane,
                    id=f"{lane}-{entry}-{n}",
                    ordering_key=None if line.turn == 1 else f"k{entry}",
                )
                for lane, line in lanes.items()
                for entry in range(40)
                for n in range(line.turn)
            ]
        )
    )
    turns: list[str] = []
    for want in wants:
        entries = queue.claim(want, prefetch)
        if queue.raw.zcard(queue.keys.key("ring")) < len(lanes):
            break
        turns += [entry[0].partition("-")[0] for entry in entries]
    return turns


def worst_gap(turns: list[str], lanes: dict[str, Line], a: str, b: str) -> float:
    """The most that `jobs / weight` of two lanes differ over any stretch."""
    balance, low, high, worst = 0.0, 0.0, 0.0, 0.0
    for lane in turns:
        if lane in (a, b):
            share = lanes[lane].turn / lanes[lane].weight
            balance += share if lane == a else -share
            low, high = min(low, balance), max(high, balance)
            worst = max(worst, balance - low, high - balance)
    return worst


def test_shares_follow_weights_over_any_stretch(valkey: Server) -> None:
    @few
    @given(
        drawn=st.lists(lines, min_size=2, max_size=4),
        wants=st.lists(st.integers(1, 12), min_size=10, max_size=10),
    )
    def check(drawn: list[Line], wants: list[int]) -> None:
        lanes = {f"lane{i}": line for i, line in enumerate(drawn)}
        turns = served(Queue(valkey, client), lanes, wants, prefetch=4)
        assert turns
        for a, b in combinations(lanes, 2):
            bound = sum(lanes[lane].turn / lanes[lane].weight for lane in (a, b))
            gap = worst_gap(turns, lanes, a, b)
            assert gap <= bound + 1e-9, f"{a} and {b} are {gap} apart, allowed {bound}: {turns}"

    with client_of(valkey) as client:
        check()


@pytest.mark.parametrize("want", [1, 7, 40])
def test_equal_lanes_take_turns_in_rotation(valkey: Server, want: int) -> None:
    lanes = {f"lane{i}": Line(weight=1, turn=1) for i in range(5)}
    with client_of(valkey) as client:
        turns = served(Queue(valkey, client), lanes, [want] * (40 // want), prefetch=1)
    assert turns == [*lanes] * (len(turns) // 5) + [*lanes][: len(turns) % 5]
    assert max(Counter(turns).values()) >= 7


def test_a_lane_that_comes_and_goes_gains_and_loses_nothing(valkey: Server) -> None:
    """Paused and resumed between all turns, it still has half of them."""
    lanes = {lane: Line(weight=1, turn=1) for lane in ("a", "b")}
    turns: Counter[str] = Counter()
    with client_of(valkey) as client:
        queue = Queue(valkey, client)
        served(queue, lanes, [], prefetch=1)
        for _ in range(50):
            client.run(queue.store.pause("a", reason=None, by=None, until=None))
            client.run(queue.store.resume("a"))
            ((id,),) = queue.claim(1, 1)
            turns[id[0]] += 1
    assert turns == {"a": 25, "b": 25}
