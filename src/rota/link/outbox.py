"""Single jobs on their way: those enqueued while a call is in flight travel together in the next.

A lone caller waits for nobody. With many callers on one event loop the calls grow with the load: a
round trip then carries as many jobs as were enqueued during the one before. Nobody waits for longer
than one call may take, whatever the call in flight does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING

from rota.errors import Unavailable
from rota.store import chunks, refusal
from rota.values.jobspec import JobSpec
from rota.values.model import Enqueued

if TYPE_CHECKING:
    from rota.link import Link


class _Letter:
    """A job, who waits for its outcome, and until when."""

    __slots__ = ("answer", "due", "spec")

    def __init__(self, spec: JobSpec, answer: asyncio.Future[Enqueued], due: float) -> None:
        self.spec = spec
        self.answer = answer
        self.due = due


class Outbox:
    """The jobs that are enqueued one by one on one event loop, for one queue."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: list[_Letter] = []
        self._travelling: list[_Letter] = []
        self._round: asyncio.Task[None] | None = None
        self._in_flight = False
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, spec: JobSpec) -> Enqueued:
        """Stores one job; raises LaneFull, LaneBroken, and what a call may raise. A caller that is
        cancelled before its job travels takes it along; after that the job may exist."""
        if self._in_flight:
            loop = asyncio.get_running_loop()
            letter = _Letter(spec, loop.create_future(), loop.time() + self._link.timeout)
            self._waiting.append(letter)
            if self._timer is None:
                self._timer = loop.call_at(letter.due, self._expire)
            return await letter.answer
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
            self._travelling = [one for one in self._waiting if not one.answer.done()]
            self._waiting = []
            for letters in _calls(self._travelling):
                await self._send(letters)

    def _expire(self) -> None:
        """Who has waited for as long as a call may take is told so. One timer serves all."""
        self._timer, loop = None, asyncio.get_running_loop()
        for letter in [*self._travelling, *self._waiting]:  # the first to come is the first due
            if letter.due > loop.time():
                self._timer = loop.call_at(letter.due, self._expire)
                return
            where, waited = self._link.target.display, self._link.timeout
            _fail(letter, Unavailable(f"{where} has not answered within {waited:g} s"))

    def _is_over(self, task: asyncio.Task[None]) -> None:
        self._round = None
        if task.cancelled():  # the loop is ending
            for letter in [*self._travelling, *self._waiting]:
                letter.answer.cancel()
            self._waiting = []
        self._travelling = []
        self._go_on()

    async def _send(self, letters: list[_Letter]) -> None:
        try:
            left = letters[-1].due - asyncio.get_running_loop().time()  # nobody waits for longer
            outcomes = await self._link.run(
                self._link.store.enqueue([letter.spec for letter in letters], within=left)
            )
        except Exception as error:
            for letter in letters:
                _fail(letter, copy(error))
            return
        for letter, done in zip(letters, outcomes, strict=True):
            if refused := refusal(letter.spec, done):
                _fail(letter, refused)
            elif not letter.answer.done():
                letter.answer.set_result(done)


def _calls(letters: list[_Letter]) -> Iterator[list[_Letter]]:
    """Letters in calls of bounded size, in order."""
    start = 0
    for specs in chunks(letter.spec for letter in letters):
        yield letters[start : start + len(specs)]
        start += len(specs)


def _fail(letter: _Letter, error: Exception) -> None:
    if not letter.answer.done():
        letter.answer.set_exception(error)
