"""Changes of workers, each named by one of its consumers."""

from __future__ import annotations

from rota.web.actions.action import Action, Form, confirmed, count
from rota.web.view import View

GONE = "That worker has no lease any more."


async def quiet(view: View, form: Form) -> str:
    asked = await view.queue.quiet(form.get("id", ""))
    return "It is asked to claim nothing more; what it holds goes on." if asked else GONE


async def stop(view: View, form: Form) -> str:
    confirmed(form)
    asked = await view.queue.stop(form.get("id", ""))
    return "It is asked to stop, as a SIGTERM would." if asked else GONE


async def evict(view: View, form: Form) -> str:
    confirmed(form)
    given_back = await view.queue.evict(form.get("id", ""))
    return GONE if given_back is None else f"Its lease has ended; {count(given_back)} given back."


ACTIONS = {
    "worker.quiet": Action(quiet, "id"),
    "worker.stop": Action(stop, "id"),
    "worker.evict": Action(evict, "id"),
}
