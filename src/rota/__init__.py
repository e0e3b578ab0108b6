"""rota: the job queue for services with many tenants, on Valkey or Redis."""

from importlib.metadata import PackageNotFoundError, version

from rota.doctor import Advice, Finding, Report
from rota.errors import (
    BatchInterrupted,
    ConfigError,
    LaneBroken,
    LaneFull,
    LeaseLost,
    NotDurable,
    PayloadError,
    QueueBroken,
    QueueClosed,
    RotaError,
    ServerFull,
    ServerTooOld,
    Unavailable,
    UnknownTask,
)
from rota.explain import Explanation, Reason
from rota.queue import Queue
from rota.values.config import Durable, WorkerConfig
from rota.values.figures import Census, LaneShare, Shares
from rota.values.jobspec import JobSpec
from rota.values.limits import Rate, Template
from rota.values.listing import FoundQueue, JobsPage, LanesPage, SequenceInfo, SequencesPage
from rota.values.model import (
    Cancelled,
    ConsumerInfo,
    Enqueued,
    Job,
    JobInfo,
    LaneInfo,
    Moved,
    QueueInfo,
)
from rota.values.signals import Bury, RateLimited, Release, Retry, Signal
from rota.values.timing import Backoff
from rota.work.executor import current_job
from rota.worker import Drained, Worker

try:
    __version__ = version("rota")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0"

__all__ = [
    "Advice",
    "Backoff",
    "BatchInterrupted",
    "Bury",
    "Cancelled",
    "Census",
    "ConfigError",
    "ConsumerInfo",
    "Drained",
    "Durable",
    "Enqueued",
    "Explanation",
    "Finding",
    "FoundQueue",
    "Job",
    "JobInfo",
    "JobSpec",
    "JobsPage",
    "LaneBroken",
    "LaneFull",
    "LaneInfo",
    "LaneShare",
    "LanesPage",
    "LeaseLost",
    "Moved",
    "NotDurable",
    "PayloadError",
    "Queue",
    "QueueBroken",
    "QueueClosed",
    "QueueInfo",
    "Rate",
    "RateLimited",
    "Reason",
    "Release",
    "Report",
    "Retry",
    "RotaError",
    "SequenceInfo",
    "SequencesPage",
    "ServerFull",
    "ServerTooOld",
    "Shares",
    "Signal",
    "Template",
    "Unavailable",
    "UnknownTask",
    "Worker",
    "WorkerConfig",
    "__version__",
    "current_job",
]
