"""Who takes part: each contestant's version, how it is installed, how its worker is started.

The settings are the fastest ones that its documents describe and that proved fastest here; where
a setting is in its program (`programs/`), the comment is there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Contestant:
    """A queue library: `worker` is the command of one worker process.

    `batches`: it has a call that enqueues many jobs. `coroutines`: its client can enqueue from
    fifty tasks of one event loop. `note`: what a reader has to know beside the figures.
    """

    name: str
    version: str
    program: str
    requirements: tuple[str, ...]
    worker: tuple[str, ...]
    batches: bool = False
    coroutines: bool = False
    node: bool = False
    note: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"


def rota_itself() -> Contestant:
    """With what `pip install 'rota[cli,uvloop]'` brings; its source is the checkout's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return Contestant(
        "rota",
        project["version"],
        "rota_peer",
        (*project["dependencies"], *extras["cli"], *extras["uvloop"]),
        (
            "python", "-m", "rota", "worker", "rota_peer:queue",
            "--concurrency", "300",  # faster than 100 and 200; 400 and 800 were no faster
            "--log-level", "warning",  # a line for each job would be measured, too
        ),
        batches=True,
        coroutines=True,
        note="1,000 lanes with a ceiling, at least once",
    )  # fmt: skip


def peers() -> Sequence[Contestant]:
    return [
        Contestant(
            "bullmq",
            "6.7.0",
            "bullmq_peer.js",
            ("bullmq@6.7.0", "ioredis@6.0.0"),  # its default client, a peer dependency
            ("node", str(PROGRAMS / "bullmq_peer.js"), "work"),
            batches=True,
            coroutines=True,
            node=True,
            note="Node; at least once",
        ),
        Contestant(
            "arq",
            "0.28.0",
            "arq_peer",
            ("arq==0.28.0", "hiredis", "uvloop"),
            ("arq", "arq_peer.WorkerSettings"),
            coroutines=True,
            note="at least once",
        ),
        Contestant(
            "saq",
            "0.26.4",
            "saq_peer",
            # typing_extensions: it imports it and does not ask for it.
            ("saq[redis,hiredis]==0.26.4", "typing_extensions", "uvloop"),
            ("saq", "saq_peer.settings", "--quiet"),
            coroutines=True,
            note="at least once",
        ),
        Contestant(
            "streaq",
            "7.2.0",
            "streaq_peer",
            ("streaq==7.2.0", "uvloop"),
            ("streaq", "run", "streaq_peer:worker"),
            batches=True,
            coroutines=True,
            note="at least once",
        ),
        Contestant(
            "taskiq-redis",
            "1.2.4",
            "taskiq_peer",
            # The worker takes uvloop where it finds it.
            ("taskiq-redis==1.2.4", "taskiq==0.13.0", "hiredis", "uvloop"),
            (
                "taskiq", "worker", "taskiq_peer:broker", "--workers", "1",
                "--max-async-tasks", "100",  # its default
                "--no-parse",  # else pydantic looks at each job's arguments
                "--log-level", "WARNING",  # else a line per job
            ),
            coroutines=True,
            note="stream broker, at least once",
        ),
        Contestant(
            "dramatiq",
            "2.2.1",
            "dramatiq_peer",
            ("dramatiq[redis]==2.2.1", "hiredis"),
            # 32 threads were the fastest of 8 (the default), 16, 32, 64.
            ("dramatiq", "dramatiq_peer", "--processes", "1", "--threads", "32"),
            note="at least once",
        ),
        Contestant(
            "huey",
            "3.5.4",
            "huey_peer",
            ("huey==3.5.4", "redis", "hiredis"),
            (
                "huey_consumer", "huey_peer.huey",
                # One thread was faster than 2, 8, 16 and than greenlets: they contend for the lock.
                "--worker-type", "thread", "--workers", "1",
                "--no-periodic", "--disable-health-check",  # nothing periodic runs here
                "--quiet",
            ),
            note="at most once: a crash loses what runs",
        ),
        Contestant(
            "rq",
            "3.0.0",
            "rq_peer",
            ("rq==3.0.0", "hiredis"),
            # The default worker forks a process per job; SimpleWorker runs jobs in its own.
            ("rq", "worker", "bench", "--worker-class", "rq.worker.SimpleWorker",
             "--quiet", "--url", "{url}"),
            batches=True,
            note="SimpleWorker; a crash fails what runs",
        ),
        Contestant(
            "celery",
            "5.7.0",
            "celery_peer",
            ("celery[redis]==5.7.0", "hiredis"),
            (
                "celery", "--app", "celery_peer", "--quiet", "worker",
                "--pool", "solo",  # threads and gevent were slower; processes are several
                # Chatter between workers; there is one.
                "--without-gossip", "--without-mingle", "--without-heartbeat",
                "--loglevel", "WARNING",  # else two lines per job
            ),
            note="acknowledged before the job runs (its default)",
        ),
    ]  # fmt: skip


NAMES = tuple(peer.name for peer in peers())
