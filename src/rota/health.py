"""Health: what was looked at, and whether it is well. The same for probes, faces and code.

    worker.health()     of a worker in this process, from what it knows; asks nobody
    check(queue)        of a queue from outside, by one call to its server
    signs_of_life(queue)  whether its workers do what there is to do; may take a second

All give a `Health`. `healthy` is what a readiness probe asks, `alive` what a liveness probe
does: a process that is not `alive` is to be replaced.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rota.errors import RotaError
from rota.queue import Queue, SyncQueue
from rota.values.model import QueueInfo

PATIENCE_S = 2.0
"""How long a server may take to answer."""
SILENT_S = 60.0
"""How long nobody may keep the queue's time while consumers have leases."""
OVERDUE_S = 30.0
"""How late what has fallen due may be brought back."""
LOOK_AGAIN_S = 1.0
"""Work that could be taken, and free hands, must not stand side by side so long."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `vital`: where it is not `ok`, the process is to be replaced.

    `text` says what was seen, for people; it may be empty where all is well.
    """

    name: str
    ok: bool
    text: str = ""
    vital: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """All that was looked at."""

    checks: tuple[Check, ...]

    @property
    def healthy(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def alive(self) -> bool:
        return all(check.ok for check in self.checks if check.vital)

    @property
    def problems(self) -> list[Check]:
        return [check for check in self.checks if not check.ok]

    def with_others(self, others: Health) -> Health:
        return Health(self.checks + others.checks)


def check(queue: Queue | SyncQueue, *, workers: bool = False) -> Health:
    """Whether the queue's server answers within two seconds; with `workers` also whether someone
    is there to do what waits. Blocks, and never raises for an outage.

    A connection is opened for it and closed; who asks again and again gives what `probe(queue)`
    made. In an event loop: `await asyncio.to_thread(check, queue)`.
    """
    asked = probe(queue) if isinstance(queue, Queue) else queue
    began = time.monotonic()
    try:
        info = asked.info()
    except (RotaError, OSError) as error:
        return Health((Check(f"{queue.name}: server", False, str(error)),))
    finally:
        if asked is not queue:
            asked.close()
    took = (time.monotonic() - began) * 1000
    checks = [Check(f"{queue.name}: server", True, f"answered in {took:.1f} ms")]
    if workers:
        text = f"{info.waiting} jobs wait, {info.consumers} consumers"
        checks.append(Check(f"{queue.name}: workers", not info.unattended, text))
    return Health(tuple(checks))


def signs_of_life(queue: Queue) -> Health:
    """Whether workers come when the bell calls them, keep the queue's time, and bring back what has
    fallen due. Blocks, looks a second time after a second where work stands ready and nobody has
    any, and never raises for an outage."""
    link = queue.link
    try:
        first = last = link.run_sync(link.inspector.queue())
        if _could_work(first):
            time.sleep(LOOK_AGAIN_S)
            last = link.run_sync(link.inspector.queue())
    except (RotaError, OSError) as error:
        return Health((Check(f"{queue.name}: server", False, str(error)),))
    stands = _could_work(first) and _could_work(last) and first.served == last.served
    silent = last.consumers > 0 and last.beat_age is not None and last.beat_age > SILENT_S
    late = (last.consumers > 0 or not _stands_still(last)) and last.overdue > OVERDUE_S
    bell = "work is ready, consumers hold nothing, and none came to take it"
    beat = f"nobody has kept the queue's time for {last.beat_age or 0:.0f} s"
    due = f"what fell due {last.overdue:.0f} s ago was not brought back"
    return Health(
        (
            Check(f"{queue.name}: doorbell", not stands, bell if stands else ""),
            Check(f"{queue.name}: beat", not silent, beat if silent else ""),
            Check(f"{queue.name}: due", not late, due if late else ""),
        )
    )


def _stands_still(info: QueueInfo) -> bool:
    return info.paused or info.sealed or info.ceiling == 0


def _could_work(info: QueueInfo) -> bool:
    """Work is ready, nothing runs, and there are consumers to do it."""
    idle = info.consumers > 0 and not info.permits
    return info.lanes_ready > 0 and idle and not _stands_still(info)


def probe(queue: Queue) -> SyncQueue:
    """The queue for `check`: with a connection of its own, and little patience; close it."""
    return queue.apart(timeout=PATIENCE_S, resend=False)
