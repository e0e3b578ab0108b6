"""A queue with a job waiting on each of many lanes, driven by one consumer over the store."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.server import Server, Work
from rota.script.keys import Keys
from rota.store import Store
from rota.values.jobspec import JobSpec
from rota.values.model import Claimed, parse_record

BATCH = 100
PAYLOAD = b'{"data":"' + b"x" * 89 + b'"}'
LEASE_MS = 3_600_000


def specs(lanes: Sequence[str]) -> list[JobSpec]:
    """One job per name, with 100 bytes of payload."""
    return [JobSpec(task="noop", lane=lane, payload=PAYLOAD) for lane in lanes]


class Load:
    """`lanes` lanes of one job each, and a consumer that takes and completes by the hundred."""

    def __init__(self, server: Server, queue: str, lanes: int) -> None:
        self.lanes = lanes
        self.store = Store(Keys(queue))
        self._server = server
        self._client = server.client()
        self._consumer = f"bench-{queue}"
        self._number = 0
        self._next = 0
        self._client.run(self.store.join(self._consumer, lease_ms=LEASE_MS, name="bench"))

    def fill(self) -> None:
        """One job on each lane, in calls of 1,000."""
        for first in range(0, self.lanes, 1000):
            self.enqueue([lane_name(i) for i in range(first, min(first + 1000, self.lanes))])

    def enqueue(self, lanes: Sequence[str]) -> None:
        self.enqueue_specs(specs(lanes))

    def enqueue_specs(self, made: Sequence[JobSpec]) -> None:
        self._client.run(self.store.enqueue(made))

    def exchange(self, done: Sequence[Claimed], want: int = BATCH) -> list[Claimed]:
        """Completes what was claimed last and claims `want` jobs."""
        delivery = str(self._number)
        self._number += want > 0
        reply = self._client.run(
            self.store.exchange(
                self._consumer,
                number=self._number,
                want=want,
                prefetch=1,
                park=False,
                done=[(job.id, delivery) for job in done],
            )
        )
        if len(reply.entries) < want:
            raise RuntimeError(f"claimed {len(reply.entries)} of {want}: {reply.status}")
        return [job for entry in reply.entries for job in entry]

    # ── rounds: each does `jobs` jobs from enqueue to done and says what the server did ──────

    def add(self, jobs: int) -> Work:
        """Enqueues to lanes that have work, so that they stand in the ring already."""
        before = self._server.work()
        for _ in range(jobs // BATCH):
            self.enqueue([lane_name((self._next + i) % self.lanes) for i in range(BATCH)])
            self._next += BATCH
        return self._server.work().since(before)

    def take(self, jobs: int) -> Work:
        """Claims and completes; a lane that had two jobs stays in the ring."""
        before = self._server.work()
        done: list[Claimed] = []
        for _ in range(jobs // BATCH):
            done = self.exchange(done)
        self.exchange(done, want=0)
        return self._server.work().since(before)

    def turn_over(self, jobs: int) -> Work:
        """Claims the only job of each lane, which leaves the ring, and enqueues it a new one."""
        before = self._server.work()
        done: list[Claimed] = []
        for _ in range(jobs // BATCH):
            done = self.exchange(done)
            self.enqueue([_lane(job) for job in done])
        self.exchange(done, want=0)
        return self._server.work().since(before)

    def close(self) -> None:
        self._client.close()


def lane_name(i: int) -> str:
    return f"tenant-{i:07}"


def _lane(job: Claimed) -> str:
    assert job.record is not None
    return parse_record(job.record).header.lane
