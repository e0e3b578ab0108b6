"""Changes of many dead jobs: those of a group on the page, or all of a lane and task."""

from __future__ import annotations

from rota.errors import ConfigError
from rota.web.access import Refused
from rota.web.actions.action import Action, Form, confirmed, count
from rota.web.view import View

MOST = 1000


async def all_in_scope(view: View, target: str | None) -> None:
    """Each of the jobs named."""
    for id in _named(target or ""):
        info = await view.queue.job(id).info()
        view.must_see(info.lane if info else None, "job")


async def lane_given(view: View, target: str | None) -> None:
    if not target:
        raise Refused(403, "That concerns more lanes than yours.")
    view.must_see(target, "lane")


def _named(text: str) -> list[str]:
    ids = [line for line in text.splitlines() if line]
    if not 1 <= len(ids) <= MOST:
        raise ConfigError(f"ids: expected 1 to {MOST:,} of them, given {len(ids):,}")
    return ids


async def replay(view: View, form: Form) -> str:
    answers = await view.queue.dead.replay(*_named(form.get("ids", "")))
    return f"{count(answers.count('ok'))} put back in their places, of {len(answers):,}."


async def discard(view: View, form: Form) -> str:
    confirmed(form)
    answers = await view.queue.dead.discard(*_named(form.get("ids", "")))
    return f"{count(answers.count('ok'))} deleted, of {len(answers):,}."


async def replay_all(view: View, form: Form) -> str:
    confirmed(form)
    done = await view.queue.dead.replay_all(
        lane=form.get("lane") or None, task=form.get("task") or None
    )
    return f"{count(done)} put back in their places."


async def discard_all(view: View, form: Form) -> str:
    confirmed(form)
    done = await view.queue.dead.discard_all(
        lane=form.get("lane") or None, task=form.get("task") or None
    )
    return f"{count(done)} deleted."


ACTIONS = {
    "dead.replay": Action(replay, "ids", all_in_scope),
    "dead.discard": Action(discard, "ids", all_in_scope),
    "dead.replay_all": Action(replay_all, "lane", lane_given),
    "dead.discard_all": Action(discard_all, "lane", lane_given),
}
