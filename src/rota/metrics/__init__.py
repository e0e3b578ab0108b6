"""Prometheus metrics, from two sources; needs the extra `metrics`.

    collector(queue, …)         of queues, for one exporter: `rota metrics QUEUE …`
    worker_collector(worker)    of one worker process: `rota worker --metrics-port 9100`

Register one with a registry of `prometheus_client`, or serve it with `Endpoint`. What they give
is in `CATALOGUE`. The number of series depends on queues and tasks, not on lanes.
"""

try:
    import prometheus_client  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"metrics need {error.name}; install it with: pip install 'rota[metrics]'",
        name=error.name,
    ) from None

from rota.metrics.catalogue import CATALOGUE, Metric
from rota.metrics.endpoint import Endpoint, exposition
from rota.metrics.queues import QueueCollector, collector
from rota.metrics.workers import WorkerCollector, worker_collector

__all__ = [
    "CATALOGUE",
    "Endpoint",
    "Metric",
    "QueueCollector",
    "WorkerCollector",
    "collector",
    "exposition",
    "worker_collector",
]
