"""One dashboard: its queues, its rules, what it watches; and one request's view of it."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.requests import Request

from rota.doctor import Report
from rota.errors import ConfigError
from rota.queue import Queue
from rota.values.names import shown
from rota.web.access import Access, HttpError, Visitor
from rota.web.bounds import Tally
from rota.web.payload import Redact
from rota.web.watch import Watch

T = TypeVar("T")
MAX_STREAMS = 200
MAX_STREAMS_EACH = 30
MAX_WATCHES = 100
MAX_CURSORS = 10_000
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


@dataclass(slots=True)
class Checkup:
    """What the doctor said last; `running`: it is looking now, at this step."""

    running: str | None = None
    report: Report | None = None
    at: float = 0.0
    failed: str | None = None


@dataclass(slots=True)
class Board:
    """One queue of a dashboard; `slug` names it in addresses."""

    queue: Queue
    slug: str
    watch: Watch
    scoped: dict[frozenset[str], Watch] = field(default_factory=dict)
    checkup: Checkup = field(default_factory=Checkup)

    def watch_of(self, scope: frozenset[str] | None) -> Watch:
        """The watch for those who see these lanes; of many scopes, the oldest is forgotten."""
        if scope is None:
            return self.watch
        found = self.scoped.get(scope)
        if found is None:
            while len(self.scoped) >= MAX_WATCHES:
                self.scoped.pop(next(iter(self.scoped)))
            found = self.scoped[scope] = Watch(self.queue, scope)
        return found


class Site:
    """What the handlers of one dashboard share."""

    def __init__(self, queues: Sequence[Queue], access: Access, redact: Redact | None) -> None:
        if not queues or not all(isinstance(queue, Queue) for queue in queues):
            raise ConfigError(f"dashboard: expected a rota.Queue or several, given {shown(queues)}")
        self.access = access
        self.redact = redact
        self.boards = {board.slug: board for board in _boards(queues)}
        self.streams = Tally()
        self._cursors: dict[str, str] = {}
        self.tasks: set[asyncio.Task[Any]] = set()
        self.collector: Any = None
        """Of metrics, once they have been asked for; their package may be missing."""

    def seal(self, cursor: str) -> str:
        """A word for a cursor, which may name others' jobs, for who must not know them."""
        while len(self._cursors) >= MAX_CURSORS:
            self._cursors.pop(next(iter(self._cursors)))
        word = secrets.token_urlsafe(16)
        self._cursors[word] = cursor
        return word

    def unseal(self, word: str) -> str:
        """Raises ConfigError for a word that was not given, or long ago."""
        try:
            return self._cursors[word]
        except KeyError:
            raise ConfigError(
                f"cursor: expected one that a page gave of late, given {shown(word)}"
            ) from None

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that goes on when the request that began it is answered."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def close(self) -> None:
        """Ends what looks at the queues; open streams end with it."""
        for board in self.boards.values():
            for watch in (board.watch, *board.scoped.values()):
                await watch.close()
        tasks = [task for task in self.tasks if task.get_loop() is asyncio.get_running_loop()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.collector is not None:
            self.collector.close()
            self.collector = None


def _boards(queues: Sequence[Queue]) -> list[Board]:
    """Queues get their own name in addresses, where it is plain and not taken; else a number."""
    made: list[Board] = []
    for number, queue in enumerate(queues, 1):
        taken = {board.slug for board in made}
        plain = _PLAIN.fullmatch(queue.name) is not None and queue.name not in taken
        made.append(Board(queue, queue.name if plain else f"~{number}", Watch(queue)))
    return made


@dataclass(frozen=True, slots=True)
class View:
    """One request's: who asks, of which queue, what may be shown.

    `allowed`: the actions this page may offer to this visitor; `base`: where the dashboard is
    mounted.
    """

    site: Site
    board: Board
    request: Request
    visitor: Visitor
    page: str
    base: str
    allowed: frozenset[str] = frozenset()

    @property
    def queue(self) -> Queue:
        return self.board.queue

    @property
    def scope(self) -> frozenset[str] | None:
        return self.visitor.scope

    @property
    def watch(self) -> Watch:
        return self.board.watch_of(self.scope)

    def may(self, action: str) -> bool:
        return action in self.allowed

    async def is_allowed(self, action: str, name: str | None = None) -> bool:
        access = self.site.access
        return await access.may(self.request, self.visitor, action, self.queue.name, name)

    def sees(self, lane: str | None) -> bool:
        return self.scope is None or (lane is not None and lane in self.scope)

    def must_see(self, lane: str | None, what: str) -> None:
        """What is out of scope is as if it were not there."""
        if not self.sees(lane):
            raise HttpError(404, f"There is no such {what}.")

    def text(self, name: str) -> str:
        """A parameter of the address, '' where it is not given."""
        return self.request.query_params.get(name, "")

    def link(self, page: str = "", /, **given: object) -> str:
        """The address of a page of this queue; empty parameters are left out."""
        query = urlencode({name: str(value) for name, value in given.items() if value})
        return f"{self.base}/q/{self.board.slug}/{page}" + (f"?{query}" if query else "")

    def here(self, **given: object) -> str:
        """The address of this page, with some parameters changed."""
        return self.link(self.page, **(dict(self.request.query_params) | given))
