"""What the tests of failures share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import rota
from rota.values import model
from rota.values.ids import new_nonce
from rota.values.model import Exchanged
from rota.worker import Worker
from tests.support.clock import Clock
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE
from tests.support.waiting import eventually_async


@dataclass(frozen=True, slots=True)
class Timed:
    """A queue and its time."""

    queue: rota.Queue
    clock: Clock


@asynccontextmanager
async def working(
    *queues: rota.Queue, slots: int = 10, lease: float = LEASE, grace: float = 2, **settings: Any
) -> AsyncIterator[Worker]:
    worker = Worker(queues, concurrency=slots, lease=lease, grace=grace, **settings)
    run = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await asyncio.sleep(0)
        worker.stop()
        await run


def stats(server: Server, queue: rota.Queue) -> dict[str, int]:
    """The queue's totals; cheap enough to ask for all the time."""
    found: Any = server.raw().hgetall(queue.link.keys.key("stats"))
    return {name: int(value) for name, value in found.items()}


async def until_done(
    server: Server, queue: rota.Queue, n: int, timeout: float = IN_TIME, name: str = "completed"
) -> None:
    await eventually_async(
        lambda: stats(server, queue).get(name, 0) >= n,
        f"not {n} jobs {name}",
        timeout=timeout,
    )


def jobs(names: Iterable[str], lane: str = "a", **fields: Any) -> list[rota.JobSpec]:
    """A job per name, which is its id."""
    return [rota.JobSpec(task="work", lane=lane, id=name, **fields) for name in names]


class Hand:
    """A consumer without a heartbeat: its lease ends when nobody renews it. Calls no handler and
    keeps no rules; each method is one operation on the server."""

    def __init__(self, queue: rota.Queue, lease: float = 1.0) -> None:
        self.id = new_nonce()
        self.queue = queue
        self.number = 0
        self._lease_ms = round(lease * 1000)
        self._store = queue.link.store

    async def join(self) -> Hand:
        await self.queue.link.run(self._store.join(self.id, lease_ms=self._lease_ms, name="host:1"))
        return self

    async def exchange(
        self, n: int = 1, *, prefetch: int = 1, done: Iterable[tuple[str, str]] = ()
    ) -> Exchanged:
        self.number += n > 0
        return await self.queue.link.run(
            self._store.exchange(
                self.id,
                number=self.number,
                want=n,
                prefetch=prefetch,
                park=False,
                done=list(done),
            )
        )

    async def claim(self, n: int = 1, *, prefetch: int = 1) -> list[str]:
        """The ids of what it took; their delivery is `str(number)`."""
        reply = await self.exchange(n, prefetch=prefetch)
        return [job.id for entry in reply.entries for job in entry]

    async def settle(self, id: str, action: str, **how: Any) -> str:
        (answer,) = await self.queue.link.run(
            self._store.settle(
                self.id,
                [model.Settlement(id, how.pop("delivery", str(self.number)), action, **how)],  # type: ignore[arg-type]
            )
        )
        return answer

    async def heartbeat(self) -> bool:
        (kept,) = await self.queue.link.run(
            self._store.heartbeat([self.id], lease_ms=self._lease_ms)
        )
        return kept is not None

    async def leave(self) -> int:
        return await self.queue.link.run(self._store.leave(self.id))


async def beat(queue: rota.Queue, *, watched_ms: int = 0) -> None:
    """As a caller that has kept leases for so long: 0 is a newcomer."""
    await queue.link.run(queue.link.store.beat(watched_ms=watched_ms))
