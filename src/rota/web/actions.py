"""What can be changed, by its name; an action answers what it did. (How one is asked for and
allowed: `acting`.)"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from rota.errors import ConfigError, RotaError
from rota.lane import Lane
from rota.values import names
from rota.values.limits import Rate
from rota.values.names import shown
from rota.web.access import HttpError
from rota.web.site import Checkup, View

T = TypeVar("T")
MOST_IDS = 1000


class Form(dict[str, str]):
    """The fields of a form, '' where one is missing. What cannot be read is a ConfigError."""

    def __missing__(self, field: str) -> str:
        return ""

    def text(self, field: str) -> str | None:
        """None where the field is empty."""
        return self[field].strip() or None

    def number(self, field: str) -> float | None:
        return self._read(field, float, "a number")

    def whole(self, field: str) -> int | None:
        return self._read(field, int, "a whole number")

    def rate(self, field: str) -> Rate | None:
        n = self.number(field)
        if n is None:
            return None
        per = self.number("per")
        return Rate(n, per=1 if per is None else per, burst=self.whole("burst"))

    def _read(self, field: str, read: Callable[[str], T], what: str) -> T | None:
        text = self.text(field)
        try:
            return None if text is None else read(text)
        except ValueError:
            raise ConfigError(f"{field}: expected {what}, given {shown(text)}") from None

    @property
    def end(self) -> float | None:
        """The instant so many minutes from now; None where the field is empty."""
        minutes = self.number("minutes")
        return None if minutes is None else time.time() + minutes * 60

    @property
    def ids(self) -> list[str]:
        ids = [line for line in self["ids"].splitlines() if line]
        if not 1 <= len(ids) <= MOST_IDS:
            raise ConfigError(f"ids: expected 1 to {MOST_IDS:,} of them, given {len(ids):,}")
        return ids


Run = Callable[[View, Form], Coroutine[Any, Any, str]]


# ── who is kept to some lanes ───────────────────────────────────────────────────────────────────


async def whole_queue_only(view: View, form: Form) -> None:
    raise HttpError(403, "That concerns more lanes than yours.")


async def lane_in_scope(view: View, form: Form) -> None:
    view.must_see(form["name"], "lane")


async def lane_given(view: View, form: Form) -> None:
    if not form["lane"]:
        await whole_queue_only(view, form)
    view.must_see(form["lane"], "lane")


async def job_in_scope(view: View, form: Form) -> None:
    await _must_see_jobs(view, [form["id"]])


async def jobs_in_scope(view: View, form: Form) -> None:
    await _must_see_jobs(view, form.ids)


async def _must_see_jobs(view: View, ids: list[str]) -> None:
    for id in ids:
        info = await view.queue.job(id).info()
        view.must_see(info.lane if info else None, "job")


@dataclass(frozen=True, slots=True)
class Action:
    """`subject`: the field that names what is changed. `check_scope` raises HttpError where who is
    kept to some lanes must not do it. `destroys`: its form has a box to tick."""

    run: Run
    subject: str | None
    check_scope: Callable[[View, Form], Awaitable[None]]
    destroys: bool

    @property
    def is_scoped(self) -> bool:
        """Whether it may be done by who is kept to some lanes."""
        return self.check_scope is not whole_queue_only


ACTIONS: dict[str, Action] = {}


def action(
    name: str,
    subject: str | None = None,
    check_scope: Callable[[View, Form], Awaitable[None]] = whole_queue_only,
    *,
    destroys: bool = False,
) -> Callable[[Run], Run]:
    """Makes an action of a function."""

    def add(run: Run) -> Run:
        ACTIONS[name] = Action(run, subject, check_scope, destroys)
        return run

    return add


def count(n: int) -> str:
    return f"{n:,} job" if n == 1 else f"{n:,} jobs"


# ── the queue ───────────────────────────────────────────────────────────────────────────────────


@action("queue.pause")
async def pause_queue(view: View, form: Form) -> str:
    await view.queue.pause(reason=form.text("reason"), by=view.visitor.who, until=form.end)
    return "The queue is paused: nothing more is handed out; what is in flight goes on."


@action("queue.resume")
async def resume_queue(view: View, form: Form) -> str:
    was = await view.queue.resume()
    return "The queue goes on." if was else "The queue was not paused."


@action("queue.set")
async def set_queue(view: View, form: Form) -> str:
    if "ceiling" in form:
        what, ceiling = "The queue's ceiling", form.whole("ceiling")
        await view.queue.set(ceiling=ceiling)
    elif "default_ceiling" in form:
        what, ceiling = "The ceiling of lanes by default", form.whole("default_ceiling")
        await view.queue.set(default_ceiling=ceiling)
    else:
        raise ConfigError("expected ceiling or default_ceiling, given neither")
    return f"{what} is {'removed' if ceiling is None else f'{ceiling:,}'}."


# ── lanes and sequences ─────────────────────────────────────────────────────────────────────────


LIMITS: dict[str, Callable[[Form, str], Any]] = {
    "ceiling": Form.whole,
    "weight": Form.number,
    "backlog": Form.whole,
    "rate": Form.rate,
    "template": Form.text,
}


def lane_of(view: View, form: Form) -> Lane:
    return view.queue.lane(names.lane_name(form["name"]))


@action("lane.pause", "name", lane_in_scope)
async def pause_lane(view: View, form: Form) -> str:
    lane = lane_of(view, form)
    await lane.pause(reason=form.text("reason"), by=view.visitor.who, until=form.end)
    return f"Lane {lane.name} is paused; what is in flight goes on."


@action("lane.resume", "name", lane_in_scope)
async def resume_lane(view: View, form: Form) -> str:
    lane = lane_of(view, form)
    was = await lane.resume()
    return f"Lane {lane.name} goes on." if was else f"Lane {lane.name} was not paused."


@action("lane.set", "name", lane_in_scope)
async def set_lane(view: View, form: Form) -> str:
    """The one limit whose field the form has; empty removes it."""
    lane = lane_of(view, form)
    for limit, read in LIMITS.items():
        if limit in form:
            await lane.set(**{limit: read(form, limit)})
            return f"The limits of lane {lane.name} are changed."
    raise ConfigError("expected a limit: ceiling, weight, rate, backlog or template")


@action("lane.block", "name", lane_in_scope)
async def block_lane(view: View, form: Form) -> str:
    lane, seconds = lane_of(view, form), form.number("seconds")
    if seconds is None:
        raise ConfigError("seconds: expected a number, given nothing")
    await lane.block(seconds, reason=form.text("reason"), by=view.visitor.who)
    return f"Lane {lane.name} is blocked for {seconds:g} s."


@action("lane.unblock", "name", lane_in_scope)
async def unblock_lane(view: View, form: Form) -> str:
    lane = lane_of(view, form)
    was = await lane.unblock()
    return f"Lane {lane.name} {'is not blocked any more' if was else 'was not blocked'}."


@action("lane.cancel", "name", lane_in_scope, destroys=True)
async def cancel_lane(view: View, form: Form) -> str:
    lane = lane_of(view, form)
    done = await lane.cancel(by=view.visitor.who)
    return f"Lane {lane.name}: {count(done.removed)} deleted, {count(done.asked)} asked to stop."


@action("sequence.skip", "name", lane_in_scope, destroys=True)
async def skip_in_sequence(view: View, form: Form) -> str:
    id = await lane_of(view, form).skip(form["key"] or None, by=view.visitor.who)
    return "Nothing stopped it." if id is None else f"It goes on past job {id}."


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────

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


@action("job.retry", "id", job_in_scope)
async def retry_job(view: View, form: Form) -> str:
    id = form["id"]
    return RETRIED[await view.queue.job(id).retry()].format(id)


@action("job.cancel", "id", job_in_scope, destroys=True)
async def cancel_job(view: View, form: Form) -> str:
    id = form["id"]
    return CANCELLED[await view.queue.job(id).cancel(by=view.visitor.who)].format(id)


@action("job.discard", "id", job_in_scope, destroys=True)
async def discard_job(view: View, form: Form) -> str:
    id = form["id"]
    (answer,) = await view.queue.dead.discard(id)
    return f"Job {id} is deleted." if answer == "ok" else f"Job {id} is not among the dead."


@action("dead.replay", "ids", jobs_in_scope)
async def replay_group(view: View, form: Form) -> str:
    answers = await view.queue.dead.replay(*form.ids)
    return f"{count(answers.count('ok'))} put back in their places, of {len(answers):,}."


@action("dead.discard", "ids", jobs_in_scope, destroys=True)
async def discard_group(view: View, form: Form) -> str:
    answers = await view.queue.dead.discard(*form.ids)
    return f"{count(answers.count('ok'))} deleted, of {len(answers):,}."


@action("dead.replay_all", "lane", lane_given, destroys=True)
async def replay_all(view: View, form: Form) -> str:
    done = await view.queue.dead.replay_all(lane=form["lane"] or None, task=form["task"] or None)
    return f"{count(done)} put back in their places."


@action("dead.discard_all", "lane", lane_given, destroys=True)
async def discard_all(view: View, form: Form) -> str:
    done = await view.queue.dead.discard_all(lane=form["lane"] or None, task=form["task"] or None)
    return f"{count(done)} deleted."


# ── workers, each named by one of its consumers ─────────────────────────────────────────────────

GONE = "That worker has no lease any more."


@action("worker.quiet", "id")
async def quiet_worker(view: View, form: Form) -> str:
    asked = await view.queue.quiet(form["id"])
    return "It is asked to claim nothing more; what it holds goes on." if asked else GONE


@action("worker.stop", "id", destroys=True)
async def stop_worker(view: View, form: Form) -> str:
    asked = await view.queue.stop(form["id"])
    return "It is asked to stop, as a SIGTERM would." if asked else GONE


@action("worker.evict", "id", destroys=True)
async def evict_worker(view: View, form: Form) -> str:
    given_back = await view.queue.evict(form["id"])
    return GONE if given_back is None else f"Its lease has ended; {count(given_back)} given back."


# ── the doctor: its rounds are long, so they go on in the background, one at a time ─────────────


@action("doctor.examine")
async def examine(view: View, form: Form) -> str:
    return _begin(view, repair=False)


@action("doctor.repair", destroys=True)
async def repair(view: View, form: Form) -> str:
    return _begin(view, repair=True)


def _begin(view: View, *, repair: bool) -> str:
    checkup = view.board.checkup
    if checkup.running is not None:
        return "The doctor is looking already."
    checkup.running = "begins"
    view.site.spawn(_examine(view, checkup, repair=repair))
    return "The doctor is looking; this page shows what it found when it is done."


async def _examine(view: View, checkup: Checkup, *, repair: bool) -> None:
    queue = view.queue

    def told(step: str, number: int, of: int) -> None:
        checkup.running = f"{step} ({number + 1} of {of})"

    try:
        checkup.report = await queue.doctor(repair, progress=told)
        checkup.at, checkup.failed = time.time(), None
    except (RotaError, OSError) as error:
        checkup.failed = str(error)
    finally:
        checkup.running = None
