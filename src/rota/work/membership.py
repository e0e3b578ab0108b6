"""A worker's membership in one queue: joining, its lease by both clocks, losing it, leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rota.consume.deliveries import Deliveries
from rota.queue import Queue
from rota.values.listing import Order
from rota.values.model import Job

LEAVE_S = 1.5
"""How long a stop tries to tell the server that it leaves; then its lease has to run out."""


class Membership:
    """Holds a lease under the identity of `deliveries`.

    In the loop that joined are called: `on_lost`, once for each lease that is lost; `on_gone` with
    jobs that are not in its hands any more; `on_asked` with deliveries that are to be cancelled;
    `on_order` with what was asked of the process.
    """

    def __init__(
        self,
        queue: Queue,
        deliveries: Deliveries,
        *,
        lease: float,
        on_lost: Callable[[], None],
        on_gone: Callable[[list[Job]], None],
        on_asked: Callable[[list[tuple[str, str]]], None],
        on_order: Callable[[Order], None],
    ) -> None:
        self.lost = False
        # Taken once: the station looks at each access whether it is still in its process.
        self.keeper = queue.station.keeper
        self._link = queue.link
        self._deliveries = deliveries
        self._lease = lease
        self._on_lost = on_lost
        self._on_gone = on_gone
        self._on_asked = on_asked
        self._on_order = on_order

    async def join(self) -> None:
        """Under a fresh identity; raises Unavailable where the server cannot be reached."""
        since, seconds = await self._link.run(self._deliveries.join())
        loop, id = asyncio.get_running_loop(), self._deliveries.id
        self.lost = False

        def lose(lost: str) -> None:
            if lost == self._deliveries.id:  # else it has started anew already
                self.lose()

        def on_lost(lost: str) -> None:
            loop.call_soon_threadsafe(lose, lost)

        def on_gone(jobs: list[Job]) -> None:
            loop.call_soon_threadsafe(self._on_gone, jobs)

        def on_asked(jobs: list[tuple[str, str]]) -> None:
            loop.call_soon_threadsafe(self._on_asked, jobs)

        def on_order(word: Order) -> None:
            loop.call_soon_threadsafe(self._on_order, word)

        self.keeper.add(
            id,
            self._lease,
            on_lost,
            on_gone,
            on_asked,
            on_order,
            hold=self._deliveries,
            since=since,
            seconds=seconds,
        )
        await self._link.run(self._deliveries.leave_former())

    def is_over(self) -> bool:
        """Also by this process's own clock: it may have stood still since it sent its claim."""
        if not self.lost and not self.keeper.is_alive(self._deliveries.id):
            self.lose()
        return self.lost

    def lose(self) -> None:
        """The jobs in hand are others' now."""
        if not self.lost:
            self.lost = True
            self._on_lost()

    def let_go(self) -> None:
        """The lease is renewed no more."""
        self.keeper.remove(self._deliveries.id)

    async def leave(self) -> int:
        """Ends the lease; returns how many jobs went back unfinished.

        Raises TimeoutError where the server does not answer.
        """
        self.let_go()
        async with asyncio.timeout(LEAVE_S):
            return await self._link.run(self._deliveries.leave())
