"""The numbers of one worker process: what it has counted, and how it is."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from rota.metrics.catalogue import OF_WORKERS, Families, labels_of
from rota.observe.observer import JobCounts
from rota.queue import Queue
from rota.work.fetcher import Fetcher
from rota.worker import Worker


class WorkerCollector(Collector):
    """What a worker of this process counts, from now on, for one registry. Reads plain numbers; may
    be asked from any thread."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._labels = labels_of(worker.queues)
        self._counts: dict[Queue, JobCounts] = {queue: JobCounts() for queue in worker.queues}
        for queue, counts in self._counts.items():
            worker.observe(queue, counts)

    def describe(self) -> Iterator[Family]:
        return Families(OF_WORKERS).describe()

    def collect(self) -> Iterator[Family]:
        families = Families(OF_WORKERS)
        families.add("rota_worker_slots", self._worker.config.concurrency)
        families.add("rota_worker_ready", self._worker.health().healthy)
        families.add("rota_worker_loop_lag_seconds", self._worker.lag)
        for queue, counts in self._counts.items():
            _add_counts(families, self._labels[queue], counts)
        for fetcher in self._worker.fetchers:
            _add_parts(families, self._labels[fetcher.queue], fetcher)
        return families.give()


worker_collector = WorkerCollector


def _add_counts(families: Families, name: str, counts: JobCounts) -> None:
    for (task, outcome), n in counts.jobs.copy().items():
        families.add("rota_jobs_settled_total", n, name, task, outcome)
    for task, runs in counts.runs.copy().items():
        families.add("rota_job_run_seconds", runs, name, task)
    for task, attempts in counts.attempts.copy().items():
        families.add("rota_job_attempts", attempts, name, task)
    families.add("rota_job_wait_seconds", counts.waits, name)
    families.add("rota_leases_lost_total", counts.leases_lost, name)
    families.add("rota_redis_errors_total", counts.errors, name, "fetch")
    for script, seconds in counts.calls.items():
        families.add("rota_redis_seconds", seconds, name, script)


def _add_parts(families: Families, name: str, fetcher: Fetcher) -> None:
    """What the process shares in one queue with all its consumers."""
    keeper = fetcher.keeper
    families.add("rota_worker_busy", len(fetcher.running_jobs), name)
    for cause in ("token", "timer", "beat", "work", "lost"):
        wakeups = fetcher.bell.wakeups.get(cause, 0)
        families.add("rota_doorbell_wakeups_total", wakeups, name, cause)
    families.add("rota_redis_errors_total", fetcher.bell.errors, name, "doorbell")
    families.add("rota_redis_errors_total", keeper.errors, name, "lease")
    families.add("rota_lease_renewals_total", keeper.renewals, name)
    for script, seconds in keeper.calls.items():
        families.add("rota_redis_seconds", seconds, name, script)
