"""The doctor's rounds: long, so they go on in the background, one at a time."""

from __future__ import annotations

import time

from rota.errors import RotaError
from rota.web.actions.action import Action, Form, confirmed
from rota.web.site import Checkup
from rota.web.view import View

BEGUN = "The doctor is looking; this page shows what it found when it is done."


async def examine(view: View, form: Form) -> str:
    return _begin(view, repair=False)


async def repair(view: View, form: Form) -> str:
    confirmed(form)
    return _begin(view, repair=True)


def _begin(view: View, *, repair: bool) -> str:
    checkup = view.board.checkup
    if checkup.running is not None:
        return "The doctor is looking already."
    checkup.running = "begins"
    view.site.spawn(_examine(view, checkup, repair=repair))
    return BEGUN


async def _examine(view: View, checkup: Checkup, *, repair: bool) -> None:
    queue = view.queue

    def told(step: str, number: int, of: int) -> None:
        checkup.running = f"{step} ({number + 1} of {of})"

    try:
        checkup.report = await queue.link.run(
            queue.link.doctor.examine(repair=repair, park_s=queue.station.beat, progress=told)
        )
        checkup.at, checkup.failed = time.time(), None
    except (RotaError, OSError) as error:
        checkup.failed = str(error)
    finally:
        checkup.running = None


ACTIONS = {"doctor.examine": Action(examine), "doctor.repair": Action(repair)}
