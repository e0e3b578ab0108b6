"""Jobs whose worker dies under them: counted, limited, and at no one else's cost.

Workers are processes that a supervisor starts again; the job that kills is `os.kill(self, 9)`.
There is no other worker: between a death and the next start nobody keeps the time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rota
from tests.failures.tools import Hand, Timed, beat, jobs, stats, until_done, working
from tests.support.queues import (
    assert_drained,
    assert_sound,
    dump,
    end_lease,
    end_leases,
    open_queue,
)
from tests.support.servers import Server
from tests.support.times import IN_TIME, LEASE, PATIENCE
from tests.support.waiting import eventually_async

ROOT = Path(__file__).parents[2]
BEAT = 0.3

PROGRAM = """
import asyncio, os, signal, sys, time
import rota

queue = rota.Queue(sys.argv[2], url=sys.argv[1], beat=0.3)
log = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def note():
    os.write(log, f"{rota.current_job().id} {os.getpid()}\\n".encode())

@queue.task(max_attempts=3)
async def work():
    note()
    await asyncio.sleep(0.02)

@queue.task(max_attempts=3)
async def kill():
    note()
    os.kill(os.getpid(), signal.SIGKILL)

@queue.task(max_attempts=3, on_dead="hold")
def kill_hold():
    note()
    os._exit(9)

