"""Templates: everything is escaped, what is not printable is shown, numbers are exact, times are
readable and precise.

A value that comes back with a form is written `{{ value | e }}`: it is not shown, but meant.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rota.values.names import visible
from rota.values.timing import duration
from rota.web.payload import one_line

DASH = "–"


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("rota.web"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for put in (number, figure, percent, span, moment, ago, one_line, points):
        made.filters[put.__name__] = put
    return made


def render(template: str, context: dict[str, Any]) -> str:
    return environment().get_template(template).render(context)


def _shown(value: Any) -> Any:
    """What a template puts on a page; what is `Markup` went through here, or is meant as it is."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value, keep="\n\t")
    return value


def number(value: int | None) -> str:
    """A whole number, all its digits."""
    return DASH if value is None else f"{value:,}"


def figure(value: float | None) -> str:
    """A measured number, three digits of it."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(part: float | None) -> str:
    return DASH if part is None else f"{100 * part:.1f} %"


def span(seconds: float | None) -> str:
    return DASH if seconds is None else duration(max(0.0, seconds))


def moment(unix: float | None) -> str | Markup:
    """An instant: how far away it is, with the instant itself for whoever points at it."""
    if not unix:
        return DASH
    away = unix - time.time()
    words = f"in {duration(away)}" if away > 0 else f"{duration(-away)} ago"
    try:
        stamp = datetime.fromtimestamp(unix, UTC)
    except (ValueError, OverflowError, OSError):
        return escape(f"at {unix}")
    exact = stamp.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        stamp.isoformat(timespec="seconds"), exact, words
    )


def ago(unix: float) -> str:
    return duration(max(0.0, time.time() - unix))


def points(values: list[float], width: int = 200, height: int = 40) -> str:
    """The points of an SVG line through the values, from the left to the right."""
    if not values:
        return ""
    top = max(max(values), 1e-9)
    step = width / max(len(values) - 1, 1)
    return " ".join(
        f"{i * step:.1f},{height - value / top * (height - 2) - 1:.1f}"
        for i, value in enumerate(values)
    )
