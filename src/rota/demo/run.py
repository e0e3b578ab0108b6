"""The demo at work: feeds the load, runs the worker, keeps the book of what really happened."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

from rota.demo.load import CEILING, FLOODER, SLOTS, TENANTS, Arrival
from rota.queue import Queue
from rota.values.model import LaneInfo, QueueInfo
from rota.work.supervisor import told_to_stop
from rota.worker import Worker

TICK_S = 0.05
LOOK_S = 0.25
GRACE_S = 1.0

End = Literal["finished", "stopped", "out of time"]


class Run(NamedTuple):
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
    waits: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Of each run, by tenant."""
    elapsed: float = 0.0
    lanes: list[LaneInfo] = field(default_factory=list)
    """As they stood at the last look."""

    def ready(self, id: str) -> float:
        """When the job could have started: sent, and its delay over."""
        return self.sent[id] + self.arrivals[id].delay

    def ran(self, id: str, run: Run) -> None:
        self.runs[id].append(run)
        self.waits[self.arrivals[id].tenant].append(max(0.0, run.start - self.ready(id)))

    def waits_of(self, tenants: list[str]) -> list[float]:
        return [wait for tenant in tenants for wait in self.waits[tenant]]

    def median_wait(self, tenants: list[str]) -> float | None:
        waits = self.waits_of(tenants)
        return median(waits) if waits else None

    def waiting(self, tenants: list[str]) -> int:
        return sum(lane.waiting for lane in self.lanes if lane.name in tenants)

    def running(self, tenants: list[str]) -> int:
        return sum(lane.running for lane in self.lanes if lane.name in tenants)


async def play(
    load: list[Arrival], url: str, *, limit: float, show: Callable[[Book], None]
) -> tuple[Book, End, QueueInfo]:
    """Runs the demo until all is done, a signal comes, or `limit` seconds have passed.

    Returns its book, how it ended, and what the queue held then.
    """
    book = Book({arrival.id: arrival for arrival in load})
    queue = Queue("demo", url=url)

    @queue.task(lane_from="tenant", id_from="job")
    async def serve(tenant: str, job: str, run: float) -> None:
        start = time.monotonic()
        book.busy += 1
        try:
            await asyncio.sleep(run)
            book.ran(job, Run(start, time.monotonic()))
        finally:
            book.busy -= 1

    specs = [
        serve.options(ordering_key=one.key, delay=one.delay or None).spec(
            one.tenant, one.id, one.run
        )
        for one in load
    ]
    stop = asyncio.Event()
    await queue.lane(FLOODER).set(ceiling=CEILING)
    worker = Worker(queue, concurrency=SLOTS, grace=GRACE_S)
    working = asyncio.create_task(worker.run())
    began = time.monotonic()

    async def feed() -> None:
        """Sends each job at its time, the flood at once."""
        at = 0
        while at < len(load) and not stop.is_set():
            now = time.monotonic()
            due = sum(one.at <= now - began for one in load[at : at + 1000])
            if due:
                batch = specs[at : at + due]
                book.sent.update((spec.id, now) for spec in batch)
                await queue.enqueue_many(batch)
                at += due
            else:
                await _pause(stop, TICK_S)

    feeding = asyncio.create_task(feed())

    async def watch() -> End:
        while True:
            fed = feeding.done()
            info = await queue.info()
            book.lanes = await queue.lanes(len(TENANTS))
            book.elapsed = time.monotonic() - began
            show(book)
            if fed and not (info.waiting or info.running or info.delayed):
                return "finished"
            if stop.is_set() or working.done():
                return "stopped"
            if book.elapsed >= limit:
                return "out of time"
            await _pause(stop, LOOK_S)

    try:
        with told_to_stop(stop.set):
            end = await watch()
    finally:
        stop.set()
        worker.stop()
        try:
            await asyncio.gather(working, feeding)
            info = await queue.info()
        finally:
            await queue.close()
    return book, end, info


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
