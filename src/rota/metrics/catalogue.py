"""Every metric rota gives: its name, kind, labels, and what it says. Times are in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family

from rota.errors import ConfigError
from rota.observe.observer import Histogram
from rota.queue import Queue

Kind = Literal["gauge", "counter", "histogram"]
KINDS: dict[Kind, Any] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ("queue",)


OF_QUEUES = (
    Metric("rota_queue_up", "gauge", "1 where the queue's server answers"),
    Metric("rota_queue_jobs", "gauge", "Jobs by state", ("queue", "state")),
    Metric(
        "rota_queue_events_total",
        "counter",
        "What became of jobs since the queue began: enqueued, completed, retried, …",
        ("queue", "event"),
    ),
    Metric("rota_queue_permits", "gauge", "Entries in flight; a sequence's jobs are one"),
    Metric("rota_queue_ceiling", "gauge", "The queue's ceiling; absent where it has none"),
    Metric("rota_queue_paused", "gauge", "1 while the whole queue is paused"),
    Metric("rota_queue_consumers", "gauge", "Consumers with a lease"),
    Metric("rota_queue_unattended", "gauge", "1 where work waits but no consumer is there"),
    Metric("rota_queue_lanes_waiting", "gauge", "Lanes with waiting jobs"),
    Metric("rota_queue_lanes_ready", "gauge", "Lanes that may be served now"),
    Metric("rota_queue_lanes_paused", "gauge", "Lanes that are paused"),
    Metric("rota_queue_oldest_wait_seconds", "gauge", "How long the first of all has waited"),
    Metric("rota_lanes", "gauge", "Lanes by state, at the last census", ("queue", "state")),
    Metric(
        "rota_lane_wait_max_seconds", "gauge", "The longest wait in a lane that may be served now"
    ),
    Metric(
        "rota_fairness_index",
        "gauge",
        "Jain's index of what lanes kept waiting got for their weight; absent below two of them",
    ),
    Metric(
        "rota_lane_share_ratio",
        "gauge",
        "What the lane that got least, and most, got for its weight, against the mean",
        ("queue", "of"),
    ),
    Metric("rota_census_age_seconds", "gauge", "How old the figures of lanes are"),
    Metric("rota_census_seconds", "gauge", "How long the last census took"),
    Metric(
        "rota_top_lane_waiting",
        "gauge",
        "Waiting jobs of the lanes that wait longest; rank `other`: of all others together",
        ("queue", "rank", "lane"),
    ),
    Metric(
        "rota_top_lane_running",
        "gauge",
        "Permits held by the lanes that wait longest, and by all others",
        ("queue", "rank", "lane"),
    ),
    Metric(
        "rota_top_lane_oldest_wait_seconds",
        "gauge",
        "The longest waits by lane, and the longest of all others",
        ("queue", "rank", "lane"),
    ),
)
"""From the exporter: one for each queue, or its numbers count twice."""

OF_WORKERS = (
    Metric("rota_worker_slots", "gauge", "Slots of this process, shared by its queues", ()),
    Metric("rota_worker_busy", "gauge", "Jobs that run in this process"),
    Metric("rota_worker_ready", "gauge", "1 where all checks of /readyz are well", ()),
    Metric("rota_worker_loop_lag_seconds", "gauge", "How late the event loop turned last", ()),
    Metric(
        "rota_jobs_settled_total",
        "counter",
        "Jobs ended here, by outcome as the server took it",
        ("queue", "task", "outcome"),
    ),
    Metric("rota_job_run_seconds", "histogram", "How long handlers ran", ("queue", "task")),
    Metric(
        "rota_job_wait_seconds",
        "histogram",
        "How long jobs had been available when they were first handed out",
    ),
    Metric(
        "rota_job_attempts",
        "histogram",
        "At which attempt jobs were completed or buried",
        ("queue", "task"),
    ),
    Metric(
        "rota_doorbell_wakeups_total",
        "counter",
        "How often the worker was woken: token, timer, beat, work, lost",
        ("queue", "cause"),
    ),
    Metric(
        "rota_redis_seconds",
        "histogram",
        "How long the server took: exchange (claim), settle, heartbeat, beat",
        ("queue", "script"),
    ),
    Metric(
        "rota_redis_errors_total",
        "counter",
        "Failed calls and broken connections, by the part they hit: fetch, doorbell, lease",
        ("queue", "part"),
    ),
    Metric("rota_lease_renewals_total", "counter", "Leases renewed"),
    Metric("rota_leases_lost_total", "counter", "Leases lost; their jobs were others' then"),
)
"""From each worker process."""

CATALOGUE = OF_QUEUES + OF_WORKERS


def labels_of(queues: Iterable[Queue]) -> dict[Queue, str]:
    """What the label `queue` says: the name; of two that share it, how their keys begin.

    Raises ConfigError for the same queue twice.
    """
    names = Counter(queue.name for queue in queues)
    labels = {queue: queue.name if names[queue.name] == 1 else queue.root for queue in queues}
    if len(set(labels.values())) < sum(names.values()):
        raise ConfigError("expected each queue once, and queues on one server")
    return labels


class Families:
    """Metrics under way: each is filled with samples and given once, empty ones left out."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._families = {
            one.name: KINDS[one.kind](one.name, one.text, labels=one.labels) for one in metrics
        }

    def add(self, name: str, value: float | Histogram | None, *labels: str) -> None:
        """`labels` in the order of the catalogue; None adds nothing."""
        family = self._families[name]
        if isinstance(value, Histogram):
            family.add_metric(labels, _buckets(value), value.total)
        elif value is not None:
            family.add_metric(labels, value)

    def give(self) -> Iterator[Family]:
        return (family for family in self._families.values() if family.samples)

    def describe(self) -> Iterator[Family]:
        """Names without samples: a registry asks for them to refuse doubles."""
        return iter(self._families.values())


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """How many lie below each bound, the last among them: all."""
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(histogram.counts.copy())), strict=True))
