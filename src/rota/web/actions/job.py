"""Changes of a job."""

from __future__ import annotations

from rota.web.actions.action import Action, Form, confirmed, job_in_scope
from rota.web.view import View

RETRIED = {
    "ok": "Job {} may run now.",
    "none": "There is no job {} any more.",
    "running": "Job {} is running.",
    "waiting": "Job {} waits for its turn: it needs no help.",
    "unreadable": "Job {} cannot be put back: its record is damaged.",
}
CANCELLED = {
    "cancelled": "Job {} is deleted.",
    "asked": "Job {} is in flight: its worker is asked to stop it.",
    "dead": "Job {} is dead already: discard it to delete it.",
    "none": "There is no job {} any more.",
}


async def retry(view: View, form: Form) -> str:
    id = form.get("id", "")
    return RETRIED[await view.queue.job(id).retry()].format(id)


async def cancel(view: View, form: Form) -> str:
    id = form.get("id", "")
    confirmed(form)
    return CANCELLED[await view.queue.job(id).cancel(by=view.visitor.who)].format(id)


async def discard(view: View, form: Form) -> str:
    id = form.get("id", "")
    confirmed(form)
    (answer,) = await view.queue.dead.discard(id)
    return f"Job {id} is deleted." if answer == "ok" else f"Job {id} is not among the dead."


ACTIONS = {
    name: Action(run, "id", job_in_scope)
    for name, run in {"job.retry": retry, "job.cancel": cancel, "job.discard": discard}.items()
}
