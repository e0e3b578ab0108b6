"""One request's view: who asks, of which queue, and what may be shown."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request

from rota.queue import Queue
from rota.web.access import HttpError, Visitor
from rota.web.site import Board, Site
from rota.web.watch import Watch


@dataclass(frozen=True, slots=True)
class View:
    """`allowed`: the actions this page may offer to this visitor; `base`: where the dashboard is
    mounted."""

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
