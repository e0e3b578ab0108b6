"""A consumer and its server agree on what is in its hands, whatever is lost between and in them.

The real `Deliveries` against a server of a few lines, in random interleavings: a request, its
arrival and its answer are steps apart, a claimer and a keeper take them in any order, either may
be lost, and the server may fall back to what it was. Then nothing more goes wrong, the claimer may
come no more, and after some heartbeats both must say the same. Never may a job be given back that
is in the consumer's hands, or on its way to them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rota.consume.deliveries import Deliveries, Taken
from rota.consume.lease import DOUBTS
from rota.errors import Unavailable
from rota.values.model import Exchanged, Holdings, Settlement

SEEDS = 1000
Steps = Generator[None, None, Any]


class World:
    """The server and the wires. Its operations yield functions, to be called on arrival."""

    def __init__(self, rand: random.Random, faults: float) -> None:
        self.rand, self.faults = rand, faults
        self.claim, self.waiting = 0, list("abcde")
        self.held: dict[str, str] = {}
        self.flying: set[tuple[str, str]] = set()
        self.hands: dict[str, Any] = {}
        self.kept: list[tuple[int, list[str], dict[str, str]]] = []

    def keep(self) -> None:
        self.kept.append((self.claim, self.waiting.copy(), self.held.copy()))

    def fall_back(self) -> None:
        self.claim, self.waiting, self.held = self.rand.choice(self.kept)
        self.waiting, self.held = self.waiting.copy(), self.held.copy()

    def fails(self) -> bool:
        return self.rand.random() < self.faults

    # ── what `Store` has ────────────────────────────────────────────────────────────────────

    def join(self, _: str, **__: object) -> Any:
        return (yield lambda: 0)

    def exchange(self, _: str, *, number: int, want: int, done: Any, **__: object) -> Any:
        def arrive() -> Any:
            for id, delivery in done:
                self._end(id, delivery)
            if want and self.claim and number != self.claim + 1:
                return SimpleNamespace(
                    status="stale", lost=False, answers=[], entries=[], delivery=str(number)
                )
            taken = self.waiting[:want]
            if want:
                self.claim = number
            del self.waiting[:want]
            self.held.update(dict.fromkeys(taken, str(number)))
            self.flying.update((id, str(number)) for id in taken)
            return SimpleNamespace(
                status="ok", lost=False, answers=[], entries=taken, delivery=str(number)
            )

        return (yield arrive)

    def settle(self, _: str, rows: list[Settlement]) -> Any:
        def arrive() -> list[str]:
            for row in rows:
                if self._end(row.id, row.delivery):
                    held = self.hands.get(row.id)
                    assert held is None or held.delivery != row.delivery, "it was in the hands"
                    assert (row.id, row.delivery) not in self.flying, "it was on its way"
                    self.waiting.append(row.id)
            return ["ok"] * len(rows)

        return (yield arrive)

    def deliveries_of(self, _: str, *, number: int) -> Any:
        """In two pages."""
        found: dict[str, str] = {}

        def page(names: str) -> Callable[[], None]:
            def arrive() -> None:
                self.claim = max(self.claim, number)
                found.update({id: held for id, held in self.held.items() if id in names})

            return arrive

        yield page("ab")
        yield page("cde")
        return found

    def heartbeat(self) -> Any:
        return (yield lambda: Holdings(self.claim, len(self.held)))

    def _end(self, id: str, delivery: str) -> bool:
        if self.held.get(id) != delivery:
            return False
        del self.held[id]
        return True


def answer(status: str, number: int, taken: list[str]) -> Any:
    return SimpleNamespace(
        status=status, lost=False, answers=[], entries=taken, delivery=str(number)
    )


class Plain(Deliveries):
    """Its jobs are names."""

    def _open(self, reply: Exchanged) -> Taken:
        names: Any = reply.entries
        jobs = [
            SimpleNamespace(id=id, delivery=reply.delivery, sequence="", charge="cost")
            for id in names
        ]
        return Taken(cast(Any, [[job] for job in jobs]), reply)


def carry(world: World, operation: Any) -> Steps:
    """Its steps: an answer is received in the one in which the operation goes on."""
    send, value = operation.send, None
    while True:
        try:
            request = send(value)
        except StopIteration as end:
            return end.value
        yield
        if world.fails():
            send, value = operation.throw, cast(Any, Unavailable("not sent"))
            continue
        flying = world.flying.copy()
        reply = request()
        brought = world.flying - flying
        yield
        world.flying -= brought
        if world.fails():
            send, value = operation.throw, cast(Any, Unavailable("not heard"))
        else:
            send, value = operation.send, reply


def claims(world: World, deliveries: Deliveries) -> Steps:
    for _ in range(world.rand.randrange(6)):
        held = list(deliveries.jobs.values())
        done = [job for job in held if world.rand.random() < 0.5]
        want = world.rand.randrange(3)
        try:
            yield from carry(
                world, deliveries.exchange(want=want, prefetch=1, park=False, done=done)
            )
        except Unavailable:
            yield


def keeps(world: World, deliveries: Deliveries, rounds: int) -> Steps:
    doubts = 0
    for _ in range(rounds):
        yield
        try:
            hands = yield from carry(world, world.heartbeat())
            doubts = 0 if deliveries.agrees(hands) else doubts + 1
            if doubts >= DOUBTS:
                _, gone = yield from carry(world, deliveries.compare())
                deliveries.let_go(gone)
        except Unavailable:
            continue


def run(steps: Steps) -> None:
    for _ in steps:
        pass


def play(seed: int, *, faults: float, falls_back: bool) -> None:
    rand = random.Random(seed)
    world = World(rand, 0)
    deliveries = Plain(cast(Any, world), lease_ms=1000, decode=lambda _: None)
    world.hands = cast(Any, deliveries.jobs)
    run(carry(world, deliveries.join()))
    world.keep()
    world.faults = faults
    actors = [claims(world, deliveries), keeps(world, deliveries, 6)]
    while actors:
        if falls_back and rand.random() < 0.1:
            rand.choice((world.keep, world.fall_back))()
        actor = rand.choice(actors)
        try:
            next(actor)
        except StopIteration:
            actors.remove(actor)
    world.faults = 0
    run(keeps(world, deliveries, 2 * DOUBTS))
    assert world.held == {id: job.delivery for id, job in deliveries.jobs.items()}


@pytest.mark.parametrize("faults", [0, 0.2])
@pytest.mark.parametrize("falls_back", [False, True])
def test_both_sides_agree_in_the_end(faults: float, falls_back: bool) -> None:
    for seed in range(SEEDS):
        try:
            play(seed, faults=faults, falls_back=falls_back)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
