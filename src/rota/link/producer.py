"""How the jobs of a queue are enqueued: what it asks of each, and how they get to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from weakref import WeakKeyDictionary

from rota.errors import ConfigError
from rota.link.link import Link
from rota.link.outbox import Outbox
from rota.observe import tracing
from rota.script.loader import Operation
from rota.store import check_on_full, chunks, next_chunk
from rota.values import config
from rota.values.config import Durable
from rota.values.jobspec import DEFAULT_LANE, JobSpec, check_size
from rota.values.model import Enqueued, OnFull
from rota.values.names import shown
from rota.values.timing import seconds


class Producer:
    """Checks the jobs of one queue and sends them. Where a call says nothing, `durable` holds."""

    def __init__(
        self,
        link: Link,
        *,
        require_lane: bool = False,
        max_payload: int = config.DEFAULT_MAX_PAYLOAD,
        durable: Durable | None = None,
    ) -> None:
        self._link = link
        self._require_lane = require_lane
        self._max_payload = max_payload
        self._durable = durable
        self._outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()

    async def send(self, spec: JobSpec, durable: Durable | None) -> Enqueued:
        durable = durable or self._durable
        with tracing.sending(self._link.keys.queue, spec) as traced:
            if durable is None:
                return await self.outbox.send(traced)
            return await self._link.run(self._link.store.enqueue_one(traced, durable=durable))

    def send_blocking(self, spec: JobSpec, durable: Durable | None) -> Enqueued:
        durable = durable or self._durable
        with tracing.sending(self._link.keys.queue, spec) as traced:
            return self._link.run_sync(self._link.store.enqueue_one(traced, durable=durable))

    def send_many(
        self,
        specs: Iterable[JobSpec],
        *,
        on_full: OnFull,
        wait: float | timedelta,
        atomic: bool,
        durable: Durable | None,
    ) -> Operation[list[Enqueued]]:
        with tracing.sending_many(self._link.keys.queue, self._checked(specs)) as traced:
            return (
                yield from self._link.store.enqueue_many(
                    traced,
                    on_full=on_full,
                    wait=seconds(wait, "wait"),
                    atomic=atomic,
                    durable=config.durable(durable) or self._durable,
                )
            )

    def send_parts(
        self,
        specs: Iterable[JobSpec],
        *,
        on_full: OnFull,
        wait: float | timedelta,
        durable: Durable | None,
    ) -> Iterator[Operation[list[Enqueued]]]:
        """An operation for each call's worth; specs are read when their operation is asked for."""
        check_on_full(on_full)
        confirm = config.durable(durable) or self._durable
        patience, first = seconds(wait, "wait"), True
        parts = chunks(self._checked(specs))
        while chunk := next_chunk(parts, [], first=first):
            first = False
            yield self._send_part(chunk, on_full, patience, confirm)

    def _send_part(
        self, chunk: list[JobSpec], on_full: OnFull, wait: float, durable: Durable | None
    ) -> Operation[list[Enqueued]]:
        with tracing.sending_many(self._link.keys.queue, chunk) as traced:
            return (
                yield from self._link.store.enqueue_part(
                    list(traced), on_full=on_full, wait=wait, durable=durable
                )
            )

    @property
    def outbox(self) -> Outbox:
        """Where single jobs of the running loop wait for the next call."""
        loop = asyncio.get_running_loop()
        found = self._outboxes.get(loop)
        if found is None:
            found = self._outboxes[loop] = Outbox(self._link)
        return found

    def _checked(self, specs: Iterable[JobSpec]) -> Iterator[JobSpec]:
        """The specs, each checked as it is taken."""
        if not isinstance(specs, Iterable):
            raise ConfigError(
                f"expected an iterable of rota.JobSpec, given a {type(specs).__name__}"
            )
        return map(self._check_spec, specs)

    def _check_spec(self, spec: JobSpec) -> JobSpec:
        if not isinstance(spec, JobSpec):
            raise ConfigError(
                f"expected a rota.JobSpec (task.spec(…)), given a {type(spec).__name__}; "
                "a job is enqueued by its task, too: await task.enqueue(…)"
            )
        self.check_size(spec.payload)
        self.check_lane(spec.task, spec.lane)
        return spec

    def check_call(self, spec: JobSpec, args: Sequence[object], kwargs: Iterable[str]) -> None:
        """Of a queue's `enqueue`, which takes one spec; others take the task and its arguments."""
        self._check_spec(spec)
        if args or kwargs:
            also = ", ".join([*map(shown, args), *kwargs])
            raise ConfigError(
                f"expected one rota.JobSpec, given also {also}: what a job is and how it is "
                "enqueued is said before, task.options(…).spec(…)"
            )

    def check_lane(self, task: str, lane: str) -> None:
        """Where a lane is required, the default one counts as none."""
        if self._require_lane and lane == DEFAULT_LANE:
            raise ConfigError(f"task {task}: this queue requires a lane other than {lane!r}")

    def check_size(self, payload: bytes) -> None:
        check_size(payload, self._max_payload)
