"""A worker's process: `python -m tests.chaos.child ORDERS`, a JSON of `Orders`."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import rota
from tests.chaos.observer import Notebook
from tests.chaos.steps import Steps, WatchedQueue, die
from tests.chaos.world import sequence_of

UNREACHABLE = 3
"""Exit code where the server could not be reached at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the child is told. `step`: where it dies, at the `after`th time."""

    url: str
    queue: str
    record: str
    mercy: str
    lease: float
    beat: float
    grace: float
    slots: int = 6
    prefetch: int = 4
    step: str = ""
    after: int = 1


class Handlers:
    """The tasks. Each run's start and end are noted, whatever way it ends."""

    def __init__(self, notebook: Notebook, steps: Steps, mercy: Path) -> None:
        self._notebook = notebook
        self._steps = steps
        self._mercy = mercy

    def register(self, queue: rota.Queue) -> None:
        @queue.task(backoff=rota.Backoff(base=0.05, factor=2, max=0.5, jitter=0.2))
        async def work(plan: str) -> None:
            job = rota.current_job()
            with self._noted(job, plan, in_thread=False):
                await self._act(job, plan)

        @queue.task
        def block(plan: str) -> None:
            """Plain functions run in threads, which nothing can stop."""
            job = rota.current_job()
            with self._noted(job, plan, in_thread=True):
                self._steps.reach("handler")
                time.sleep(_chance(job).choice((0.05, 0.1, 0.5, 3)))

    @contextlib.contextmanager
    def _noted(self, job: rota.Job, plan: str, *, in_thread: bool) -> Iterator[None]:
        self._notebook.note(
            "start",
            job=job.id,
            lane=job.lane,
            sequence=sequence_of(job.lane, job.ordering_key),
            delivery=int(job.delivery),
            attempt=job.attempt,
            suspect=job.suspect,
            place=job.place,
            plan=plan,
            in_thread=in_thread,
        )
        outcome = "ok"
        try:
            yield
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            self._notebook.note("end", job=job.id, delivery=int(job.delivery), outcome=outcome)
            self._steps.reach("handled")

    async def _act(self, job: rota.Job, plan: str) -> None:
        chance = _chance(job)
        await asyncio.sleep(chance.uniform(0, 0.02))
        self._steps.reach("handler")
        match plan:
            case "slow":
                await asyncio.sleep(chance.uniform(0.2, 0.8))
            case "flaky" if job.attempt <= 2:
                raise ValueError(f"fails, attempt {job.attempt}")
            case "hopeless":
                raise ValueError("fails always")
            case "timeout" if job.attempt == 1:
                await asyncio.sleep(60)
            case "release" if chance.random() < 0.5:
                raise rota.Release(chance.choice((0, 0.1)))
            case "limited" if chance.random() < 0.5:
                seconds = chance.uniform(0.05, 0.4)
                raise rota.RateLimited(seconds, "sequence" if job.sequence else "lane")
            case "bury" if not self._mercy.exists():
                raise rota.Bury("until an operator looks")
            case "kill":
                self._notebook.note("dies", step="its own job")
                die()
            case "kill-once" if not job.suspect:
                self._notebook.note("dies", step="its own job")
                die()


def _chance(job: rota.Job) -> Random:
    return Random(f"{job.id} {job.delivery}")


async def main(orders: Orders) -> int:
    notebook = Notebook(orders.record)
    steps = Steps(orders.step, orders.after, notebook)
    queue = WatchedQueue(
        orders.queue, url=orders.url, beat=orders.beat, notebook=notebook, steps=steps
    )
    Handlers(notebook, steps, Path(orders.mercy)).register(queue)
    worker = rota.Worker(
        queue,
        concurrency=orders.slots,
        prefetch=orders.prefetch,
        lease=orders.lease,
        grace=orders.grace,
    )

    def stop() -> None:
        notebook.note("told to stop")
        worker.stop()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    notebook.note("begins", step=orders.step, after=orders.after)
    try:
        await worker.run()
    except rota.Unavailable as error:
        notebook.note("cannot begin", error=str(error))
        return UNREACHABLE
    return 0


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    logging.basicConfig(level=logging.ERROR)
    code = asyncio.run(main(Orders(**json.loads(sys.argv[1]))))
    os._exit(code)  # threads of handlers may go on; their jobs were given back
