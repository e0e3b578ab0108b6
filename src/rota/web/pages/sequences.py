"""Sequences: what each waits behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rota.values.failure import headline
from rota.values.listing import SequenceInfo, SequencesPage
from rota.web.pages.listing import ROWS, asked, following
from rota.web.payload import shown_error
from rota.web.view import View


async def facts(view: View) -> dict[str, Any]:
    wanted = asked(view)
    page = await view.queue.sequences(lane=wanted.lane, cursor=wanted.cursor, limit=ROWS)
    sequences = [await _as_seen(view, one) for one in page.sequences]
    page = SequencesPage(sequences, following(view, page.cursor))
    return {"wanted": wanted, "page_of": page, "limit": ROWS}


async def _as_seen(view: View, sequence: SequenceInfo) -> SequenceInfo:
    """Why it is out may be the error of the job that stops it."""
    redact = view.site.redact
    if redact is None or not sequence.reason:
        return sequence
    head = await view.queue.job(sequence.head).info() if sequence.head else None
    task, payload = (head.task, head.payload) if head else ("", b"")
    return replace(sequence, reason=shown_error(task, payload, headline(sequence.reason), redact))