asyncio.run(rota.Worker(queue, concurrency=int(sys.argv[4]), prefetch=5, lease=30, grace=1).run())
"""


class Supervisor:
    """Keeps one worker process running; knows how often it was ended from inside. The lease of one
    that has ended is made to end at once, so that no other has to be short."""

    def __init__(self, folder: Path, server: Server, queue: rota.Queue, *, slots: int = 4) -> None:
        self.log = folder / f"log-{queue.name}"
        program = folder / "worker.py"
        program.write_text(textwrap.dedent(PROGRAM))
        self._command = [
            sys.executable, str(program), server.url, queue.name, str(self.log), str(slots)
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self._end_leases = partial(end_leases, server, queue)
        self.crashes = 0

    def keep(self) -> bool:
        """Looks after it: starts it, and again when it has ended. True."""
        if self._process is not None and self._process.poll() is not None:
            self._end_leases(self._process.pid)
            self.crashes += 1
            self._process = None
        if self._process is None:
            environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
            self._process = subprocess.Popen(self._command, env=environment)
        return True

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(IN_TIME)

    def starts(self) -> Counter[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return Counter(line.split()[0] for line in lines)


Supervise = Callable[..., Supervisor]


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Supervise]:
    made: list[Supervisor] = []

    def begin(server: Server, queue: rota.Queue, **settings: int) -> Supervisor:
        made.append(Supervisor(tmp_path, server, queue, **settings))
        return made[-1]

    yield begin
    for one in made:
        one.close()


# ── the task that kills its worker ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["lane", "sequence", "held sequence"])
async def test_a_job_that_kills_its_worker_is_buried_after_three_starts(
    server: Server, queue_name: str, supervise: Supervise, place: str
) -> None:
    """C57: one lane of ceiling 1 (its sequence), two other lanes. Cancelling between deaths is
    not asked for here: there is no cancel yet."""
    fields: dict[str, Any] = {
        "lane": {"lane": "bad"},
        "sequence": {"lane": "bad", "ordering_key": "k"},
        "held sequence": {"lane": "!bad"},
    }[place]
    async with open_queue(server, queue_name, beat=BEAT) as queue:
        await queue.lane(fields["lane"]).set(ceiling=1)
        poison = "kill_hold" if place == "held sequence" else "kill"
        neighbours = [
            rota.JobSpec(task="work", id=f"n{n}", payload=b"{}", lane=f"l{n % 2}")
            for n in range(40)
        ]
        behind = [rota.JobSpec(task="work", id=f"b{n}", payload=b"{}", **fields) for n in range(8)]
        await queue.enqueue_many(
            [
                rota.JobSpec(
                    task=poison,
                    id="poison",
                    payload=b"{}",
                    on_dead="hold" if place == "held sequence" else "skip",
                    **fields,
                ),
                *behind,
                *neighbours,
            ]
        )
        supervisor = supervise(server, queue)
        done = 40 if place == "held sequence" else 48

        def finished() -> bool:
            supervisor.keep()
            found = stats(server, queue)
            return found.get("completed") == done and found.get("buried", 0) == 1

        await eventually_async(finished, "the poison goes on", timeout=2 * PATIENCE, interval=0.05)
        supervisor.close()
        starts = supervisor.starts()
        assert starts["poison"] == 3
        assert supervisor.crashes == 3
        (dead,) = await queue.dead.list()
        assert (dead.id, dead.error, dead.deaths) == ("poison", "worker lost", 3)
        assert dead.attempts == 0, "a death is no attempt"
        assert dead.worker
        # Nobody else was lost or dragged along: one run more per kill at most.
        assert starts.keys() == {"poison", *(f"n{n}" for n in range(40))} | (
            set() if place == "held sequence" else {f"b{n}" for n in range(8)}
        )
        assert max(n for id, n in starts.items() if id != "poison") <= 3
        assert len(dump(server, queue).get("dead")) == 1
        if place == "held sequence":
            assert stats(server, queue)["waiting"] == 8
            assert await queue.dead.discard("poison") == ["ok"]

            def all_done() -> bool:
                supervisor.keep()
                return stats(server, queue).get("completed") == 48

            await eventually_async(all_done, "the sequence does not go on", timeout=PATIENCE)
        supervisor.close()


async def test_poisons_cannot_drag_their_neighbours_along(
    server: Server, queue_name: str, supervise: Supervise
) -> None:
    """Two of them, eight slots, so that each kill hits others: those are done in the end."""
    async with open_queue(server, queue_name, beat=BEAT) as queue:
        specs = [
            rota.JobSpec(
                task="kill" if n in (3, 17) else "work",
                id=f"j{n}",
                payload=b"{}",
                lane=f"l{n % 5}",
            )
            for n in range(60)
        ]
        await queue.enqueue_many(specs)
        supervisor = supervise(server, queue, slots=8)

        def finished() -> bool:
            supervisor.keep()
            found = stats(server, queue)
            return found.get("completed", 0) + found.get("buried", 0) == 60

        await eventually_async(finished, "they circle", timeout=2 * PATIENCE, interval=0.05)
        supervisor.close()
        assert {job.id for job in await queue.dead.list()} == {"j3", "j17"}
        # A poison that was in the hands of a worker another one killed counts as started too.
        assert all(1 <= supervisor.starts()[f"j{n}"] <= 3 for n in (3, 17))


# ── who pays ────────────────────────────────────────────────────────────────────────────────────


async def die(timed: Timed, hand: Hand, lease: int = 2000) -> None:
    """Lets the hand's lease end while others keep the time."""
    for _ in range(4):
        timed.clock.advance(lease * 3 // 10)
        await beat(timed.queue)


@pytest.mark.legs("valkey", "cluster", "redis7")
async def test_only_what_had_started_counts_a_death(server: Server, timed: Timed) -> None:
    """An unordered job and a sequence's first have; the later ones of a sequence have not, until
    the one before is settled."""
    queue = timed.queue
    await queue.enqueue_many(jobs("ab") + jobs(["k1", "k2", "k3"], ordering_key="k"))
    hand = await Hand(queue, lease=2).join()
    assert await hand.claim(9, prefetch=9) == ["a", "b", "k1", "k2", "k3"]
    assert await hand.settle("k1", "complete") == "ok"
    assert await hand.settle("b", "complete") == "ok"
    await die(timed, hand)
    assert dump(server, queue).counts("deaths") == {"a": 1, "k2": 1}
    assert dump(server, queue).counts("attempts") == {}
    assert_sound(server, queue)


async def test_a_job_with_a_death_behind_it_counts_only_once_started(
    server: Server, timed: Timed
) -> None:
    queue = timed.queue
    await queue.enqueue_many(jobs("ab"))
    for expected in (1, 1, 1, 2):
        hand = await Hand(queue, lease=2).join()
        reply = await hand.exchange(2)
        assert [job.suspect for entry in reply.entries for job in entry] == (
            [True, True] if hand.number and dump(server, queue).get("deaths") else [False, False]
        )
        if expected == 2:
            started = await queue.link.run(queue.link.store.start(hand.id, "a", "1"))
            assert started == "ok"
        await die(timed, hand)
        assert dump(server, queue).counts("deaths") == (
            {"a": 2, "b": 1} if expected == 2 else {"a": 1, "b": 1}
        )
    assert_sound(server, queue)


async def test_success_starts_the_counts_anew(server: Server, timed: Timed) -> None:
    """The same id enqueued again has neither attempts nor deaths."""
    queue = timed.queue
    for _ in range(2):
        await queue.enqueue_many(jobs("a"))
        hand = await Hand(queue, lease=2).join()
        assert await hand.claim() == ["a"]
        await die(timed, hand)
        hand = await Hand(queue, lease=60).join()
        assert await hand.claim() == ["a"]
        assert await hand.settle("a", "retry") == "ok"
        assert dump(server, queue).counts("deaths") == {"a": 1}
        assert dump(server, queue).counts("attempts") == {"a": 1}
        reply = await hand.exchange()
        (job,) = reply.entries[0]
        assert (job.attempts, job.suspect) == (1, True)
        assert await hand.settle("a", "complete") == "ok"
        assert dump(server, queue).get("deaths") == {}
        assert dump(server, queue).get("attempts") == {}
        await hand.leave()
    assert_drained(server, queue, done=2)


@pytest.mark.parametrize("watched", [0, 59_000, 61_000])
async def test_a_server_that_was_away_blames_nobody(
    server: Server, timed: Timed, watched: int
) -> None:
    """After a minute without a beat: one who was there all the time is a witness that it was the
    server; a newcomer is not, the workers may have died of their jobs."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("a"))
    await beat(queue)
    hand = await Hand(queue, lease=2).join()
    assert await hand.claim() == ["a"]
    clock.advance(60_000)
    await beat(queue, watched_ms=watched)
    assert dump(server, queue).counts("deaths") == ({} if watched > 60_000 else {"a": 1})
    assert dump(server, queue).get("g:a:pending").keys() == {"a"}


@pytest.mark.usefixtures("quick_renewals")
async def test_short_leases_count_deaths_too(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beats keep up with the renewals, however long the queue's beat is: a server is not taken for
    one that was away."""
    monkeypatch.setattr("rota.consume.lease.random.uniform", lambda *_: 0.0)
    async with open_queue(server, queue_name) as queue:
        await queue.enqueue_many(jobs("a"))
        async with queue.consumer(lease=LEASE) as consumer:
            beats = queue.consuming.keeper.calls["beat"].counts
            await eventually_async(lambda: sum(beats) >= 3, "it does not beat with the renewals")
            hand = await Hand(queue, lease=LEASE).join()
            assert await hand.claim() == ["a"]
            end_lease(server, queue, hand.id)
            (job,) = await consumer.claim(1, wait=IN_TIME)
            assert job.suspect
            assert dump(server, queue).counts("deaths") == {"a": 1}
            assert await consumer.start(job)
            await consumer.complete(job)


# ── a body that is gone ─────────────────────────────────────────────────────────────────────────


async def test_a_lost_body_does_not_keep_its_lane(server: Server, queue_name: str) -> None:
    """C17: ceiling 1, three tasks; the worker dies with the first, whose record is deleted."""
    async with open_queue(server, queue_name, beat=BEAT) as queue:
        ran = []

        @queue.task(name="work")
        async def work() -> None:
            ran.append(rota.current_job().id)

        await queue.lane("a").set(ceiling=1)
        await queue.enqueue_many(jobs("xyz", payload=b"{}"))
        hand = await Hand(queue, lease=1).join()
        assert await hand.claim(3) == ["x"]
        server.raw().delete(queue.link.keys.key("job", "x"))
        async with working(queue):
            await until_done(server, queue, 2)
        assert ran == ["y", "z"]
        found = assert_sound(server, queue)
        assert found.counts("gactive") == {}
        (dead,) = await queue.dead.list()
        assert dead.id == "x"
        assert "missing" in str(dead.error)
        assert dead.lane == "a"
        assert await queue.dead.discard("x") == ["ok"]
        assert (await queue.enqueue(jobs("x")[0])).outcome == "created"


async def test_a_worker_stopped_by_the_system_pays_like_one_that_died(
    server: Server, queue_name: str, supervise: Supervise
) -> None:
    """SIGKILL from outside, twice: what ran is run again and done, uncounted as attempts."""
    async with open_queue(server, queue_name, beat=BEAT) as queue:
        await queue.enqueue_many(
            rota.JobSpec(task="work", id=f"j{n}", payload=b"{}", lane=f"l{n % 3}")
            for n in range(120)
        )
        supervisor = supervise(server, queue)
        for least in (10, 40):
            await eventually_async(
                lambda: supervisor.keep() and stats(server, queue).get("completed", 0) > least,
                "no progress",
                timeout=PATIENCE,
            )
            assert supervisor._process is not None
            supervisor._process.send_signal(signal.SIGKILL)
            supervisor._process.wait(IN_TIME)
        await eventually_async(
            lambda: supervisor.keep() and stats(server, queue).get("completed") == 120,
            "not all done",
            timeout=PATIENCE,
        )
        supervisor.close()
        starts = supervisor.starts()
        assert len(starts) == 120
        assert sum(starts.values()) <= 120 + 2 * 4
        assert stats(server, queue).get("retried", 0) == 0
