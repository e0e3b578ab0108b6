"""rota: the job queue for services with many tenants, on Valkey or Redis."""

from importlib.metadata import PackageNotFoundError, version

from rota.config import Durable, WorkerConfig
from rota.errors import (
    BatchInterrupted,
    ConfigError,
    LaneFull,
    LeaseLost,
    NotDurable,
    PayloadError,
    RotaError,
    ServerFull,
    ServerTooOld,
    Unavailable,
    UnknownTask,
)
from rota.executor import current_job
from rota.model import ConsumerInfo, DeadJob, Enqueued, Job, JobInfo, JobSpec, LaneInfo, QueueInfo
from rota.queue import Queue
from rota.signals import Bury, RateLimited, Release, Retry, Signal
from rota.timing import Backoff
from rota.worker import Drained, Worker

try:
    __version__ = version("rota")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0"

__all__ = [
    "Backoff",
    "BatchInterrupted",
    "Bury",
    "ConfigError",
    "ConsumerInfo",
    "DeadJob",
    "Drained",
    "Durable",
    "Enqueued",
    "Job",
    "JobInfo",
    "JobSpec",
    "LaneFull",
    "LaneInfo",
    "LeaseLost",
    "NotDurable",
    "PayloadError",
    "Queue",
    "QueueInfo",
    "RateLimited",
    "Release",
    "Retry",
    "RotaError",
    "ServerFull",
    "ServerTooOld",
    "Signal",
    "Unavailable",
    "UnknownTask",
    "Worker",
    "WorkerConfig",
    "__version__",
    "current_job",
]
