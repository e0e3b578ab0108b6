"""The demo at work: feeds the load, runs the worker, keeps the book of what really happened."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from rota.demo.load import CEILING, FLOODER, SLOTS, TENANTS, Arrival
from rota.queue import Queue
from rota.values.jobspec import JobSpec
from rota.values.model import LaneInfo, QueueInfo
from rota.worker import Worker

TICK_S = 0.05
LOOK_S = 0.25
GRACE_S = 1.0

End = Literal["finished", "stopped", "out of time"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job's handler, from start to end, in seconds of the monotonic clock."""

    start: float
    end: float


@dataclass(slots=True)
class Book:
    """What was put in and what ran: written by the feeder and by the handlers themselves."""

    arrivals: dict[str, Arrival]
    sent: dict[str, float] = field(default_factory=dict)
    runs: defaultdict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    busy: int = 0
    """Handlers that run now. The server counts a job as running until it was told of its end."""
    done: Counter[str] = field(default_factory=Counter)
    waits: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def ready(self, id: str) -> float:
        """When the job could have started: sent, and its delay over."""
        return self.sent[id] + self.arrivals[id].delay

    def ran(self, id: str, run: Run) -> None:
        tenant = self.arrivals[id].tenant
        self.runs[id].append(run)
        self.done[tenant] += 1
        self.waits[tenant].append(max(0.0, run.start - self.ready(id)))

    def median_wait(self, *tenants: str) -> float | None:
        waits = [wait for tenant in tenants for wait in self.waits[tenant]]
        return median(waits) if waits else None


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look at the running demo shows."""

    elapsed: float
    lanes: dict[str, LaneInfo]
    book: Book

    def waiting(self, *tenants: str) -> int:
        return sum(self.lanes[name].waiting for name in tenants if name in self.lanes)

    def running(self, *tenants: str) -> int:
        return sum(self.lanes[name].running for name in tenants if name in self.lanes)


class Stage:
    """A queue, its task, and the load made ready: nothing has been sent yet."""

    def __init__(self, load: list[Arrival], url: str) -> None:
        self.book = Book({arrival.id: arrival for arrival in load})
        self.queue = Queue("demo", url=url)

        @self.queue.task(lane_from="tenant", id_from="job")
        async def serve(tenant: str, job: str, run: float) -> None:
            start = time.monotonic()
            self.book.busy += 1
            try:
                await asyncio.sleep(run)
                self.book.ran(job, Run(start, time.monotonic()))
            finally:
                self.book.busy -= 1

        self.specs: list[tuple[float, JobSpec]] = [
            (
                one.at,
                serve.options(ordering_key=one.key, delay=one.delay or None).spec(
                    one.tenant, one.id, one.run
                ),
            )
            for one in load
        ]


async def play(
    stage: Stage, *, limit: float, stop: asyncio.Event, show: Callable[[Sight], None]
) -> tuple[End, float, QueueInfo]:
    """Runs the demo until all is done, `stop` is set, or `limit` seconds have passed.

    Returns how it ended, after how many seconds, and what the queue held then.
    """
    queue = stage.queue
    await queue.lane(FLOODER).set(ceiling=CEILING)
    worker = Worker(queue, concurrency=SLOTS, grace=GRACE_S)
    working = asyncio.create_task(worker.run())
    feeding = asyncio.create_task(_feed(stage, stop))
    began = time.monotonic()
    try:
        end = await _watch(stage, [working, feeding], began + limit, stop, show)
        elapsed = time.monotonic() - began
    finally:
        stop.set()
        worker.stop()
        try:
            await asyncio.gather(working, feeding)
            info = await queue.info()
        finally:
            await queue.close()
    return end, elapsed, info


async def _feed(stage: Stage, stop: asyncio.Event) -> None:
    """Sends each job at its time, the flood at once."""
    began = time.monotonic()
    at = 0
    while at < len(stage.specs) and not stop.is_set():
        now = time.monotonic()
        due = [spec for when, spec in stage.specs[at : at + 1000] if when <= now - began]
        if due:
            stage.book.sent.update((spec.id, now) for spec in due)
            await stage.queue.enqueue_many(due)
            at += len(due)
        else:
            await _pause(stop, TICK_S)


async def _watch(
    stage: Stage,
    tasks: list[asyncio.Task[object]],
    deadline: float,
    stop: asyncio.Event,
    show: Callable[[Sight], None],
) -> End:
    working, feeding = tasks
    began = time.monotonic()
    while True:
        fed = feeding.done()
        info = await stage.queue.info()
        lanes = {lane.name: lane for lane in await stage.queue.lanes(len(TENANTS))}
        show(Sight(time.monotonic() - began, lanes, stage.book))
        if fed and not (info.waiting or info.running or info.delayed):
            return "finished"
        if stop.is_set() or working.done():
            return "stopped"
        if time.monotonic() >= deadline:
            return "out of time"
        await _pause(stop, LOOK_S)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass  # the usual case
