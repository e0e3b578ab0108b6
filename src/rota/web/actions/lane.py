"""Changes of a lane."""

from __future__ import annotations

from rota.errors import ConfigError
from rota.values.limits import Rate
from rota.web.actions.action import (
    Action,
    Form,
    confirmed,
    count,
    end_of,
    lane_in_scope,
    lane_of,
    number_of,
    reason_of,
    whole_of,
)
from rota.web.view import View


async def pause(view: View, form: Form) -> str:
    name = lane_of(form)
    await view.queue.lane(name).pause(
        reason=reason_of(form), by=view.visitor.who, until=end_of(form)
    )
    return f"Lane {name} is paused; what is in flight goes on."


async def resume(view: View, form: Form) -> str:
    name = lane_of(form)
    was = await view.queue.lane(name).resume()
    return f"Lane {name} goes on." if was else f"Lane {name} was not paused."


async def set_limits(view: View, form: Form) -> str:
    """The one limit whose field the form has; empty removes it."""
    name = lane_of(form)
    lane = view.queue.lane(name)
    if "ceiling" in form:
        await lane.set(ceiling=whole_of(form, "ceiling"))
    elif "weight" in form:
        await lane.set(weight=number_of(form, "weight"))
    elif "backlog" in form:
        await lane.set(backlog=whole_of(form, "backlog"))
    elif "rate" in form:
        await lane.set(rate=_rate(form))
    elif "template" in form:
        await lane.set(template=form["template"].strip() or None)
    else:
        raise ConfigError("expected a limit: ceiling, weight, rate, backlog or template")
    return f"The limits of lane {name} are changed."


def _rate(form: Form) -> Rate | None:
    n = number_of(form, "rate")
    if n is None:
        return None
    per = number_of(form, "per")
    return Rate(n, per=1 if per is None else per, burst=whole_of(form, "burst"))


async def block(view: View, form: Form) -> str:
    name = lane_of(form)
    seconds = number_of(form, "seconds")
    if seconds is None:
        raise ConfigError("seconds: expected a number, given nothing")
    await view.queue.lane(name).block(seconds, reason=reason_of(form), by=view.visitor.who)
    return f"Lane {name} is blocked for {seconds:g} s."


async def unblock(view: View, form: Form) -> str:
    name = lane_of(form)
    was = await view.queue.lane(name).unblock()
    return f"Lane {name} is not blocked any more." if was else f"Lane {name} was not blocked."


async def cancel(view: View, form: Form) -> str:
    name = lane_of(form)
    confirmed(form)
    done = await view.queue.lane(name).cancel(by=view.visitor.who)
    return f"Lane {name}: {count(done.removed)} deleted, {count(done.asked)} asked to stop."


ACTIONS = {
    name: Action(run, "name", lane_in_scope)
    for name, run in {
        "lane.pause": pause,
        "lane.resume": resume,
        "lane.set": set_limits,
        "lane.block": block,
        "lane.unblock": unblock,
        "lane.cancel": cancel,
    }.items()
}
