"""What can be changed: each module has the actions of one noun, which answer what they did."""

from __future__ import annotations

from rota.web.actions import dead, doctor, job, lane, queue, sequence, worker
from rota.web.actions.action import Action

ACTIONS: dict[str, Action] = {
    **queue.ACTIONS,
    **lane.ACTIONS,
    **sequence.ACTIONS,
    **job.ACTIONS,
    **dead.ACTIONS,
    **worker.ACTIONS,
    **doctor.ACTIONS,
}

__all__ = ["ACTIONS", "Action"]
