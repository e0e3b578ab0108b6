"""How the parts of one queue reach its server: its keys, its clients, its operations."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from rota.connection import AsyncClient, Bounds, Client, Target, parse_url
from rota.embedded import has_run
from rota.errors import QueueClosed
from rota.script.keys import Keys
from rota.script.loader import LIBRARY, Library, Operation
from rota.store import Store
from rota.store.inspector import Inspector
from rota.values import config
from rota.values.telling import Logger

T = TypeVar("T")
logger = Logger("rota")

DEFAULT_DIRECTORY = ".rota"


class Link:
    """One queue's way to its server.

    The server is settled at the first use: the given URL, else ROTA_URL, else an embedded server
    in `.rota` of the directory where the link was made, which one WARNING names.
    """

    library: Library = LIBRARY
    """The scripts its server runs."""

    _of_all: ClassVar[Target | None] = None

    def __init__(
        self,
        keys: Keys,
        url: str | None = None,
        *,
        default_ceiling: int | None = None,
        timeout: float = config.TIMEOUT_S,
    ) -> None:
        self.keys = keys
        self.timeout = timeout
        self._default_ceiling = default_ceiling
        self.store = Store(keys)
        self.inspector = Inspector(keys)
        self._target = None if url is None else parse_url(url)
        self._directory = Path.cwd() if url is None else Path()
        self._bounds = Bounds(timeout)
        self._size: int | None = None
        self._async_client: AsyncClient | None = None
        self._client: Client | None = None

    @property
    def target(self) -> Target:
        if Link._of_all is not None:
            return Link._of_all
        if self._target is None:
            self._target = self._prospect()
            if not os.environ.get("ROTA_URL"):
                logger.warning(
                    "no server configured: using an embedded one in %s "
                    "(set url= or ROTA_URL to choose another)",
                    self._directory / DEFAULT_DIRECTORY,
                )
        return self._target

    def _prospect(self) -> Target:
        """What the target would be, without settling it."""
        if (found := Link._of_all or self._target) is not None:
            return found
        url = os.environ.get("ROTA_URL") or f"embedded:{self._directory / DEFAULT_DIRECTORY}"
        return parse_url(url, directory=self._directory)

    @property
    def unstarted(self) -> Path | None:
        """Where the first use would start an embedded server that has never run, else None."""
        target = self._prospect()
        if target.kind == "embedded" and not has_run(target.directory):
            return target.directory
        return None

    def use(self, url: str) -> bool:
        """Settles the server; False where the link has been used already, with another."""
        wanted = parse_url(url)
        if self._async_client is None and self._client is None:
            self._target = wanted
        return self.target == wanted

    @staticmethod
    @contextmanager
    def all_to(url: str) -> Iterator[None]:
        """All links of this process lead there meanwhile, whatever they were given."""
        before, Link._of_all = Link._of_all, parse_url(url)
        try:
            yield
        finally:
            Link._of_all = before

    @property
    def async_client(self) -> AsyncClient:
        client, target = self._async_client, self.target
        if client is None or client.target is not target:
            client = self._async_client = AsyncClient(
                target, library=self.library, size=self._size, bounds=self._bounds
            )
        return client

    @property
    def client(self) -> Client:
        client, target = self._client, self.target
        if client is None or client.target is not target:
            client = self._client = Client(
                target, library=self.library, size=self._size, bounds=self._bounds
            )
        return client

    def run(self, operation: Operation[T], *, announce: bool = True) -> Coroutine[Any, Any, T]:
        """Carries an operation out on the running loop."""
        return self.async_client.run(self._first(operation) if announce else operation)

    def run_sync(self, operation: Operation[T], *, announce: bool = True) -> T:
        """Carries an operation out, blocking."""
        return self.client.run(self._first(operation) if announce else operation)

    def _first(self, operation: Operation[T]) -> Operation[T]:
        """The default ceiling given in code is told to the server with the first operation."""
        ceiling = self._default_ceiling
        return operation if ceiling is None else self._announce(ceiling, operation)

    def _announce(self, ceiling: int, operation: Operation[T]) -> Operation[T]:
        """Between an operation's own checks and its first call: bad input is refused before
        anything is written."""
        try:
            request = next(operation)
            with suppress(QueueClosed):  # who may not write to a queue may read it, and end jobs
                yield from self.store.declare_ceiling(ceiling)
                self._default_ceiling = None
            while True:
                try:
                    reply = yield request
                except BaseException as error:
                    request = operation.throw(error)
                else:
                    request = operation.send(reply)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            operation.close()

    def apart(self, *, timeout: float, resend: bool = True) -> Link:
        """The same way with a connection of its own, for what must not wait for a free one. It
        announces nothing."""
        _ = self.target  # settles it: said once, and the same for both
        own = copy(self)
        own._async_client = own._client = own._default_ceiling = None
        own.timeout, own._size, own._bounds = timeout, 1, Bounds(timeout, resend=resend)
        return own

    async def close(self) -> None:
        """Lets go of the connections of the running loop, and of those of blocking callers."""
        if self._async_client is not None:
            await self._async_client.close()
        self.close_sync()

    def close_sync(self) -> None:
        if self._client is not None:
            self._client.close()
