"""Changes of a whole queue."""

from __future__ import annotations

from rota.errors import ConfigError
from rota.web.actions.action import Action, Form, end_of, reason_of, whole_of
from rota.web.view import View


async def pause(view: View, form: Form) -> str:
    await view.queue.pause(reason=reason_of(form), by=view.visitor.who, until=end_of(form))
    return "The queue is paused: nothing more is handed out; what is in flight goes on."


async def resume(view: View, form: Form) -> str:
    was = await view.queue.resume()
    return "The queue goes on." if was else "The queue was not paused."


async def set_limits(view: View, form: Form) -> str:
    if "ceiling" in form:
        ceiling = whole_of(form, "ceiling")
        await view.queue.set(ceiling=ceiling)
        return f"The queue's ceiling is {'removed' if ceiling is None else f'{ceiling:,}'}."
    if "default_ceiling" not in form:
        raise ConfigError("expected ceiling or default_ceiling, given neither")
    ceiling = whole_of(form, "default_ceiling")
    await view.queue.set(default_ceiling=ceiling)
    return f"The ceiling of lanes by default is {'removed' if ceiling is None else f'{ceiling:,}'}."


ACTIONS = {
    "queue.pause": Action(pause),
    "queue.resume": Action(resume),
    "queue.set": Action(set_limits),
}
