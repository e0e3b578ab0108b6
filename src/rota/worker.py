"""A worker: one process's share of the work of one or more queues, from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import timedelta

from rota.errors import ConfigError, RotaError
from rota.health import Check, Health
from rota.observe.observer import SILENT, Observer
from rota.queue import Queue
from rota.values import config
from rota.values.guide import OF_WORKERS, Guide
from rota.values.model import Instruction
from rota.values.telling import Logger
from rota.values.timing import seconds
from rota.work.executor import Executor
from rota.work.fetcher import Fetcher
from rota.work.lifespan import Lifespan, until
from rota.work.slots import Slots
from rota.work.watchdog import Watchdog

logger = Logger("rota.worker")

SETTLE_S = 1.0
"""How long a stop waits for the server to take the last endings."""
LEFT_S = 1.0
"""How long it waits to be told what is left."""
SLUGGISH_S = 5.0
STUCK_S = 60.0
"""How long its event loop may stand still: until it is not ready, until it counts as dead."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What a worker did: jobs done, retried, gone to the dead; and what is left in its queues.

    `dead`: also those that could not be run: expired, of an unknown task, with other arguments.

    `left`: what waits or is delayed there when the worker ends, whoever enqueued it; None where a
    server could not be asked.
    """

    done: int
    retried: int
    dead: int
    left: int | None


class Worker(Guide):
    """Runs the jobs of queues in `concurrency` slots, which the queues share in rotation.

    `await run()` until `stop()`, or with `burst=True` until nothing is claimable and nothing it
    took is in flight; or `async with Worker(queue)` beside an application. Stopping claims
    nothing more, waits up to `grace` seconds for what runs and gives the rest back uncounted; then
    lifespans have as long to end. Stopped while it starts, it gives that up.
    """

    _called_here = OF_WORKERS

    def __init__(
        self,
        queue: Queue | Iterable[Queue],
        *,
        concurrency: int = config.CONCURRENCY,
        prefetch: int = config.PREFETCH,
        lease: float | timedelta = config.LEASE_S,
        grace: float | timedelta = config.GRACE_S,
    ) -> None:
        self.queues = [queue] if isinstance(queue, Queue) else list(queue)
        if not self.queues or not all(isinstance(one, Queue) for one in self.queues):
            raise ConfigError(f"worker: expected a rota.Queue or several, given {queue!r}")
        if len({one.root for one in self.queues}) < len(self.queues):
            raise ConfigError("worker: expected each queue once")
        self.config = config.WorkerConfig(
            concurrency=concurrency,
            prefetch=prefetch,
            lease=seconds(lease, "lease"),
            grace=seconds(grace, "grace"),
        )
        self._fetchers: list[Fetcher] = []
        self._loops: list[asyncio.Task[None]] = []
        self._watchdog: Watchdog | None = None
        self._observers: dict[str, Observer] = {}
        self.holding: Callable[[Queue, str | None], None] = lambda queue, consumer: None
        """Told under which identity it holds jobs of a queue; None when it has left."""
        self._lifespans: list[Lifespan] = []
        self._teardown: float | None = None
        self._begun = False
        self._task: asyncio.Task[Drained] | None = None
        self._running = False
        self._renew()

    def _renew(self) -> None:
        """An event belongs to the loop that first waits for it; a worker may run in several."""
        self.started = asyncio.Event()
        """Set once every queue was reached and work is fetched."""
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._quiet = False

    async def run(self, *, burst: bool = False) -> Drained:
        """Works until stopped; raises Unavailable when a queue cannot be reached at the start.

        One run at a time: a second one is a RuntimeError.
        """
        if self._running:
            raise RuntimeError("this worker runs already")
        self._running = True
        try:
            return await self._run(burst=burst)
        finally:
            self._renew()
            self._running = False

    async def _run(self, *, burst: bool) -> Drained:
        context = contextvars.copy_context()
        self._fetchers, self._lifespans, self._teardown = [], [], None
        async with contextlib.AsyncExitStack() as lives, contextlib.AsyncExitStack() as stack:
            if await self._unless_stopped(self._open(context, lives, stack, burst=burst)):
                await self._work(context)
        return await self._drained(burst=burst)

    async def _open(
        self,
        context: contextvars.Context,
        lives: contextlib.AsyncExitStack,
        stack: contextlib.AsyncExitStack,
        *,
        burst: bool,
    ) -> None:
        """Lifespans are left after all queues were: one that hangs holds no job."""
        slots = Slots(self.config.concurrency)
        executor = Executor(threads=self.config.concurrency)
        lives.callback(executor.close)
        for queue in self.queues:
            state: object = None
            for manager in queue.lifespans:
                lifespan = Lifespan(queue.name, manager(), context)
                state = await lifespan.enter()
                self._lifespans.append(lifespan)
                lives.push_async_callback(self._leave_lifespan, lifespan)
            fetcher = Fetcher(
                queue,
                slots=slots,
                executor=executor,
                lease=self.config.lease,
                prefetch=self.config.prefetch,
                state=state,
                obey=self._obey,
                holding=lambda queue, consumer: self.holding(queue, consumer),
                observer=self._observers.get(queue.link.keys.root, SILENT),
            )
            await fetcher.open(burst=burst)
            self._fetchers.append(fetcher)
            stack.push_async_callback(self._close_fetcher, fetcher)
            if self._quiet:
                fetcher.quieten()
            _warn_of_eviction(queue)

    async def _unless_stopped(self, opening: Coroutine[object, object, None]) -> bool:
        """Whether it came to its end; a stop gives it up."""
        task = asyncio.create_task(opening)
        try:
            await until([task], None, self._stopping)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if task.cancelled():
            return False
        task.result()
        return True

    async def _work(self, context: contextvars.Context) -> None:
        watchdog = self._watchdog = Watchdog(self._fetchers, grace=self.config.grace)
        with watchdog.watching():
            loops = [asyncio.create_task(one.run(), context=context) for one in self._fetchers]
            self._loops, self._begun = list(loops), True
            self.started.set()
            try:
                await self._until_stopped(loops)
            finally:
                await self._drain(loops)
                self._loops = []

    async def _until_stopped(self, loops: list[asyncio.Task[None]]) -> None:
        """Ends on `stop()`, when all loops have ended (a burst), or when one failed, or a
        lifespan did."""
        stopping = asyncio.create_task(self._stopping.wait())
        lives = [lifespan.task for lifespan in self._lifespans]
        try:
            pending: set[asyncio.Task[None]] = set(loops)
            while pending and not stopping.done():
                done, _ = await asyncio.wait(
                    [*pending, *lives, stopping], return_when=asyncio.FIRST_COMPLETED
                )
                for lifespan in self._lifespans:
                    lifespan.check()
                for task in done & pending:
                    pending.discard(task)
                    task.result()
        finally:
            stopping.cancel()

    async def _drain(self, loops: list[asyncio.Task[None]]) -> None:
        for fetcher in self._fetchers:
            fetcher.stop_fetching()
        try:
            ended = asyncio.gather(
                *(f.entries.until_ended(self.config.grace) for f in self._fetchers)
            )
            try:
                await until([ended], None, self._hurrying)
            finally:
                ended.cancel()
            await asyncio.gather(*(f.finish() for f in self._fetchers))
            await asyncio.wait(loops, timeout=SETTLE_S)
        finally:  # also when the stop itself is cancelled: no handler outlives its worker
            for fetcher in self._fetchers:
                fetcher.entries.cancel_all()
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _leave_lifespan(self, lifespan: Lifespan) -> None:
        """All of them together have the grace period."""
        now = time.monotonic()
        if self._teardown is None:
            grace = self.config.grace
            self._teardown = now + (grace if self.stopping else max(grace, config.GRACE_S))
        await lifespan.leave(max(0.0, self._teardown - now), self._hurrying)

    async def _close_fetcher(self, fetcher: Fetcher) -> None:
        try:
            await fetcher.close()
        except (RotaError, TimeoutError) as error:
            logger.warning(
                "queue %s: leaving failed, its lease will run out: %s",
                fetcher.queue.name,
                str(error) or "the server does not answer",
            )

    async def _drained(self, *, burst: bool) -> Drained:
        tallies = [fetcher.tally for fetcher in self._fetchers]
        left = None
        if not self._hurrying.is_set():
            with contextlib.suppress(RotaError, TimeoutError):
                async with asyncio.timeout(None if burst and not self.stopping else LEFT_S):
                    totals = [await queue.info() for queue in self.queues]
                left = sum(info.waiting + info.delayed for info in totals)
        return Drained(
            done=sum(tally.done for tally in tallies),
            retried=sum(tally.retried for tally in tallies),
            dead=sum(tally.dead for tally in tallies),
            left=left,
        )

    def stop(self, *, now: bool = False) -> None:
        """Begins to stop; `run` returns when it is done. Call it in the worker's loop.

        With `now` nothing is waited for: what runs is cancelled and goes back, uncounted.
        """
        self._stopping.set()
        if now:
            self._hurrying.set()

    def quiet(self) -> None:
        """Claims nothing more, and stays until it is stopped; what it holds goes on."""
        self._quiet = True
        for fetcher in self._fetchers:
            fetcher.quieten()

    def _obey(self, word: Instruction) -> None:
        """What someone asked by `queue.quiet` or `queue.stop`; told again with every beat."""
        if word == "stop" and not self.stopping:
            logger.info("asked to stop")
            self.stop()
        elif word == "quiet" and not self._quiet:
            logger.info("asked to be quiet: it claims nothing more")
            self.quiet()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return sum(len(fetcher.running_jobs) for fetcher in self._fetchers)

    # ── what it tells of itself ─────────────────────────────────────────────────────────────

    def observe(self, queue: Queue, observer: Observer) -> None:
        """From now on `observer` is told of the jobs of `queue`; see `rota.observe.observer`."""
        self._observers[queue.link.keys.root] = observer
        for fetcher in self._fetchers:
            if fetcher.queue is queue:
                fetcher.observe(observer)

    @property
    def fetchers(self) -> tuple[Fetcher, ...]:
        """Its loops, one for each queue; those of the last run where it has ended."""
        return tuple(self._fetchers)

    @property
    def lag(self) -> float:
        """How late its event loop turned last, in seconds; more where it hangs."""
        return max(self._watchdog.lag, self._watchdog.hung) if self._watchdog else 0.0

    def health(self) -> Health:
        """How it is, from what it knows: asks nobody, and may be called from any thread.

        Of each queue: its server answers claims and heartbeats, the doorbell's connection is up,
        leases are kept, the loop that fetches runs. Of the process: its event loop turns.
        """
        if not self._running or not self._loops:
            ended = self._begun and not self._running
            return Health((Check("worker", False, "it does not run", vital=ended),))
        hung = self._watchdog.hung if self._watchdog else 0.0
        turning = Check(
            "event loop", hung < SLUGGISH_S, f"has not turned for {hung:.0f} s" if hung > 1 else ""
        )
        alive = Check("process", hung < STUCK_S, turning.text, vital=True)
        staying = Check("worker", not self.stopping, "stops" if self.stopping else "")
        checks = [alive, turning, staying]
        for fetcher, loop in zip(self._fetchers, self._loops, strict=False):
            name = fetcher.queue.name
            ended = loop.done() and not self.stopping
            text = "has ended" if ended else ""
            checks.append(Check(f"{name}: fetch loop", not ended, text, vital=True))
            for part, trouble in fetcher.troubles().items():
                checks.append(Check(f"{name}: {part}", trouble is None, trouble or ""))
        return Health(tuple(checks))

    async def __aenter__(self) -> Worker:
        self._task = asyncio.create_task(self.run())
        started = asyncio.create_task(self.started.wait())
        try:
            await asyncio.wait([self._task, started], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:  # nobody would be there to stop it
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        finally:
            started.cancel()
        if self._task.done():
            self._task.result()  # it could not start: its error, here and now
        self._task.add_done_callback(_log_failure)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self.stop()
        await self._task


def _warn_of_eviction(queue: Queue) -> None:
    for policy in queue.link.async_client.policies - {"noeviction"}:
        logger.warning(
            "queue %s: its server evicts keys when its memory is full, and jobs with them: "
            "set maxmemory-policy noeviction (it has %s)",
            queue.name,
            policy,
        )


def _log_failure(task: asyncio.Task[Drained]) -> None:
    """The block around it goes on; without this line nobody would know that no job runs."""
    if not task.cancelled() and task.exception() is not None:
        logger.critical("the worker has ended", exc_info=task.exception())
