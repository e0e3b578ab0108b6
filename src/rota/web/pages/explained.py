"""Why something waits, as far as a visitor may know."""

from __future__ import annotations

from dataclasses import replace

from rota.explain import Explanation, Reason
from rota.explain.words import headline_of
from rota.values.model import JobInfo
from rota.web.payload import Redact, shown_error
from rota.web.view import View

OTHERS = {
    "turn": ("It waits for its turn.", "Its turn, which comes with more free slots"),
    "queue_at_ceiling": ("The whole queue is at its ceiling.", "The end of any job that runs"),
}
"""What is told, without their figures, of reasons that lie with other lanes."""


def as_seen(view: View, explained: Explanation, job: JobInfo | None = None) -> Explanation:
    """The error of `job` is masked as the hook says; who is kept to some lanes learns no figures of
    the others."""
    if job is not None and (redact := view.site.redact) is not None:
        reasons = tuple(_masked(reason, job, redact) for reason in explained.reasons)
        explained = replace(explained, reasons=reasons)
    if view.scope is not None:
        reasons = tuple(_without_others(reason) for reason in explained.reasons)
        explained = replace(explained, reasons=reasons, expected_turn=None)
    return explained


def _masked(reason: Reason, job: JobInfo, redact: Redact) -> Reason:
    error = reason.detail.get("error")
    said = headline_of(error or "")
    if not said:
        return reason
    shown = headline_of(shown_error(job.task, job.payload, str(error), redact))
    text = reason.text.replace(said, shown) if said in reason.text else shown
    return replace(reason, text=text, detail={})


def _without_others(reason: Reason) -> Reason:
    if reason.kind not in OTHERS:
        return reason
    text, frees = OTHERS[reason.kind]
    return replace(reason, text=text, frees=frees, detail={})
