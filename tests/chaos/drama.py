"""One performance: the stage with its server, the load, the harm, the drain, and the judgement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import redis

import rota
from rota.embedded import EmbeddedServer, acquire, running
from rota.script.keys import Keys
from tests.chaos.evidence import Evidence
from tests.chaos.faults import Mischief, raw_client
from tests.chaos.finding import Corpse, Final
from tests.chaos.observer import Notebook, read_record
from tests.chaos.report import explain
from tests.chaos.verdict import Verdict
from tests.chaos.workers import GRACE, LEASE, Crew, Place
from tests.chaos.world import CEILINGS, World
from tests.model import audit
from tests.support.proxy import Proxy
from tests.support.waiting import eventually_async

QUEUE = "chaos"
DIRECT, PROXIED = 3, 2
DRAIN_S = 90.0
CONSTANT = {"config", "seq", "stats", "glimit", "gweight", "wake"}
"""Keys that may stay when nothing is left to do and no worker is there."""


class Drama:
    """The server's directory and the record are in `folder`."""

    def __init__(self, folder: Path, *, seed: str) -> None:
        self._folder = folder
        self._directory = folder / "server"
        self._path = folder / "record"
        self._notebook = Notebook(self._path)
        self._random = Random(seed)
        self._unsound: list[str] = []
        self._final = Final()
        self._discarded: dict[str, Corpse] = {}
        self._began = time.monotonic()
        self._took: dict[str, float] = {}
        self._keys = Keys(QUEUE)

    @asynccontextmanager
    async def stage(self) -> AsyncIterator[None]:
        """Server, queue and workers; nothing of them is left afterwards."""
        async with AsyncExitStack() as stack:
            stack.callback(self._notebook.close)
            stack.push_async_callback(self._await_server_gone)
            server = await asyncio.to_thread(acquire, self._directory)
            stack.callback(server.close)
            self._server: EmbeddedServer = server
            self.queue = rota.Queue(QUEUE, url=f"embedded:{self._directory}")
            stack.push_async_callback(self.queue.close)
            places = [Place(f"embedded:{self._directory}") for _ in range(DIRECT)]
            for _ in range(PROXIED):
                proxy = stack.enter_context(Proxy(server.socket))
                places.append(Place(proxy.url, proxy))
            self.world = World(self.queue, self._notebook, self._part("world"))
            self.crew = Crew(
                places,
                QUEUE,
                self._folder,
                self._path,
                self._part("crew"),
                self._notebook,
            )
            self.mischief = Mischief(
                self.crew, self._directory, server.socket, self._part("mischief"), self._notebook
            )
            await self.world.build()
            self.crew.start()
            stack.push_async_callback(self.crew.kill)
            stack.push_async_callback(self.mischief.undo)
            yield

    def _part(self, name: str) -> Random:
        """Each part has its own dice, so that none disturbs another's."""
        return Random(f"{self._random.getrandbits(64)} {name}")

    # ── the acts ────────────────────────────────────────────────────────────────────────────

    async def play(self, seconds: float) -> None:
        """Load and harm, side by side, and a look at the server's keys each second."""
        async with asyncio.TaskGroup() as acts:
            watch = acts.create_task(self._watch_keys())
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self.world.run(seconds))
                parts.create_task(self.mischief.run(seconds))
            watch.cancel()
        self._took["play"] = time.monotonic() - self._began

    async def _watch_keys(self) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                found = audit.findings(await asyncio.to_thread(self._dump))
            except (redis.RedisError, OSError):
                continue  # just now there is no server
            self._unsound += [f"{time.monotonic():.3f} {finding}" for finding in found]

    async def drain(self) -> None:
        """No more harm: everything ends, with an operator's help where a dead job holds."""
        await self.mischief.undo()
        self.crew.calm = True
        self.crew.mercy.touch()
        self._notebook.note("drain begins")
        try:
            await eventually_async(self._is_drained, "not drained", timeout=DRAIN_S, interval=0.2)
        except AssertionError as error:
            self._unsound.append(f"{error}\n{self._stuck()}")
        self._took["drain"] = time.monotonic() - self._began - sum(self._took.values())

    async def _is_drained(self) -> bool:
        await self._operate()
        info = await self.queue.info()
        left = info.waiting, info.running, info.delayed
        assert left == (0, 0, 0), f"waiting, running, delayed: {left}"
        return True

    async def _operate(self) -> None:
        """Dead jobs that hold their sequence are replayed; those that kill are discarded."""
        for job in await self.queue.dead.list(lane="held", limit=1000):
            kills = self.world.plans[job.id] == "kill"
            verb = "discard" if kills or self._random.random() < 0.3 else "replay"
            self._notebook.note("operator", job=job.id, verb=verb)
            if verb == "discard":
                self._discarded[job.id] = _corpse(job)
                await self.queue.dead.discard(job.id)
            else:
                await self.queue.dead.replay(job.id)

    def _stuck(self) -> str:
        dump = self._dump()
        left = {name: dump.get(name) for name in ("gwaiting", "gactive", "held", "blocked", "ring")}
        consumers = {name: dump.get(f"c:{name}") for name in dump.get("consumers")}
        return f"{left}\nconsumers {consumers}\n{self.crew.complaints()[-3000:]}"

    async def end(self) -> None:
        """Takes stock, discards the dead, stops the workers; only constant keys may be left."""
        dump = await asyncio.to_thread(self._dump)
        self._unsound += audit.findings(dump)
        self._final = await self._take_stock(dump)
        await self.queue.dead.discard_all()
        await self.crew.stop()
        try:
            await eventually_async(self._is_bare, "keys are left", timeout=10, interval=0.1)
        except AssertionError as error:
            self._unsound.append(str(error))
        self._took["end"] = time.monotonic() - self._began - sum(self._took.values())

    async def _take_stock(self, dump: audit.Dump) -> Final:
        dead = {job.id: _corpse(job) async for job in self.queue.dead.iterate()}
        jobs = {id for id, _ in dump.each("job:")}
        return Final(
            dead=dead,
            discarded=self._discarded,
            left=frozenset(jobs - dead.keys()),
            totals=dump.counts("stats"),
        )

    async def _is_bare(self) -> bool:
        """An operator's look and beat: the consumers that were killed last go too."""
        await self.queue.link.run(self.queue.link.store.beat())
        async with self.queue.consumer() as consumer:
            assert not await consumer.claim()
        dump = await asyncio.to_thread(self._dump)
        left = [name for name in dump.types if not name.startswith(audit.TRANSIENT)]
        assert set(left) <= CONSTANT, f"{sorted(set(left) - CONSTANT)}"
        assert not (found := audit.findings(dump)), found
        return True

    def _dump(self) -> audit.Dump:
        with raw_client(self._server.socket, timeout=5) as raw:
            return audit.read(raw, self._keys)

    async def _await_server_gone(self) -> None:
        await eventually_async(
            lambda: not running(self._directory), "the embedded server stays", timeout=30
        )

    # ── the judgement ───────────────────────────────────────────────────────────────────────

    def judge(self) -> tuple[Evidence, Verdict]:
        evidence = Evidence(read_record(self._path), lease=LEASE, grace=GRACE)
        return evidence, Verdict(evidence, self._final, ceilings=CEILINGS)

    def problems(self) -> str:
        """Empty where every promise was kept, else what was not, with its story."""
        evidence, verdict = self.judge()
        parts = list(dict.fromkeys(self.crew.failures))
        if self._unsound:
            shown = "\n  ".join(self._unsound[:20])
            parts.append(f"{len(self._unsound)} times unsound keys:\n  {shown}")
        if verdict.findings:
            parts.append(explain(evidence.record, verdict.findings))
        return "\n\n".join(parts)

    def figures(self) -> str:
        evidence, verdict = self.judge()
        record = evidence.record
        took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self._took.items())
        reached = {lane: verdict.most_permits(lane) for lane in CEILINGS}
        jobs, runs, claims = self.world.enqueued, len(record.runs), len(record.claims)
        zombies = sum(evidence.ends_as_zombie(run) and run.end is not None for run in record.runs)
        lines = [
            f"{jobs} jobs, {runs} runs, {claims} claims; {took}",
            f"{self.crew.deaths} workers killed; faults {dict(self.mischief.done.most_common())}",
            f"{zombies} handlers outlived their lease or their worker's grace",
            f"{len(self._final.dead)} dead, {len(verdict.unlucky)} of them killed nobody",
            f"permits reached {reached}, ceilings {CEILINGS}",
        ]
        return "\n".join(lines)


def _corpse(job: rota.JobInfo) -> Corpse:
    return Corpse(job.error == "worker lost", job.deaths, job.attempts)
