"""Why something waits, as far as a visitor may know."""

from __future__ import annotations

from dataclasses import replace

from rota.explain import Explanation, Reason
from rota.web.view import View

OTHERS = {
    "turn": ("It waits for its turn.", "Its turn, which comes with more free slots"),
    "queue_at_ceiling": ("The whole queue is at its ceiling.", "The end of any job that runs"),
}
"""What is told, without their figures, of reasons that lie with other lanes."""


def as_seen(view: View, explained: Explanation) -> Explanation:
    """Who is kept to some lanes learns no figures of the others."""
    if view.scope is None:
        return explained
    reasons = tuple(_without_others(reason) for reason in explained.reasons)
    return replace(explained, reasons=reasons, expected_turn=None)


def _without_others(reason: Reason) -> Reason:
    if reason.kind not in OTHERS:
        return reason
    text, frees = OTHERS[reason.kind]
    return replace(reason, text=text, frees=frees, detail={})
