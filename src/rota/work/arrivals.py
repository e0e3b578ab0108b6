"""What exchanges bring to a worker: read and started while the next exchange is on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rota.consume.deliveries import Deliveries, Unread
from rota.work.entries import Entries
from rota.work.settling import Settling
from rota.work.slots import Slots


class Arrivals:
    """One answer at a time. `wake` is called when what it brought is under way."""

    def __init__(
        self,
        deliveries: Deliveries,
        entries: Entries,
        settling: Settling,
        slots: Slots,
        *,
        wake: Callable[[], None],
    ) -> None:
        self._deliveries = deliveries
        self._entries = entries
        self._settling = settling
        self._slots = slots
        self._wake = wake
        self._opening: asyncio.Task[None] | None = None

    async def take(self, unread: Unread) -> None:
        """Opens it in a task of its own, which gets its turn when who called waits for the next
        answer: the server is at work then, and that takes about as long as reading and running."""
        await self.opened()
        self._opening = asyncio.get_running_loop().create_task(self._open(unread))

    async def _open(self, unread: Unread) -> None:
        try:
            taken = self._deliveries.read(unread)
            self._settling.refuse(taken.refused)
            self._slots.give_back(len(unread.reply.entries) - len(taken.entries))
            self._entries.start(taken.entries)
        finally:
            self._wake()

    def are_open(self) -> bool:
        """Whether all that has come is under way; raises what went wrong with it."""
        if self._opening is not None and self._opening.done():
            self._opening.result()
            self._opening = None
        return self._opening is None

    async def opened(self) -> None:
        """Waits until all that has come is under way; raises what went wrong with it."""
        if self._opening is not None:
            await self._opening
