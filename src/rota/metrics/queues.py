"""The figures of queues, read from their servers: by one exporter for each queue.

Totals come with each scrape, by one call. Figures of lanes come from a census, taken beside the
scrapes: a queue with many lanes needs many calls for it. A census is given with the scrape where
it is done in time, else with the next; how old it is, is told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import get_args

from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from rota import health
from rota.errors import ConfigError, RotaError
from rota.health import Check, Health
from rota.metrics.catalogue import OF_QUEUES, Families, labels_of
from rota.queue import Queue, SyncQueue
from rota.values import config
from rota.values.figures import Census, Others
from rota.values.model import JobState, LaneInfo
from rota.values.telling import Logger
from rota.values.timing import Sparingly

logger = Logger("rota.metrics")

CENSUS_EVERY_S = 10.0
CENSUS_PART = 20
"""A census that took long is taken so many times less often: 5 % of the time, at most."""
CENSUS_PATIENCE_S = 1.0
"""How long a scrape waits for a census."""
CENSUS_REPLY_S = 10.0
EVENTS = (
    "enqueued",
    "completed",
    "retried",
    "released",
    "buried",
    "replayed",
    "discarded",
    "cancelled",
    "purged",
    "moved",
)


class QueueCollector(Collector):
    """What queues tell of themselves, for one registry. Close it to close its connections.

    `top`: so many lanes of each queue, those that wait longest, are told of by name, and all
    others together; at most 100. 0 names none: a name is a label, and labels are kept for long.
    `patience`: how many seconds a scrape waits for a census; where it takes longer, the figures of
    lanes come with a later one.
    Collecting blocks, up to some seconds where a server does not answer; then `rota_queue_up` is
    0. Raises ConfigError.
    """

    def __init__(self, *queues: Queue, top: int = 0, patience: float = CENSUS_PATIENCE_S) -> None:
        if not queues or not all(isinstance(queue, Queue) for queue in queues):
            raise ConfigError(f"collector: expected a rota.Queue or several, given {queues!r}")
        config.whole(top, 0, config.MAX_TOP, "top")
        labels = labels_of(queues)
        self._sources = [_Source(queue, labels[queue], top, patience) for queue in queues]

    def describe(self) -> Iterator[Family]:
        return Families(OF_QUEUES).describe()

    def collect(self) -> Iterator[Family]:
        families = Families(OF_QUEUES)
        for source in self._sources:
            source.read(families)
        return families.give()

    def health(self) -> Health:
        """Of each queue: whether its server answers, and the census is taken."""
        found = Health(())
        for source in self._sources:
            found = found.with_others(source.health())
        return found

    def close(self) -> None:
        for source in self._sources:
            source.close()


collector = QueueCollector


class _Source:
    """One queue: a probe, for scrapes from any thread, one at a time; the last census, and the
    thread that takes the next."""

    def __init__(self, queue: Queue, label: str, top: int, patience: float) -> None:
        self._queue = queue
        self._label = label
        self._top = top
        self._patience = patience
        self._lock = threading.Lock()
        self._probe = health.probe(queue)
        self._own: SyncQueue | None = None
        self._census: Census | None = None
        self._taken = self._took = self._next = 0.0
        self._thread: threading.Thread | None = None
        self._logs = Sparingly()
        self._trouble: str | None = None

    def read(self, families: Families) -> None:
        name = self._label
        with self._lock:
            try:
                info = self._probe.info()
            except (RotaError, OSError) as error:
                families.add("rota_queue_up", 0, name)
                if self._logs.allows("queue", error):
                    logger.warning("queue %s cannot be read: %s", name, error)
                return
            thread = self._take_in_time()
        families.add("rota_queue_up", 1, name)
        for state in get_args(JobState):
            families.add("rota_queue_jobs", getattr(info, state), name, state)
        for event in EVENTS:
            families.add("rota_queue_events_total", info.totals.get(event, 0), name, event)
        families.add("rota_queue_permits", info.permits, name)
        families.add("rota_queue_ceiling", info.ceiling, name)
        families.add("rota_queue_paused", info.paused, name)
        families.add("rota_queue_consumers", info.consumers, name)
        families.add("rota_queue_unattended", info.unattended, name)
        families.add("rota_queue_lanes_waiting", info.lanes_waiting, name)
        families.add("rota_queue_lanes_ready", info.lanes_ready, name)
        families.add("rota_queue_lanes_paused", info.lanes_paused, name)
        if thread is not None:
            thread.join(self._patience)
        if self._census is not None:
            self._add(families, self._census)

    def health(self) -> Health:
        with self._lock:
            server = health.check(self._probe)
        trouble = self._trouble
        census = Check(f"{self._queue.name}: census", trouble is None, trouble or "")
        return server.with_others(Health((census,)))

    def _take_in_time(self) -> threading.Thread | None:
        """The thread that takes a census, begun where one is due; None where none goes on."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
        if self._thread is None and time.monotonic() >= self._next:
            self._thread = threading.Thread(target=self._take, name="rota-census", daemon=True)
            self._thread.start()
        return self._thread

    def _take(self) -> None:
        queue, began = self._queue, time.monotonic()
        try:
            if self._own is None:
                self._own = queue.apart(timeout=CENSUS_REPLY_S)
            self._census = self._own.census(self._top)
        except Exception as error:  # whatever it was: the next scrape tries again
            self._trouble = f"{type(error).__name__}: {error}"
            if self._logs.allows("census", error):
                logger.warning("the lanes of queue %s cannot be read: %s", queue.name, error)
        else:
            self._trouble = None
            self._taken, self._took = began, time.monotonic() - began
        ended = time.monotonic()
        self._next = ended + max(CENSUS_EVERY_S, CENSUS_PART * (ended - began))

    def _add(self, families: Families, census: Census) -> None:
        name = self._label
        families.add("rota_census_age_seconds", time.monotonic() - self._taken, name)
        families.add("rota_census_seconds", self._took, name)
        families.add("rota_queue_oldest_wait_seconds", census.oldest_wait or 0.0, name)
        families.add("rota_lane_wait_max_seconds", census.ready_wait or 0.0, name)
        families.add("rota_fairness_index", census.index, name)
        families.add("rota_lane_share_ratio", census.least, name, "least")
        families.add("rota_lane_share_ratio", census.most, name, "most")
        for state, n in census.lanes.items():
            families.add("rota_lanes", n, name, state.replace(" ", "_"))
        if self._top:
            self._add_top(families, census)

    def _add_top(self, families: Families, census: Census) -> None:
        told: list[LaneInfo | Others] = [*census.top, census.others]
        for rank, one in enumerate(told, start=1):
            named = (str(rank), one.name) if isinstance(one, LaneInfo) else ("other", "")
            labels = (self._label, *named)
            families.add("rota_top_lane_waiting", one.waiting, *labels)
            families.add("rota_top_lane_running", one.running, *labels)
            families.add("rota_top_lane_oldest_wait_seconds", one.oldest_wait or 0.0, *labels)

    def close(self) -> None:
        """A census under way ends by itself, with its connection."""
        with self._lock:
            self._probe.close()
        if self._thread is not None:
            self._thread.join(self._patience)
        if self._own is not None:
            self._own.close()
