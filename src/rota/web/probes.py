"""For machines: is the process there, does it reach its servers, its figures."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from rota.errors import RotaError
from rota.web.access import HttpError
from rota.web.site import Board, Site

PATIENCE_S = 2.0
MISSING = "There are no metrics here: pip install 'rota[metrics]' brings them."


def routes(site: Site) -> list[Route]:
    """`/healthz` and `/readyz` say nothing but yes or no, so they ask for no password."""

    async def alive(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        answers = await asyncio.gather(*(_answers(board) for board in site.boards.values()))
        if all(answers):
            return PlainTextResponse("ok\n")
        return PlainTextResponse("a server does not answer\n", status_code=503)

    async def metrics(request: Request) -> Response:
        await _must_read_all(site, request)
        try:
            from rota.metrics import collector, exposition
        except ModuleNotFoundError:
            raise HttpError(404, MISSING) from None
        if site.collector is None:
            site.collector = collector(*(board.queue for board in site.boards.values()))
        text = await asyncio.to_thread(exposition, site.collector)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return [Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", metrics)]


async def _answers(board: Board) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await board.queue.info()
    except (RotaError, OSError, TimeoutError):
        return False
    return True


async def _must_read_all(site: Site, request: Request) -> None:
    visitor = await site.access.enter(request)
    if visitor.scope is not None:
        raise HttpError(403, "Metrics concern more lanes than yours.")
    for board in site.boards.values():
        if not await site.access.may(request, visitor, "read", board.queue.name):
            raise HttpError(403, "You may not see these queues.")
