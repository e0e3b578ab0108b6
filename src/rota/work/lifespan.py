"""A queue's lifespan in a worker: in a task of its own, so that it can be given up."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from rota.values.telling import Logger

logger = Logger("rota.worker")

CANCEL_S = 0.3
"""How long one that was cancelled may take to end; then it is left to itself."""


class Lifespan:
    """Entered and left in one task, in `context`, where the variables it sets stay."""

    def __init__(
        self, queue: str, manager: AbstractAsyncContextManager[Any], context: contextvars.Context
    ) -> None:
        self._queue = queue
        self._manager = manager
        self._leaving = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._state: asyncio.Future[object] = loop.create_future()
        self.task = loop.create_task(self._live(), context=context)
        """Ends when it is left; before only by a failure of its own."""

    async def _live(self) -> None:
        async with self._manager as state:
            self._state.set_result(state)
            await self._leaving.wait()

    async def enter(self) -> object:
        """What it yields. If this is cancelled, so is what comes before its `yield`."""
        try:
            first: list[asyncio.Future[Any]] = [self.task, self._state]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._cancel()
            raise
        if not self._state.done():
            self.check()
        return self._state.result()

    def check(self) -> None:
        """Raises what has ended it, if it has ended."""
        if self.task.done():
            if self.task.cancelled():
                raise RuntimeError(f"the lifespan of queue {self._queue} was cancelled")
            self.task.result()

    async def leave(self, grace: float, hurrying: asyncio.Event) -> None:
        """Lets it end. After `grace` seconds, or in a hurry, it is cancelled, and that is said."""
        if self.task.done():
            return  # by a failure, which was told when it came
        self._leaving.set()
        try:
            await until([self.task], grace, hurrying)
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        if not self.task.done():
            logger.warning("queue %s: its lifespan does not end: it is cancelled", self._queue)
            await self._cancel()
        elif not self.task.cancelled():
            self.task.result()

    async def _cancel(self) -> None:
        self._leaving.set()  # if it comes to its `yield` all the same, it ends there
        self.task.cancel()
        await asyncio.wait([self.task], timeout=CANCEL_S)
        if not self.task.done():
            logger.warning(
                "queue %s: its lifespan ignores being cancelled: it is left to itself", self._queue
            )
        elif not self.task.cancelled() and (error := self.task.exception()) is not None:
            logger.warning("queue %s: its lifespan failed", self._queue, exc_info=error)


async def until(
    tasks: Sequence[asyncio.Future[Any]], patience: float | None, event: asyncio.Event
) -> None:
    """Until the tasks have ended, so many seconds have passed, or the event is set."""
    ended: asyncio.Future[Any] = asyncio.gather(*tasks, return_exceptions=True)
    happened: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([ended, happened], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    finally:
        happened.cancel()
