"""Changes: asked for by a form of this site, allowed, carried out, and logged."""

from __future__ import annotations

import asyncio
import base64
import logging
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from rota.errors import RotaError
from rota.values.names import shown
from rota.web.access import HttpError
from rota.web.actions import ACTIONS, Action, Form
from rota.web.site import View

audit = logging.getLogger("rota.audit")

MAX_FORM_BYTES = 1024 * 1024
FORM_S = 20.0
"""How long a form may be on its way."""
PATIENCE_S = 10.0
"""What takes longer goes on while the browser is told so."""
SAID = "rota_said"
SAID_CHARS = 500


async def act(view: View, name: str) -> Response:
    """Carries out one action and leads back to the page it was asked from."""
    form = await read_form(view.request)
    action = ACTIONS.get(name)
    if action is None:
        raise HttpError(404, "There is no such action.")
    subject = form[action.subject] if action.subject else None
    try:
        if not view.site.access.trust.is_same_origin(view.request):
            raise HttpError(403, "Changes are accepted from the pages of this dashboard only.")
        await _check(view, name, action, form, subject)
        said = await _carry_out(view, action, form)
    except (HttpError, RotaError, TimeoutError) as error:
        outcome = "refused" if isinstance(error, HttpError) else "failed"
        _log(view, name, subject, outcome, str(error))
        raise
    _log(view, name, subject, "done", said)
    await view.watch.refresh()
    return _back(view, form["back"], said)


async def read_form(request: Request) -> Form:
    """The fields of a form; of several with one name the last. Raises HttpError where it is large
    or slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HttpError(415, "Changes are forms: application/x-www-form-urlencoded.")
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_FORM_BYTES:
                    raise HttpError(413, f"A form may have {MAX_FORM_BYTES:,} bytes.")
    except ClientDisconnect:
        raise HttpError(400, "The form broke off.") from None
    except TimeoutError:
        raise HttpError(408, f"A form has to be there within {FORM_S:g} s.") from None
    try:
        return Form(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise HttpError(400, "The form cannot be read.") from None


async def _check(view: View, name: str, action: Action, form: Form, subject: str | None) -> None:
    if not view.visitor.may_change:
        why = view.site.access.why_read_only
        raise HttpError(403, f"This dashboard is read-only for you{why}.")
    if view.scope is not None:
        await action.check_scope(view, form)
    if not await view.is_allowed(name, subject):
        raise HttpError(403, f"You may not do that: {name}.")
    if action.destroys and form["sure"] != "yes":
        raise HttpError(400, "Tick the box that says you are sure.")


async def _carry_out(view: View, action: Action, form: Form) -> str:
    task: asyncio.Task[str] = view.site.spawn(action.run(view, form))
    done, _ = await asyncio.wait([task], timeout=PATIENCE_S)
    if not done:
        task.add_done_callback(_log_late)
        return "It is being carried out, page by page; look again in a while."
    return task.result()


def _log_late(task: asyncio.Task[str]) -> None:
    if task.cancelled():
        audit.warning("the last long action was broken off")
    elif task.exception() is not None:
        audit.warning("the last long action failed: %s", task.exception())
    else:
        audit.info("the last long action ended: %s", task.result())


def _log(view: View, name: str, subject: str | None, outcome: str, said: str) -> None:
    """One line; texts of others are quoted, so that they cannot pass for a line of their own."""
    audit.log(
        logging.INFO if outcome == "done" else logging.WARNING,
        "%s by %s from %s: %s queue=%s target=%s: %s",
        outcome,
        shown(view.visitor.who),
        view.visitor.address,
        name,
        view.queue.name,
        shown(subject),
        shown(said),
        extra={
            "who": view.visitor.who,
            "action": name,
            "queue": view.queue.name,
            "target": subject,
            "outcome": outcome,
        },
    )


def _back(view: View, back: str, said: str) -> Response:
    """Only to a page of this queue; a word of another site leads to the overview."""
    home = view.link()
    safe = back.startswith(home) and back.isprintable() and "\\" not in back
    response = RedirectResponse(back if safe else home, status_code=303)
    text = base64.urlsafe_b64encode(said[:SAID_CHARS].encode()).decode()
    response.set_cookie(
        SAID, text, max_age=30, path=f"{view.base}/", httponly=True, samesite="strict"
    )
    return response


def said_before(request: Request) -> str:
    """What the last action said, told once."""
    try:
        return base64.urlsafe_b64decode(request.cookies.get(SAID, "")).decode()[:SAID_CHARS]
    except ValueError:
        return ""
