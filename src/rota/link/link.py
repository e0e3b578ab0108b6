"""How the parts of one queue reach its server: its keys, its clients, its operations."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rota.connection import AsyncClient, Bounds, Client, Target, parse_url
from rota.doctor import Doctor
from rota.errors import QueueClosed
from rota.explain import Explainer
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

    instead: ClassVar[Target | None] = None
    """In tests: the server of all links, whatever they were given. See `rota.testing.rota_url`."""

    def __init__(
        self,
        keys: Keys,
        url: str | None = None,
        *,
        library: Library = LIBRARY,
        default_ceiling: int | None = None,
        timeout: float = config.TIMEOUT_S,
    ) -> None:
        self.keys = keys
        self.timeout = timeout
        self._default_ceiling = default_ceiling
        self.store = Store(keys)
        self.inspector = Inspector(keys)
        self.doctor = Doctor(keys)
        self.explainer = Explainer(keys)
        self._library = library
        self._target = None if url is None else parse_url(url)
        self._directory = Path.cwd() if url is None else Path()
        self._async_client: AsyncClient | None = None
        self._client: Client | None = None

    @property
    def target(self) -> Target:
        if Link.instead is not None:
            return Link.instead
        if self._target is None:
            self._target = self.prospect
            if not os.environ.get("ROTA_URL"):
                logger.warning(
                    "no server configured: using an embedded one in %s "
                    "(set url= or ROTA_URL to choose another)",
                    self._directory / DEFAULT_DIRECTORY,
                )
        return self._target

    @property
    def prospect(self) -> Target:
        """What the target would be, without settling it."""
        if (found := Link.instead or self._target) is not None:
            return found
        url = os.environ.get("ROTA_URL") or f"embedded:{self._directory / DEFAULT_DIRECTORY}"
        return parse_url(url, directory=self._directory)

    def use(self, url: str) -> None:
        """Settles the server; a link that has been used keeps the one it has."""
        if self._async_client is None and self._client is None:
            self._target = parse_url(url)

    @property
    def async_client(self) -> AsyncClient:
        client, target = self._async_client, self.target
        if client is None or client.target is not target:
            client = self._async_client = AsyncClient(
                target, library=self._library, bounds=Bounds(self.timeout)
            )
        return client

    @property
    def client(self) -> Client:
        client, target = self._client, self.target
        if client is None or client.target is not target:
            client = self._client = Client(
                target, library=self._library, bounds=Bounds(self.timeout)
            )
        return client

    def run(self, operation: Operation[T]) -> Coroutine[Any, Any, T]:
        """Carries an operation out on the running loop."""
        return self.async_client.run(self._first(operation))

    def run_sync(self, operation: Operation[T]) -> T:
        """Carries an operation out, blocking."""
        return self.client.run(self._first(operation))

    def _first(self, operation: Operation[T]) -> Operation[T]:
        """The default ceiling given in code is told to the server with the first operation."""
        if self._default_ceiling is None:
            return operation
        return self._announce(operation)

    def _announce(self, operation: Operation[T]) -> Operation[T]:
        if self._default_ceiling is not None:
            with suppress(QueueClosed):  # who may not write to a queue may read it, and end jobs
                yield from self.store.declare_ceiling(self._default_ceiling)
                self._default_ceiling = None
        return (yield from operation)

    def own_async_client(self, *, reply_timeout: float) -> AsyncClient:
        """A client with a connection of its own, for what must not wait for a free one."""
        return AsyncClient(self.target, library=self._library, size=1, bounds=Bounds(reply_timeout))

    def own_client(self, *, reply_timeout: float, resend: bool) -> Client:
        bounds = Bounds(reply_timeout, resend=resend)
        return Client(self.target, library=self._library, size=1, bounds=bounds)

    async def close(self) -> None:
        """Lets go of the connections of the running loop, and of those of blocking callers."""
        if self._async_client is not None:
            await self._async_client.close()
        self.close_sync()

    def close_sync(self) -> None:
        if self._client is not None:
            self._client.close()
