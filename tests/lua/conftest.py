"""A queue on a desk: its clock in hand, its keys in sight, its scripts called one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pytest

from rota.connection import Client, parse_url
from rota.script.keys import Keys
from rota.script.loader import Operation
from rota.store import Store
from rota.store.inspector import Inspector
from rota.values.jobspec import JobSpec
from rota.values.model import Action, Exchanged, Settlement
from tests.model import audit
from tests.support.clock import Clock, library
from tests.support.servers import Server

T = TypeVar("T")

LEASE = 30_000


class Desk:
    """Short words for calls; `c` is the consumer who claims unless another is named."""

    def __init__(self, server: Server, name: str) -> None:
        self.keys = Keys(name)
        self.raw = server.raw()
        self._bytes = server.raw(decode=False)
        self.clock = Clock(self.raw, self.keys)
        self.client = Client(parse_url(server.url), library=library())
        self.store = Store(self.keys)
        self.look = Inspector(self.keys)
        self._claims: Counter[str] = Counter()
        self.join("c")

    def run(self, operation: Operation[T]) -> T:
        return self.client.run(operation)

    def key(self, kind: str, argument: str | None = None) -> str:
        return self.keys.key(kind, argument)

    # ── calls ───────────────────────────────────────────────────────────────────────────────

    def join(self, *consumers: str, lease: int = LEASE) -> None:
        for consumer in consumers:
            self.run(self.store.join(consumer, lease_ms=lease, name=f"host:{consumer}"))

    def add(self, *ids: str, **options: Any) -> list[str]:
        """Enqueues jobs in one call; lane `a` unless another is named. Outcomes."""
        options.setdefault("lane", "a")
        if "key" in options:
            options["ordering_key"] = options.pop("key")
        return self.add_specs([JobSpec(task="t", id=id, **options) for id in ids])

    def add_specs(self, specs: Sequence[JobSpec], *, atomic: bool = False) -> list[str]:
        return [done.outcome for done in self.run(self.store.enqueue(specs, atomic=atomic))]

    def exchange(
        self,
        want: int = 1,
        prefetch: int = 1,
        *,
        consumer: str = "c",
        number: int | None = None,
        park: bool = False,
        done: Sequence[tuple[str, int]] = (),
    ) -> Exchanged:
        if number is not None:
            self._claims[consumer] = number
        elif want:
            self._claims[consumer] += 1
        return self.run(
            self.store.exchange(
                consumer,
                number=self._claims[consumer],
                want=want,
                prefetch=prefetch,
                park=park,
                done=[(id, str(delivery)) for id, delivery in done],
            )
        )

    def claim(self, want: int = 1, prefetch: int = 1, **options: Any) -> list[list[str]]:
        """The ids of the entries in turn order."""
        answer = self.exchange(want, prefetch, **options)
        assert answer.status == "ok"
        return [[job.id for job in entry] for entry in answer.entries]

    def settle(self, *rows: tuple[str, Action, int], consumer: str = "c", **how: Any) -> list[str]:
        """Rows of job, action, delay in ms; each names the delivery that is held now."""
        held = self.dump().deliveries(consumer)
        settlements = [
            Settlement(id, held[id].number if id in held else "0", action, delay, **how)
            for id, action, delay in rows
        ]
        return list(self.run(self.store.settle(consumer, settlements)))

    def beat(self, watched_ms: int = 0) -> float | None:
        return self.run(self.store.beat(watched_ms=watched_ms))

    def lapse(self) -> None:
        """The consumer's lease runs out while somebody keeps beating."""
        for _ in range(2):
            self.clock.advance(LEASE // 2)
            self.beat()

    # ── looking ─────────────────────────────────────────────────────────────────────────────

    def dump(self) -> audit.Dump:
        return audit.read(self._bytes, self.keys)

    def clean(self) -> audit.Dump:
        """The keys, in which no invariant is broken."""
        dump = self.dump()
        assert not audit.findings(dump)
        return dump

    def zset(self, kind: str, argument: str | None = None) -> dict[str, float]:
        rows: Any = self.raw.zrange(self.key(kind, argument), 0, -1, withscores=True)
        return dict(rows)

    def hash(self, kind: str, argument: str | None = None) -> dict[str, str]:
        fields: Any = self.raw.hgetall(self.key(kind, argument))
        return dict(fields)

    def bell(self) -> int:
        length: Any = self.raw.llen(self.keys.wake)
        return int(length)

    def silence(self) -> None:
        self.raw.delete(self.keys.wake)


@pytest.fixture
def desk(server: Server, queue_name: str) -> Iterator[Desk]:
    desk = Desk(server, queue_name)
    yield desk
    desk.client.close()


@pytest.fixture
def look(desk: Desk) -> Inspector:
    return desk.look
