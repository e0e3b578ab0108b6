"""Single jobs on their way: those enqueued while a call is in flight travel together in the next.

A lone caller waits for nobody. With many callers on one event loop the calls grow with the load: a
round trip then carries as many jobs as were enqueued during the one before. Nobody waits for longer
than one call may take, whatever the call in flight does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

from rota.errors import Unavailable
from rota.link.link import Link
from rota.store import chunks, refusal
from rota.values.jobspec import JobSpec
from rota.values.model import Enqueued


@dataclass(eq=False, slots=True)
class _Caller:
    """Who waits for the outcome of a job, and until when."""

    spec: JobSpec
    outcome: asyncio.Future[Enqueued]
    due: float


class Outbox:
    """The jobs that are enqueued one by one on one event loop, for one queue."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: list[_Caller] = []
        self._travelling: list[_Caller] = []
        self._round: asyncio.Task[None] | None = None
        self._in_flight = False
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, spec: JobSpec) -> Enqueued:
        """Stores one job; raises LaneFull, LaneBroken, and what a call may raise. A caller that is
        cancelled before its job travels takes it along; after that the job may exist."""
        if self._in_flight:
            loop = asyncio.get_running_loop()
            caller = _Caller(spec, loop.create_future(), loop.time() + self._link.timeout)
            self._waiting.append(caller)
            if self._timer is None:
                self._timer = loop.call_at(caller.due, self._expire)
            return await caller.outcome
        self._in_flight = True
        try:
            return await self._link.run(self._link.store.enqueue_one(spec))
        finally:
            self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            self._round = asyncio.get_running_loop().create_task(self._send_waiting())
            self._round.add_done_callback(self._is_over)
        else:
            self._in_flight = False

    async def _send_waiting(self) -> None:
        while self._waiting:
            self._travelling = [caller for caller in self._waiting if not caller.outcome.done()]
            self._waiting = []
            for callers in _calls(self._travelling):
                await self._send(callers)

    def _expire(self) -> None:
        """Who has waited for as long as a call may take is told so. One timer serves all."""
        self._timer, loop = None, asyncio.get_running_loop()
        for caller in [*self._travelling, *self._waiting]:  # the first to come is the first due
            if caller.due > loop.time():
                self._timer = loop.call_at(caller.due, self._expire)
                return
            where, waited = self._link.target.display, self._link.timeout
            _fail(caller, Unavailable(f"{where} has not answered within {waited:g} s"))

    def _is_over(self, task: asyncio.Task[None]) -> None:
        self._round = None
        if task.cancelled():  # the loop is ending
            for caller in [*self._travelling, *self._waiting]:
                caller.outcome.cancel()
            self._waiting = []
        self._travelling = []
        self._go_on()

    async def _send(self, callers: list[_Caller]) -> None:
        try:
            left = callers[-1].due - asyncio.get_running_loop().time()  # nobody waits for longer
            outcomes = await self._link.run(
                self._link.store.enqueue([caller.spec for caller in callers], within=left)
            )
        except Exception as error:
            for caller in callers:
                _fail(caller, copy(error))
            return
        for caller, done in zip(callers, outcomes, strict=True):
            if refused := refusal(caller.spec, done):
                _fail(caller, refused)
            elif not caller.outcome.done():
                caller.outcome.set_result(done)


def _calls(callers: list[_Caller]) -> Iterator[list[_Caller]]:
    """Callers, for calls of bounded size, in order."""
    start = 0
    for specs in chunks(caller.spec for caller in callers):
        yield callers[start : start + len(specs)]
        start += len(specs)


def _fail(caller: _Caller, error: Exception) -> None:
    if not caller.outcome.done():
        caller.outcome.set_exception(error)
