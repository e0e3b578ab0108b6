"""What an action is, and how the fields of its form are read."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from rota.errors import ConfigError
from rota.values import names
from rota.values.names import shown
from rota.web.access import Refused
from rota.web.view import View

Form = Mapping[str, str]


async def whole_queue_only(view: View, target: str | None) -> None:
    raise Refused(403, "That concerns more lanes than yours.")


async def lane_in_scope(view: View, target: str | None) -> None:
    view.must_see(target, "lane")


async def job_in_scope(view: View, target: str | None) -> None:
    info = await view.queue.job(target or "").info()
    view.must_see(info.lane if info else None, "job")


@dataclass(frozen=True, slots=True)
class Action:
    """`subject`: the field that names what is changed. `check_scope` raises Refused where who is
    kept to some lanes must not do it."""

    run: Callable[[View, Form], Coroutine[Any, Any, str]]
    subject: str | None = None
    check_scope: Callable[[View, str | None], Awaitable[None]] = whole_queue_only

    @property
    def is_scoped(self) -> bool:
        """Whether it may be done by who is kept to some lanes."""
        return self.check_scope is not whole_queue_only


def lane_of(form: Form) -> str:
    return names.lane_name(form.get("name", ""))


def reason_of(form: Form) -> str | None:
    return form.get("reason", "").strip() or None


def end_of(form: Form) -> float | None:
    """The instant so many minutes from now; None where the field is empty."""
    minutes = number_of(form, "minutes")
    return None if minutes is None else time.time() + minutes * 60


def number_of(form: Form, field: str) -> float | None:
    """None where the field is empty. Raises ConfigError."""
    text = form.get(field, "").strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{field}: expected a number, given {shown(text)}") from None


def whole_of(form: Form, field: str) -> int | None:
    text = form.get(field, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{field}: expected a whole number, given {shown(text)}") from None


def confirmed(form: Form) -> None:
    """What destroys has a box to tick."""
    if form.get("sure") != "yes":
        raise Refused(400, "Tick the box that says you are sure.")


def count(n: int, noun: str = "job") -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
