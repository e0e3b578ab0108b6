"""A dashboard on a port of its own, for who needs a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import rota
from rota.web import dashboard
from rota.web.server import Server, address_of, listen, serve
from rota.web.site import Site


@asynccontextmanager
async def served(queue: rota.Queue, **options: Any) -> AsyncIterator[tuple[str, Site]]:
    """Gives the address of the queue's pages."""
    app = dashboard(queue, **options)
    server, listening = Server(app), listen("127.0.0.1", 0)
    base = address_of(listening)
    running = asyncio.create_task(serve(server, listening))
    try:
        yield f"{base}q/{queue.name}/", app.state.site
    finally:
        server.stop()
        await running
