"""What reads a queue, bounded. Each method is an operation without I/O."""

from __future__ import annotations

import math
import struct
import time
from dataclasses import dataclass

from rota.errors import Unavailable
from rota.script import stubs
from rota.script.keys import ANY_CONFIG, CATALOGUE, Keys, of_config
from rota.script.loader import Ask, Operation, Scan
from rota.store.census import CensusTaker
from rota.store.jobs import Jobs
from rota.store.lanes import Lanes
from rota.store.shares import Fairness
from rota.values import config
from rota.values.model import ConsumerInfo, QueueInfo
from rota.values.names import text_of

PAGE = 200
MAX_CONSUMERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Pulse:
    """Signs of life: what could be done now, and whether anyone does it. Times in seconds.

    `served`: jobs handed out so far in the running minute and the one before; `beat_age`: since
    someone kept the queue's time, None: nobody ever did; `overdue`: for how long something has
    been due, 0: nothing is.
    """

    ready: int
    permits: int
    consumers: int
    paused: bool
    served: int
    beat_age: float | None
    overdue: float

    @property
    def could_work(self) -> bool:
        """Work is ready, nothing runs, and there are consumers to do it."""
        return bool(self.ready and self.consumers and not self.permits and not self.paused)


class Inspector(Jobs, Lanes, Fairness, CensusTaker):
    """The read side of one queue."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def queue(self) -> Operation[QueueInfo]:
        return (yield from stubs.queue_info(self.keys))

    def exists(self) -> Operation[bool]:
        """Whether anything of the queue is on the server: settings, workers, a job at any time."""
        names = [kind.name for kind in CATALOGUE if kind.parameter is None]
        (count,) = yield Ask(self.keys, (("EXISTS", *map(self.keys.key, names)),))
        if isinstance(count, Exception):
            raise Unavailable(f"the server refused to look for the queue: {count}") from count
        return bool(count)

    def pulse(self) -> Operation[Pulse]:
        """Signs of life, of two moments close together."""
        info = yield from stubs.queue_info(self.keys)
        key = self.keys.key
        now, beat, due, *figures = yield Ask(
            self.keys,
            (
                ("TIME",),
                ("HGET", self.keys.config, "beat"),
                ("ZRANGE", key("scheduled"), "0", "0", "WITHSCORES"),
                *(("HGET", key("figures", str(minute)), "") for minute in _last_minutes()),
            ),
        )
        at = int(now[0]) + int(now[1]) / 1e6
        return Pulse(
            ready=info.lanes_ready,
            permits=info.permits,
            consumers=info.consumers,
            paused=info.paused or info.ceiling == 0,
            served=sum(_jobs_in(text) for text in figures),
            beat_age=None if beat is None else max(0.0, at - int(beat) / 1000),
            overdue=max(0.0, at - float(due[1]) / 1000) if due else 0.0,
        )

    def consumers(self, limit: int) -> Operation[list[ConsumerInfo]]:
        """The first `limit` consumers found, those whose jobs are being taken back included."""
        config.whole(limit, 1, MAX_CONSUMERS, "limit")
        found: dict[str, ConsumerInfo] = {}
        cursor = "0"
        while True:
            cursor, page = yield from stubs.consumers_page(self.keys, cursor=cursor, limit=PAGE)
            found.update((one.id, one) for one in page)
            if cursor == "0" or len(found) >= limit:
                return list(found.values())[:limit]


def find_queues(cursor: str) -> Operation[tuple[str, list[Keys]]]:
    """A page of a look through all keys of a server for queues; each comes once or more often.

    The cursor is '' at the start and after the last page.
    """
    after, keys = yield Scan(ANY_CONFIG, cursor)
    found = (of_config(text_of(key)) for key in keys)
    return after, [queue for queue in found if queue is not None]


def _jobs_in(figures: bytes | None) -> int:
    """The first of the doubles that `lua/lib/figures.lua` keeps; damage counts as nothing."""
    if figures is None or len(figures) < 8:
        return 0
    (jobs,) = struct.unpack_from("<d", figures)
    return int(jobs) if math.isfinite(jobs) else 0


def _last_minutes() -> tuple[int, ...]:
    """By this machine's clock, with one more for a server's that goes before."""
    minute = int(time.time() // 60)
    return minute - 1, minute, minute + 1
