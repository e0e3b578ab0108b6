"""Changes of a sequence."""

from __future__ import annotations

from rota.web.actions.action import Action, Form, confirmed, lane_in_scope, lane_of
from rota.web.view import View


async def skip(view: View, form: Form) -> str:
    name = lane_of(form)
    confirmed(form)
    id = await view.queue.lane(name).skip(form.get("key") or None, by=view.visitor.who)
    return "Nothing stopped it." if id is None else f"It goes on past job {id}."


ACTIONS = {"sequence.skip": Action(skip, "name", lane_in_scope)}
