"""The dashboard as an ASGI application: routes, and what every request goes through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rota.errors import ConfigError, RotaError
from rota.queue import Queue
from rota.web.access import Access, Authorize, Credentials, HttpError, LaneScope, users_of
from rota.web.acting import SAID, act, said_before
from rota.web.actions import ACTIONS
from rota.web.answers import Headers, base_of
from rota.web.bounds import Bounds
from rota.web.origin import Trust
from rota.web.pages import PAGES
from rota.web.payload import Redact
from rota.web.render import render
from rota.web.site import Board, Site, View
from rota.web.stream import stream

ERRORS: tuple[type[Exception], ...] = (HTTPException, HttpError, RotaError, TimeoutError)
"""What ends in a page that says so."""
PATIENCE_S = 8.0
"""How long a page waits for the server."""
READY_S = 2.0
"""How long a server may take to answer a probe."""


def dashboard(
    queue: Queue,
    *queues: Queue,
    authorize: Authorize | None = None,
    auth: Credentials | None = None,
    read_only: bool | None = None,
    lane_scope: LaneScope | None = None,
    redact: Redact | None = None,
    trusted_hosts: Collection[str] = (),
    trusted_proxies: Collection[str] = (),
) -> Starlette:
    """A dashboard of these queues, to be served or mounted under any prefix, also several times.

    `auth`: (user, password), or {user: password}, asked for as HTTP basic authentication.
    `authorize(request, action, subject)` says yes (True) or no to everything: `read` of each page,
    and each change, such as `lane.pause`; see `rota.web.Subject`. Without both, changes come from
    this machine only. `read_only`: True refuses all changes, False allows them to whoever gets
    here, for a dashboard behind an application's own login. `lane_scope(request)` gives the lanes
    a visitor is kept to, at most 100, or None for all; who is kept to some acts on their jobs, and
    on the lanes themselves (`lane.pause`, `lane.set`) only where `authorize` says so.
    `redact(task, arguments)` gives what to show of a job's arguments, a dict; the text of its error
    is among them as `__error__`. What the hook masks of the arguments is masked in that text too;
    where it fails nothing is shown. Other hooks may be async. Every change is a line of the logger
    `rota.audit`. Raises ConfigError.

    `trusted_hosts`: the names it is reached by, such as "queue.example", "*.example" for all below
    one, or "*". Without `auth` and `authorize` it answers only to these, to addresses and to
    localhost; where given, also with them. `trusted_proxies`: addresses and networks, or "unix", of
    proxies in front; only of these are X-Forwarded-For and X-Forwarded-Host believed. Who comes
    through a proxy, declared or not, is never of this machine.
    """
    access = Access(
        authorize=authorize,
        users=users_of(auth),
        read_only=read_only,
        lane_scope=lane_scope,
        trust=Trust(trusted_hosts, trusted_proxies),
    )
    site = Site([queue, *queues], access, redact)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await site.close()

    app = Starlette(
        routes=_routes(site),
        middleware=[Middleware(Headers), Middleware(Bounds, visitor_of=access.key)],
        exception_handlers=dict.fromkeys(ERRORS, _error),
        lifespan=lifespan,
    )
    app.state.site = site
    app.router.redirect_slashes = False  # it would redirect to whatever host was asked for
    return app


def _routes(site: Site) -> list[Route | Mount]:
    page = partial(_page, site)
    return [
        Route("/", partial(_home, site)),
        Route("/q/{slug}", page),
        Route("/q/{slug}/", page),
        Route("/q/{slug}/events", partial(_events, site)),
        Route("/q/{slug}/do/{action}", partial(_action, site), methods=["POST"]),
        Route("/q/{slug}/{page}", page),
        Route("/healthz", _alive),
        Route("/readyz", partial(_ready, site)),
        Route("/metrics", partial(_metrics, site)),
        Mount("/static", StaticFiles(packages=[("rota.web", "static")])),
    ]


async def _home(site: Site, request: Request) -> Response:
    visitor, base = await site.access.enter(request), base_of(request.scope)
    if len(site.boards) == 1:
        return RedirectResponse(f"{base}/q/{next(iter(site.boards))}/", status_code=307)
    boards = [
        board
        for board in site.boards.values()
        if await site.access.may(request, visitor, "read", board.queue.name)
    ]
    seen = {}
    if visitor.scope is None:
        shown = await asyncio.gather(*(board.watch.now(patience=1) for board in boards))
        seen = {board.slug: snapshot for board, snapshot in zip(boards, shown, strict=True)}
    return HTMLResponse(render("queues.html", {"base": base, "boards": boards, "seen": seen}))


async def _view(site: Site, request: Request, page: str, *, reads: bool = True) -> View:
    """Who asks, of which queue. Raises HttpError, before anything of the queue is read."""
    visitor = await site.access.enter(request)
    board = site.boards.get(request.path_params["slug"])
    if board is None or page not in PAGES:
        raise HttpError(404, "There is no such page.")
    view = View(site, board, request, visitor, page, base_of(request.scope))
    if not reads:
        return view
    if not await view.is_allowed("read"):
        raise HttpError(403, "You may not see this queue.")
    if PAGES[page].whole_queue and visitor.scope is not None:
        raise HttpError(403, "This page concerns more lanes than yours.")
    subject = PAGES[page].subject
    name = view.text(subject) if subject else None
    allowed = [
        action
        for action in PAGES[page].actions
        if (view.scope is None or ACTIONS[action].is_scoped) and await view.is_allowed(action, name)
    ]
    return replace(view, allowed=frozenset(allowed))


async def _page(site: Site, request: Request) -> Response:
    name = request.path_params.get("page", "")
    view = await _view(site, request, name)
    page = PAGES[name]
    async with asyncio.timeout(PATIENCE_S):
        facts = await page.facts(view)
    said = said_before(request)
    common = {"view": view, "page": page, "pages": PAGES, "said": said, "site": site}
    if "seen" not in facts:
        facts["seen"] = await view.watch.now(patience=1)
    response = HTMLResponse(render(f"{name or 'overview'}.html", {**common, **facts}))
    if said:
        response.delete_cookie(SAID, path=f"{view.base}/", httponly=True, samesite="strict")
    return response


async def _events(site: Site, request: Request) -> Response:
    return await stream(await _view(site, request, request.query_params.get("page", "")))


async def _action(site: Site, request: Request) -> Response:
    view = await _view(site, request, "", reads=False)
    return await act(view, request.path_params["action"])


async def _error(request: Request, error: Exception) -> Response:
    status, text, headers = _told(error)
    title = HTTPStatus(status).phrase
    context = {"base": base_of(request.scope), "title": title, "text": text}
    return HTMLResponse(render("error.html", context), status, headers)


def _told(error: Exception) -> tuple[int, str, Mapping[str, str] | None]:
    match error:
        case HttpError():
            return error.status, str(error), error.headers
        case HTTPException():
            return error.status_code, "There is no such page.", error.headers
        case ConfigError():
            return 400, str(error), None
    return 503, f"The server of this queue does not serve: {str(error) or 'it is silent'}", None


# ── for machines ────────────────────────────────────────────────────────────────────────────────


async def _alive(request: Request) -> Response:
    """Asks for no password: it says nothing but yes."""
    return PlainTextResponse("ok\n")


async def _ready(site: Site, request: Request) -> Response:
    """Asks for no password: it says nothing but yes or no."""
    answers = await asyncio.gather(*map(_answers, site.boards.values()))
    if all(answers):
        return PlainTextResponse("ok\n")
    return PlainTextResponse("a server does not answer\n", status_code=503)


async def _answers(board: Board) -> bool:
    try:
        async with asyncio.timeout(READY_S):
            await board.queue.info()
    except (RotaError, OSError, TimeoutError):
        return False
    return True


async def _metrics(site: Site, request: Request) -> Response:
    visitor = await site.access.enter(request)
    if visitor.scope is not None:
        raise HttpError(403, "Metrics concern more lanes than yours.")
    for board in site.boards.values():
        if not await site.access.may(request, visitor, "read", board.queue.name):
            raise HttpError(403, "You may not see these queues.")
    try:
        from rota.metrics import collector, exposition
    except ModuleNotFoundError:
        raise HttpError(
            404, "There are no metrics here: pip install 'rota[metrics]' brings them."
        ) from None
    if site.collector is None:
        site.collector = collector(*(board.queue for board in site.boards.values()))
    text = await asyncio.to_thread(exposition, site.collector)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
