"""One job: its life in times, its errors, its arguments, and why it is not running."""

from __future__ import annotations

from typing import Any

from rota.values import names
from rota.web.access import Refused
from rota.web.pages.explained import as_seen
from rota.web.payload import shown_payload, with_shown_error
from rota.web.view import View


async def facts(view: View) -> dict[str, Any]:
    id = names.job_id(view.text("id"))
    handle = view.queue.job(id)
    info = await handle.info()
    if info is None or not view.sees(info.lane):  # the same answer: whether it exists is others'
        raise Refused(404, f"There is no job {id}: never enqueued, done, or deleted.")
    explained = await handle.explain()
    return {
        "job": with_shown_error(info, view.site.redact),
        "explained": explained and as_seen(view, explained, info),
        "payload": shown_payload(info.task, info.payload, view.site.redact),
    }
