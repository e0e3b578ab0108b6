"""A queue in a user's hands: its tasks, its lanes, enqueueing, and the figures."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Never, ParamSpec, TypeVar, get_args, overload

from rota.consume.membership import Consuming
from rota.consumer import Consumer, SyncConsumer
from rota.dead_jobs import DeadJobs, SyncDeadJobs
from rota.doctor import Advice, Progress, Report, examine
from rota.doctor.server import ServerCheck
from rota.errors import ConfigError, UnknownTask
from rota.job import JobHandle, SyncJobHandle
from rota.lane import Lane, SyncLane
from rota.link import AsyncFace, BlockingFace, Link, Producer, look, verb
from rota.payload.signature import inner_function
from rota.script.keys import Keys
from rota.script.loader import Operation
from rota.store.inspector import server_queues
from rota.task import AnyTask, Task, TaskPolicy
from rota.values import config, names
from rota.values.config import Durable
from rota.values.figures import Census, Shares, ShareSort
from rota.values.guide import OF_QUEUES, Guide
from rota.values.jobspec import Charge, JobSpec, OnDead
from rota.values.limits import UNSET, Rate, Template, Unset
from rota.values.listing import FoundQueue, JobsPage, LanesPage, SequencesPage
from rota.values.model import (
    ConsumerInfo,
    Enqueued,
    Job,
    JobState,
    LaneInfo,
    LaneSort,
    OnFull,
    QueueInfo,
)
from rota.values.names import shown, stored_name
from rota.values.timing import Backoff, BackoffRule, number, seconds

P = ParamSpec("P")
R = TypeVar("R")
Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


class _QueueVerbs(Guide):
    """What queues do on both faces."""

    _called_here = OF_QUEUES

    def __init__(self, link: Link, producer: Producer, consuming: Consuming) -> None:
        self.name = link.keys.queue
        self.prefix = link.keys.prefix
        self._link = link
        self._producer = producer
        self._consuming = consuming

    @property
    def server(self) -> str:
        """Where its server is, without passwords; asking settles which it is."""
        return self._link.target.display

    @property
    def root(self) -> str:
        """What all its keys begin with."""
        return self._link.keys.root

    @verb
    def enqueue_many(
        self,
        specs: Iterable[JobSpec],
        *,
        on_full: OnFull = "outcome",
        wait: float | timedelta = 60,
        atomic: bool = False,
        durable: Durable | None = None,
    ) -> Operation[list[Enqueued]]:
        """Stores jobs in calls of at most 1,000; outcomes in the order given.

        `on_full`: a job its lane has no room for gets the outcome `lane_full`, raises LaneFull,
        or is tried again for `wait` seconds. LaneFull has the outcomes so far: the jobs
        `created` are stored, specs beyond the outcomes were not sent. `atomic`: one call,
        and nothing is stored when a lane is full or broken; beyond 1,000 jobs or 2 MiB it is a
        ConfigError. Where a key of a lane is damaged, its jobs get the outcome `lane_broken`, and
        LaneBroken with all outcomes is raised when the others are in. A failure half-way raises
        BatchInterrupted; enqueueing the same specs again adds what is missing.
        With `durable`, NotDurable has the outcomes so far; specs beyond them were not sent.
        """
        return self._producer.send_many(
            specs, on_full=on_full, wait=wait, atomic=atomic, durable=durable
        )

    @verb
    def lanes(self, limit: int = 1000, by: LaneSort | None = None) -> Operation[list[LaneInfo]]:
        """At most `limit` lanes, those with work rather than others, in no order.

        `by`: of all lanes those with the most `waiting`, `running` or `served` jobs, or the longest
        `oldest_wait`, the first the highest; of `served`, lanes in the ring and those served in the
        last two minutes. In pages: no call to the server grows with the number of lanes.
        """
        return self._link.inspector.lanes(limit, by)

    @verb
    def highest_lanes(self, limit: int = 100) -> Operation[dict[LaneSort, list[LaneInfo]]]:
        """The `limit` highest lanes by each figure that `lanes` may go by, of fewer walks."""
        return self._link.inspector.highest(limit, *get_args(LaneSort))

    @verb
    def lanes_page(self, cursor: str | None = None) -> Operation[LanesPage]:
        """A page of all lanes, in no order; `cursor`: the one of the page before.

        A lane that changes meanwhile may come twice. Raises ConfigError.
        """
        return self._link.inspector.lanes_page(cursor)

    @verb
    def lanes_named(self, names: Iterable[str]) -> Operation[list[LaneInfo]]:
        """These lanes as they stand, in the order given. Also lanes of names that are refused now:
        what is stored may be damaged."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ConfigError(f"names: expected names of lanes, given {shown(names)}")
        return self._link.inspector.lanes_named([stored_name(name) for name in names])

    @verb
    def shares(self, limit: int = 20, by: ShareSort = "behind") -> Operation[Shares]:
        """What lanes were given in the last one to two minutes against what was due to them.

        Tells of `limit` lanes, those furthest `behind` first, or the highest `by` another figure;
        what is said of all, and what is due, is reckoned over every lane that has wanted turns. In
        pages: no call to the server grows with the number of lanes, the caller's memory does, by
        some 400 bytes each.
        """
        return self._link.inspector.shares(limit, by)

    @verb
    def census(self, top: int = 10) -> Operation[Census]:
        """How many lanes are in which state, how long they wait, how fair it was of late.

        Names the `top` lanes that wait longest, at most 100. In pages and in constant memory: no
        call to the server grows with the number of lanes, the number of calls does.
        """
        return self._link.inspector.census(top)

    @verb
    def set(
        self,
        *,
        default_ceiling: int | Unset | None = UNSET,
        default_weight: float | Unset | None = UNSET,
        ceiling: int | Unset | None = UNSET,
        dead_max: int | Unset | None = UNSET,
        dead_age: float | timedelta | Unset | None = UNSET,
    ) -> Operation[None]:
        """Changes what holds for the whole queue; None removes a setting.

        `default_ceiling`, `default_weight`: for lanes without one of their own or of their
        template. `ceiling`: most entries in flight of all lanes together, 0 stops the queue.
        `dead_max`, `dead_age` (seconds): how many dead jobs are kept, and how long; 100,000 and
        180 days unless set. A dead job that holds its sequence is kept whatever these say.
        """
        return self._link.store.queue_set(
            default_ceiling=default_ceiling,
            default_weight=default_weight,
            ceiling=ceiling,
            dead_max=dead_max,
            dead_age=dead_age,
        )

    @verb
    def set_template(
        self,
        name: str,
        *,
        ceiling: int | Unset | None = UNSET,
        weight: float | Unset | None = UNSET,
        rate: Rate | Unset | None = UNSET,
        backlog: int | Unset | None = UNSET,
    ) -> Operation[None]:
        """Makes a template of limits, or changes it: for lanes with `lane.set(template=name)`.

        A lane's own setting wins, and the queue's default holds where both say nothing. Claims
        follow the change at once; lanes that only it allows to be served are reached in pages
        while work goes on. At most 1,000 templates (ConfigError).
        """
        return self._link.store.set_template(
            name, ceiling=ceiling, weight=weight, rate=rate, backlog=backlog
        )

    @verb
    def drop_template(self, name: str) -> Operation[bool]:
        """Removes a template; lanes that refer to it keep their own settings and the defaults."""
        return self._link.store.drop_template(name)

    @verb
    def templates(self) -> Operation[dict[str, Template]]:
        """The templates there are."""
        return self._link.store.templates()

    @verb
    def set_lanes(self, limits: Mapping[str, Mapping[str, Any]]) -> Operation[None]:
        """Changes many lanes: name → the keywords of `Lane.set`.

        All are checked before one is changed, their templates too. Raises ConfigError.
        """
        return self._link.store.set_lanes(limits)

    @verb
    def pause(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: datetime | float | None = None,
    ) -> Operation[None]:
        """Hands out nothing of the whole queue until `resume`, or until the instant `until`.

        What is in flight goes on. Pausing again replaces end and reason.
        """
        return self._link.store.shut_gate(reason=reason, by=by, until=until)

    @verb
    def resume(self) -> Operation[bool]:
        """Ends a pause of the queue; False where there was none. Lanes' own pauses stay."""
        return self._link.store.open_gate()

    @verb
    def purge(self) -> Operation[int]:
        """Deletes what waits and what is delayed in the whole queue, in pages; says how many.

        What was there when the call began goes; jobs enqueued meanwhile may go or stay. What is in
        flight goes on, and dead jobs stay.
        """
        return self._link.store.purge_queue()

    @verb
    def consumers(self, limit: int = 1000) -> Operation[list[ConsumerInfo]]:
        """Consumers that have a lease."""
        return self._link.inspector.consumers(limit)

    @verb
    def jobs(
        self,
        state: JobState,
        *,
        lane: str | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Operation[JobsPage]:
        """A page of the jobs that are `waiting`, `delayed`, `running` or `dead`.

        Waiting ones are told by lane, in the order in which they may be claimed: its pending
        entries, then its sequences that are out. Of one lane the delayed and the dead come by time;
        over several no order is promised. `cursor`: the one of the page before. At most 200 a page.
        What changes its place between pages may be told twice, or not at all. Raises ConfigError.
        """
        return self._link.inspector.jobs(state, lane=lane, task=task, cursor=cursor, limit=limit)

    @verb
    def sequences(
        self, *, lane: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> Operation[SequencesPage]:
        """A page of the sequences of a lane, those that are out first, or of all lanes.

        `cursor`: the one of the page before. At most 200 a page. Raises ConfigError.
        """
        return self._link.inspector.sequences(lane=lane, cursor=cursor, limit=limit)

    @verb
    def quiet(self, consumer: str) -> Operation[bool]:
        """Asks the process of a consumer to claim nothing more; what it holds goes on.

        It hears of it with its next beat, at most 5 s unless set otherwise, and stays so until it
        ends. False: no such lease. A `queue.consumer()` shows what was asked as its `asked`.
        """
        return self._link.store.order(names.job_id(consumer), "quiet")

    @verb
    def stop(self, consumer: str) -> Operation[bool]:
        """Asks the process of a consumer to stop, as a SIGTERM would; see `quiet`.

        A supervisor such as that of `rota worker -p` starts another in its place.
        """
        return self._link.store.order(names.job_id(consumer), "stop")

    @verb
    def evict(self, consumer: str) -> Operation[int | None]:
        """Ends a consumer's lease: what it holds goes back uncounted. None: no such lease."""
        return self._link.store.evict(names.job_id(consumer))

    @look
    def doctor(
        self, repair: bool = False, *, progress: Progress | None = None
    ) -> Operation[Report]:
        """Checks the queue's invariants and its server while work goes on; see docs/doctor.md.

        With `repair` it mends what it can. What it reports was so when it was looked at; what is
        too large to be sure of is in `unchecked`. `progress` is told which check begins, its number
        and how many there are.
        """
        return examine(
            self._link.keys, repair=repair, park_s=self._consuming.beat, progress=progress
        )

    @look
    def advice(self) -> Operation[list[Advice]]:
        """What of the server's settings endangers the queue: the doctor's first check alone."""
        return ServerCheck(self._link.keys, self._consuming.beat).examine()

    @verb
    def info(self) -> Operation[QueueInfo]:
        """Totals of the queue."""
        return self._link.inspector.queue()

    @look
    def exists(self) -> Operation[bool]:
        """Whether anything of the queue is on its server: settings, workers, a job at any time."""
        return self._link.inspector.exists()

    @look
    def server_queues(self) -> Operation[list[FoundQueue]]:
        """All queues on this one's server, on a cluster those of all its nodes.

        Looks through all keys of the server, some at a time.
        """
        return server_queues()


class Queue(_QueueVerbs, AsyncFace):
    """A named set of lanes on one server.

    `url`: the server (see `rota.connection.target`); None takes ROTA_URL at the first use, else an
    embedded server in `.rota`. `prefix` opens every key. With `require_lane` a job without a lane
    is refused (ConfigError), and the default lane counts as none. `default_ceiling` holds for lanes
    without one of their own; None leaves the queue's as it is, and so does a number that code has
    given before: what `set` has changed since stays until code gives another. `max_payload` in
    bytes, up to 64 MiB. `beat`: the fallback period of idle consumers, in seconds. `durable`: what
    every enqueue waits for before it returns. `timeout`: the most a call to the server takes in
    all, waits and resends included; in seconds, 0.1 … 30. `shards`: over how many hash slots, and
    so nodes of a cluster, the queue's lanes are spread; 1 is all that is there yet. Raises
    ConfigError; touches no server.

    Queues of one process on one server share their connections. The end of an `async with queue:`
    lets go of them, as `close` does.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str | None = None,
        prefix: str = config.DEFAULT_PREFIX,
        require_lane: bool = False,
        default_ceiling: int | None = None,
        max_payload: int = config.DEFAULT_MAX_PAYLOAD,
        beat: float | timedelta = config.BEAT_S,
        durable: Durable | None = None,
        timeout: float | timedelta = config.TIMEOUT_S,
        shards: int = 1,
    ) -> None:
        self.max_payload = config.whole(max_payload, 1, config.MAX_MAX_PAYLOAD, "max_payload")
        self.default_ceiling = config.ceiling(default_ceiling)
        config.check_shards(shards)
        link = Link(
            Keys(names.queue_name(name), names.prefix(prefix)),
            url,
            default_ceiling=self.default_ceiling,
            timeout=config.timeout(timeout),
        )
        consuming = Consuming(
            link,
            beat=number(seconds(beat, "beat"), config.MIN_BEAT_S, config.MAX_BEAT_S, "beat"),
        )
        producer = Producer(
            link,
            require_lane=require_lane,
            max_payload=self.max_payload,
            durable=config.durable(durable),
        )
        super().__init__(link, producer, consuming)
        self.link, self.consuming = link, consuming  # for workers, consumers and tests
        self.tasks: dict[str, AnyTask] = {}
        self.lifespans: list[Lifespan] = []

    def __repr__(self) -> str:
        return f"<rota queue {self.name}>"

    # ── tasks ───────────────────────────────────────────────────────────────────────────────

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        max_attempts: int = 5,
        timeout: float | timedelta | None = None,
        backoff: BackoffRule | None = None,
        on_dead: OnDead = "skip",
        cost: float = 1,
        charge: Charge = "cost",
        lane_from: str | None = None,
        ordering_key_from: str | None = None,
        id_from: str | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, function: Any = None, /, **policy: Any) -> Any:
        """Registers a function as a task, named like it unless `name` says otherwise.

        `max_attempts`: runs before a failing job goes to the dead. `timeout` in seconds.
        `backoff`: the wait before a retry, a `rota.Backoff` or a function of the attempt.
        `on_dead`: whether a dead job lets its sequence go on (`skip`) or stops it (`hold`).
        `cost`, 0.001 … 1000: what a job's lane is charged for it, in turns. `charge="time"`: the
        seconds it ran instead, learned from the task's last runs and set right at its end.
        `lane_from`, `ordering_key_from`, `id_from`: parameters whose value is the job's lane,
        ordering key or id. A second task of the same name is a ConfigError.
        """
        known = ("name", *(item.name for item in fields(TaskPolicy)))
        if unknown := policy.keys() - set(known):
            raise ConfigError(f"task: expected {', '.join(known)}, given {shown(sorted(unknown))}")
        name = policy.pop("name", None)
        if policy.get("backoff") is None:
            policy["backoff"] = Backoff()
        checked = TaskPolicy(**policy)
        if function is not None:
            return self._register(function, name, checked)
        return lambda function: self._register(function, name, checked)

    def _register(
        self, function: Callable[..., Any], name: str | None, policy: TaskPolicy
    ) -> AnyTask:
        if isinstance(function, staticmethod):
            function = function.__func__
        inner_function(function)
        given = getattr(function, "__name__", "<none>") if name is None else name
        if name is None and given in ("<lambda>", "<none>"):
            raise ConfigError(
                f"task: {shown(function)} has no name; give one with @queue.task(name=…)"
            )
        task: AnyTask = Task(
            function, name=names.task_name(given), policy=policy, producer=self._producer
        )
        if task.name in self.tasks:
            raise ConfigError(f"queue {self.name} has a task named {task.name!r} already")
        self.tasks[task.name] = task
        return task

    def find_task(self, name: str) -> AnyTask:
        """The registered task; raises UnknownTask."""
        try:
            return self.tasks[name]
        except KeyError:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(
                f"queue {self.name} has no task {name!r} (registered: {known})"
            ) from None

    def decode(self, job: Job) -> None:
        """Fills in what the job's task knows; jobs of other tasks keep their payload only."""
        task = self.tasks.get(job.task)
        if task is not None:
            job.backoff = task.policy.backoff  # also of a job whose arguments cannot be read now
            job.args, job.kwargs = task.codec.decode(job.payload)

    def lifespan(self, function: Callable[[], AsyncIterator[Any]]) -> Lifespan:
        """Registers an async generator that runs around each worker process's life.

        What it yields is `rota.current_job().state`. A queue has one: a second is a ConfigError. A
        stop gives up what comes before the `yield`; what comes after it has the worker's grace
        period, then it is cancelled.
        """
        if not inspect.isasyncgenfunction(function):
            raise ConfigError(
                f"lifespan: expected an async function that yields once, given {shown(function)}"
            )
        if self.lifespans:
            first = getattr(self.lifespans[0], "__name__", "another")
            raise ConfigError(
                f"queue {self.name} has a lifespan already, {first}: expected one; open what "
                f"{function.__name__} opens in {first} too, and yield both, as a tuple or an object"
            )
        manager = asynccontextmanager(function)
        self.lifespans.append(manager)
        return manager

    # ── enqueueing ──────────────────────────────────────────────────────────────────────────

    async def enqueue(
        self, spec: JobSpec, *call: Never, durable: Durable | None = None, **options: Never
    ) -> Enqueued:
        """Stores one job; raises LaneFull where its lane's backlog limit refuses it, LaneBroken
        where a key of its lane is damaged. A task with its arguments is a ConfigError: see
        `task.enqueue`."""
        self._producer.check_call(spec, call, options)
        return await self._producer.send(spec, config.durable(durable))

    async def enqueue_stream(
        self,
        specs: Iterable[JobSpec],
        *,
        on_full: OnFull = "outcome",
        wait: float | timedelta = 60,
        durable: Durable | None = None,
    ) -> AsyncIterator[Enqueued]:
        """Stores any number of jobs in constant memory, yielding outcomes in order, of broken lanes
        `lane_broken`.

        A failure raises BatchInterrupted, and `on_full="raise"` LaneFull, with the outcomes of
        its own call; those of the calls before have been yielded. ServerFull: nothing of its own
        call is stored.
        """
        for part in self._producer.send_parts(specs, on_full=on_full, wait=wait, durable=durable):
            for done in await self._link.run(part):
                yield done

    # ── parts of it, and the other face ─────────────────────────────────────────────────────

    def lane(self, name: str) -> Lane:
        return Lane(names.lane_name(name), self._link)

    @property
    def dead(self) -> DeadJobs:
        return DeadJobs(self._link)

    def job(self, id: str) -> JobHandle:
        return JobHandle(names.job_id(id), self._link)

    def consumer(self, *, lease: float | timedelta = config.LEASE_S, prefetch: int = 1) -> Consumer:
        """A consumer for claiming and settling by hand; use it with `async with`."""
        return Consumer(self._consuming, lease=lease, prefetch=prefetch, decode=self.decode)

    @property
    def sync(self) -> SyncQueue:
        """The same queue for code without an event loop."""
        return SyncQueue(self)

    def use_server(self, url: str) -> bool:
        """Names its server, as long as it has not been used; False where it is on another."""
        return self.link.use(url)

    @property
    def unstarted_server(self) -> Path | None:
        """The directory where its first use would start an embedded server that has never run;
        None where its server is another, or has run."""
        return self.link.unstarted

    def apart(self, *, timeout: float | timedelta, resend: bool = True) -> SyncQueue:
        """Its blocking face with a connection of its own, for one thread at a time: for probes,
        which must not wait for others. Calls take at most `timeout`, and are not made again where
        that is not wanted. Close it.
        """
        link = self.link.apart(timeout=config.timeout(timeout), resend=resend)
        return SyncQueue(self, link)

    async def close(self) -> None:
        """Lets go of this loop's connections, which end with the last queue that uses them.

        Optional: they end with the loop, and idle ones after a minute.
        """
        await self._link.close()

    async def __aenter__(self) -> Queue:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class SyncQueue(_QueueVerbs, BlockingFace):
    """A queue for code without an event loop, in threads and after a fork too; its verbs are those
    of `Queue`, without `await`.

    The end of a `with queue.sync:` closes the connections of blocking callers, as `close` does.
    """

    def __init__(self, queue: Queue, link: Link | None = None) -> None:
        super().__init__(link or queue.link, queue._producer, queue.consuming)
        self._decode = queue.decode

    def enqueue(
        self, spec: JobSpec, *call: Never, durable: Durable | None = None, **options: Never
    ) -> Enqueued:
        """Stores one job; raises as `Queue.enqueue` does."""
        self._producer.check_call(spec, call, options)
        return self._producer.send_blocking(spec, config.durable(durable))

    def enqueue_stream(
        self,
        specs: Iterable[JobSpec],
        *,
        on_full: OnFull = "outcome",
        wait: float | timedelta = 60,
        durable: Durable | None = None,
    ) -> Iterator[Enqueued]:
        """Stores any number of jobs in constant memory, as `Queue.enqueue_stream` does."""
        for part in self._producer.send_parts(specs, on_full=on_full, wait=wait, durable=durable):
            yield from self._link.run_sync(part)

    def lane(self, name: str) -> SyncLane:
        return SyncLane(names.lane_name(name), self._link)

    @property
    def dead(self) -> SyncDeadJobs:
        return SyncDeadJobs(self._link)

    def job(self, id: str) -> SyncJobHandle:
        return SyncJobHandle(names.job_id(id), self._link)

    def consumer(
        self, *, lease: float | timedelta = config.LEASE_S, prefetch: int = 1
    ) -> SyncConsumer:
        """A consumer for claiming and settling by hand; use it with `with`."""
        return SyncConsumer(self._consuming, lease=lease, prefetch=prefetch, decode=self._decode)

    def close(self) -> None:
        """Lets go of the connections of blocking callers; optional, idle ones end by themselves."""
        self._link.close_sync()

    def __enter__(self) -> SyncQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
