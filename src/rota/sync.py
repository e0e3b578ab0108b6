"""A queue's verbs for code without an event loop; safe in threads and after fork."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Never

from rota.consume.deliveries import Decode
from rota.consume.station import Station
from rota.dead_jobs import SyncDeadJobs
from rota.doctor import Report
from rota.errors import Guide
from rota.job import SyncJobHandle
from rota.lane import SyncLane
from rota.observe import tracing
from rota.store import OnFull, check_on_full, chunks, next_chunk
from rota.store.census import Census
from rota.store.shares import ShareOrder, Shares
from rota.sync_consumer import SyncConsumer
from rota.task import TaskHome
from rota.values import config, names
from rota.values.config import Durable
from rota.values.jobspec import JobSpec
from rota.values.limits import UNSET, Rate, Template, Unset
from rota.values.listing import JobsPage, SequencesPage
from rota.values.model import ConsumerInfo, Enqueued, JobState, LaneInfo, LaneOrder, QueueInfo
from rota.values.timing import seconds

CALLED_HERE = {
    "delay send send_task add push put put_nowait publish defer submit enqueue_job enqueue_call": (
        "await task.enqueue(…), or without an event loop task.sync.enqueue(…)"
    ),
    "enqueue_in enqueue_at enqueue_after schedule apply_async": (
        "await task.options(lane=…, delay=…).enqueue(…), or .sync.enqueue(…) of it"
    ),
    "actor register register_task add_task job_type": "@queue.task, above the function",
    "run work worker start run_worker start_worker process": (
        "await rota.Worker(queue).run(), or the command rota worker module:queue"
    ),
}
"""What others call what a queue does."""


class SyncQueue(Guide):
    """The blocking twin of `Queue`; what each verb does is said there.

    The end of a `with queue.sync:` closes the connections of blocking callers, as `close` does.
    """

    _called_here = CALLED_HERE

    def __init__(self, home: TaskHome, station: Station, decode: Decode) -> None:
        self._home = home
        self._link = home.link
        self._station = station
        self._decode = decode

    def enqueue(
        self, spec: JobSpec, *call: Never, durable: Durable | None = None, **options: Never
    ) -> Enqueued:
        self._home.check_call(spec, call, options)
        durable = config.durable(durable) or self._home.durable
        with tracing.sending(self._link.keys.queue, spec) as traced:
            return self._link.run_sync(self._link.store.enqueue_one(traced, durable=durable))

    def enqueue_many(
        self,
        specs: Iterable[JobSpec],
        *,
        on_full: OnFull = "outcome",
        wait: float | timedelta = 60,
        atomic: bool = False,
        durable: Durable | None = None,
    ) -> list[Enqueued]:
        checked = self._home.check_specs(specs)
        with tracing.sending_many(self._link.keys.queue, checked) as traced:
            return self._link.run_sync(
                self._link.store.enqueue_many(
                    traced,
                    on_full=on_full,
                    wait=seconds(wait, "wait"),
                    atomic=atomic,
                    durable=config.durable(durable) or self._home.durable,
                )
            )

    def enqueue_stream(
        self,
        specs: Iterable[JobSpec],
        *,
        on_full: OnFull = "outcome",
        wait: float | timedelta = 60,
        durable: Durable | None = None,
    ) -> Iterator[Enqueued]:
        check_on_full(on_full)
        confirm = config.durable(durable) or self._home.durable
        patience, first = seconds(wait, "wait"), True
        parts = chunks(self._home.check_specs(specs))
        while chunk := next_chunk(parts, [], first=first):
            first = False
            with tracing.sending_many(self._link.keys.queue, chunk) as traced:
                outcomes = self._link.run_sync(
                    self._link.store.enqueue_part(
                        list(traced), on_full=on_full, wait=patience, durable=confirm
                    )
                )
            yield from outcomes

    def lane(self, name: str) -> SyncLane:
        return SyncLane(names.lane_name(name), self._link)

    def lanes(self, limit: int = 1000, by: LaneOrder | None = None) -> list[LaneInfo]:
        return self._link.run_sync(self._link.inspector.lanes(limit, by))

    def shares(self, limit: int = 20, by: ShareOrder = "behind") -> Shares:
        return self._link.run_sync(self._link.fairness.shares(limit, by))

    def census(self, top: int = 10) -> Census:
        return self._link.run_sync(self._link.lane_census.census(top))

    def set(
        self,
        *,
        default_ceiling: int | Unset | None = UNSET,
        default_weight: float | Unset | None = UNSET,
        ceiling: int | Unset | None = UNSET,
        dead_max: int | Unset | None = UNSET,
        dead_age: float | timedelta | Unset | None = UNSET,
    ) -> None:
        self._link.run_sync(
            self._link.store.queue_set(
                default_ceiling=default_ceiling,
                default_weight=default_weight,
                ceiling=ceiling,
                dead_max=dead_max,
                dead_age=dead_age,
            )
        )

    def set_template(
        self,
        name: str,
        *,
        ceiling: int | Unset | None = UNSET,
        weight: float | Unset | None = UNSET,
        rate: Rate | Unset | None = UNSET,
        backlog: int | Unset | None = UNSET,
    ) -> None:
        self._link.run_sync(
            self._link.store.set_template(
                name, ceiling=ceiling, weight=weight, rate=rate, backlog=backlog
            )
        )

    def drop_template(self, name: str) -> bool:
        return self._link.run_sync(self._link.store.drop_template(name))

    def templates(self) -> dict[str, Template]:
        return self._link.run_sync(self._link.store.templates())

    def set_lanes(self, limits: Mapping[str, Mapping[str, Any]]) -> None:
        self._link.run_sync(self._link.store.set_lanes(limits))

    def pause(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: datetime | float | None = None,
    ) -> None:
        self._link.run_sync(self._link.store.shut_gate(reason=reason, by=by, until=until))

    def resume(self) -> bool:
        return self._link.run_sync(self._link.store.open_gate())

    def purge(self) -> int:
        return self._link.run_sync(self._link.store.purge_queue())

    def consumers(self, limit: int = 1000) -> list[ConsumerInfo]:
        return self._link.run_sync(self._link.inspector.consumers(limit))

    def jobs(
        self,
        state: JobState,
        *,
        lane: str | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> JobsPage:
        return self._link.run_sync(
            self._link.inspector.jobs(state, lane=lane, task=task, cursor=cursor, limit=limit)
        )

    def sequences(
        self, *, lane: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> SequencesPage:
        return self._link.run_sync(
            self._link.inspector.sequences(lane=lane, cursor=cursor, limit=limit)
        )

    def quiet(self, consumer: str) -> bool:
        return self._link.run_sync(self._link.store.order(names.job_id(consumer), "quiet"))

    def stop(self, consumer: str) -> bool:
        return self._link.run_sync(self._link.store.order(names.job_id(consumer), "stop"))

    def evict(self, consumer: str) -> int | None:
        return self._link.run_sync(self._link.store.evict(names.job_id(consumer)))

    def doctor(self, repair: bool = False) -> Report:
        return self._link.run_sync(
            self._link.doctor.examine(repair=repair, park_s=self._station.beat)
        )

    def info(self) -> QueueInfo:
        return self._link.run_sync(self._link.inspector.queue())

    @property
    def dead(self) -> SyncDeadJobs:
        return SyncDeadJobs(self._link)

    def job(self, id: str) -> SyncJobHandle:
        return SyncJobHandle(names.job_id(id), self._link)

    def consumer(
        self, *, lease: float | timedelta = config.LEASE_S, prefetch: int = 1
    ) -> SyncConsumer:
        return SyncConsumer(self._station, lease=lease, prefetch=prefetch, decode=self._decode)

    def close(self) -> None:
        self._link.close_sync()

    def __enter__(self) -> SyncQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
