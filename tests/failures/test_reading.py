"""Only what says that a payload is bad buries its job; what else goes wrong while it is read is a
failed attempt."""

from __future__ import annotations

import errno
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

import rota
from rota.observe.observer import JobCounts
from rota.worker import Worker
from tests.failures.tools import working
from tests.support.queues import assert_drained, assert_sound, open_queue
from tests.support.servers import Server
from tests.support.times import LEASE
from tests.support.waiting import eventually_async

ENVIRONMENT: list[type[BaseException]] = [
    MemoryError,
    OSError,
    KeyError,
    RecursionError,
    ZeroDivisionError,
    SystemExit,
]
OF_PAYLOAD: list[type[BaseException]] = [ValueError, TypeError, AssertionError]


class Trouble:
    """What the validators raise now, of which value, and how often they did."""

    def __init__(self) -> None:
        self.error: type[BaseException] | None = None
        self.of = 0
        self.times = float("inf")
        self.happened = 0

    def happen(self, n: int) -> None:
        if self.error is not None and n == self.of and self.happened < self.times:
            self.happened += 1
            if self.error is OSError:
                raise OSError(errno.EMFILE, "Too many open files")
            raise self.error("trouble")


trouble = Trouble()


@pytest.fixture(autouse=True)
def calm() -> None:
    trouble.__init__()  # type: ignore[misc]


@dataclass
class OfDataclass:
    n: int

    def __post_init__(self) -> None:
        trouble.happen(self.n)


class OfStruct(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        trouble.happen(self.n)


class OfModel(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def check(cls, value: int) -> int:
        trouble.happen(value)
        return value


KINDS: dict[str, type[Any]] = {"dataclass": OfDataclass, "struct": OfStruct, "model": OfModel}


def steps(queue: rota.Queue, kind: str, attempts: int, **policy: Any) -> tuple[Any, list[int]]:
    """A task that takes such a value, and what has been run."""
    ran: list[int] = []
    of_kind = KINDS[kind]

    async def step(value: Any) -> None:
        ran.append(value.n)

    step.__annotations__["value"] = of_kind
    backoff = rota.Backoff(base=0.001, jitter=0)
    return queue.task(max_attempts=attempts, backoff=backoff, **policy)(step), ran


def payload(n: int) -> bytes:
    return msgspec.json.encode({"value": {"n": n}})


async def enqueue(queue: rota.Queue, n: int, lane: str = "a", **fields: Any) -> None:
    await queue.enqueue_many(
        rota.JobSpec(task="step", lane=lane, id=f"{i}", payload=payload(i), **fields)
        for i in range(n)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", ENVIRONMENT)
async def test_trouble_that_passes_costs_an_attempt(
    server: Server, queue: rota.Queue, error: type[BaseException], kind: str
) -> None:
    steps(queue, kind, 3)
    trouble.error, trouble.times = error, 2
    await enqueue(queue, 1, max_attempts=3)
    worker, counts = Worker(queue, lease=LEASE), JobCounts()
    worker.observe(queue, counts)
    async with worker:
        await eventually_async(lambda: worker.fetchers[0].tally.done, "it is not run")
    assert counts.jobs == {("step", "retried"): 2, ("step", "completed"): 1}
    assert counts.attempts["step"].total == 3
    assert_drained(server, queue, done=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", ENVIRONMENT)
async def test_trouble_that_stays_buries_the_job_at_its_last_attempt(
    server: Server,
    queue: rota.Queue,
    error: type[BaseException],
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, ran = steps(queue, kind, 3)
    trouble.error = error
    await enqueue(queue, 1, max_attempts=3)
    async with working(queue) as worker:
        await eventually_async(
            lambda: worker.fetchers and worker.fetchers[0].tally.dead, "it is not buried"
        )
    (dead,) = [job async for job in queue.dead.iterate()]
    assert (dead.attempts, trouble.happened, ran) == (3, 3, [])
    assert error.__name__ in str(dead.error)
    assert "happen" in str(dead.error), "the traceback names the place"
    said = [one.getMessage() for one in caplog.records if "was not run" in one.getMessage()]
    assert [line.split("was not run and ")[1].split(":")[0] for line in said] == [
        "goes back", "goes back", "is dead",
    ]  # fmt: skip
    assert all(error.__name__ in line for line in said)
    assert_sound(server, queue)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", OF_PAYLOAD)
async def test_what_says_that_the_payload_is_bad_buries_at_once(
    server: Server, queue: rota.Queue, error: type[BaseException], kind: str
) -> None:
    steps(queue, kind, 3)
    trouble.error = error
    await enqueue(queue, 1, max_attempts=3)
    drained = await Worker(queue, lease=LEASE).run(burst=True)
    assert drained == rota.Drained(done=0, retried=0, dead=1, left=0)
    (dead,) = [job async for job in queue.dead.iterate()]
    assert dead.attempts == 1
    assert str(dead.error).startswith("PayloadError")


@pytest.mark.parametrize("on_dead", ["skip", "hold"])
@pytest.mark.parametrize("lane", ["!o", "a"])
@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_sequence_keeps_its_order_over_it(
    server: Server, queue: rota.Queue, lane: str, attempts: int, on_dead: Any
) -> None:
    """The third in a claim of five: what is before it runs, what is behind it waits."""
    _, ran = steps(queue, "dataclass", attempts)
    # Read behind others it is given back without an attempt, as only the head is tried.
    trouble.error, trouble.of, trouble.times = MemoryError, 2, 1 + max(1, attempts - 1)
    key = None if lane == "!o" else "k"
    await enqueue(queue, 5, lane, ordering_key=key, max_attempts=attempts, on_dead=on_dead)
    async with working(queue, prefetch=5) as worker:
        await worker.started.wait()
        tally = worker.fetchers[0].tally
        held = attempts == 1 and on_dead == "hold"
        await eventually_async(
            lambda: (tally.done, tally.dead) == (2, 1) if held else tally.done + tally.dead == 5,
            "they do not end",
        )
    expected = [0, 1, 3, 4] if attempts == 1 else [0, 1, 2, 3, 4]
    assert ran == (expected[:2] if held else expected)
    assert_sound(server, queue)


@pytest.mark.parametrize("face", ["async", "blocking"])
async def test_a_consumer_by_hand_gets_it_when_the_trouble_has_passed(
    server: Server, queue_name: str, face: str
) -> None:
    async with open_queue(server, queue_name) as queue:
        steps(queue, "model", 5)
        trouble.error, trouble.times = MemoryError, 2
        await enqueue(queue, 1, max_attempts=5)
        got: list[rota.Job] = []
        if face == "async":
            async with queue.consumer() as consumer:
                while not got:
                    got = await consumer.claim(wait=1)
                await consumer.complete(got)
        else:
            with queue.sync.consumer() as blocking:
                while not got:
                    got = blocking.claim(wait=1)
                blocking.complete(got)
        assert [(job.attempt, job.kwargs["value"].n) for job in got] == [(3, 0)]
        assert_drained(server, queue, done=1)


@pytest.mark.parametrize("on_dead", ["skip", "hold"])
async def test_a_record_that_cannot_be_read_now_comes_back(
    server: Server, queue: rota.Queue, monkeypatch: pytest.MonkeyPatch, on_dead: Any
) -> None:
    """Of it nothing is known but its id: it goes back uncounted, and stays away a while."""
    monkeypatch.setattr("rota.consume.deliveries.UNREAD_PAUSE_MS", 50)
    from rota.values import model

    failures: Counter[str] = Counter()
    read = model.job_from

    def job_from(claimed: model.Claimed, delivery: str) -> rota.Job:
        if claimed.id == "1" and failures["1"] < 3:
            failures["1"] += 1
            raise MemoryError
        return read(claimed, delivery)

    monkeypatch.setattr("rota.consume.deliveries.job_from", job_from)
    _, ran = steps(queue, "struct", 1)
    await enqueue(queue, 3, "!o", max_attempts=1, on_dead=on_dead)
    async with working(queue, prefetch=3) as worker:
        await eventually_async(
            lambda: worker.fetchers and worker.fetchers[0].tally.done == 3, "they are not run"
        )
    assert (ran, failures["1"]) == ([0, 1, 2], 3)
    assert_drained(server, queue, done=3)


async def test_a_header_too_deep_to_read_harms_nobody(
    server: Server, queue: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """It is damage as any other, and the reader's stack is not the payload's."""
    caplog.set_level(logging.WARNING)
    _, ran = steps(queue, "struct", 1)
    await enqueue(queue, 3)
    raw, key = server.raw(decode=False), queue.link.keys.key("job", "1")
    record: Any = raw.get(key)
    prefix, header, rest = record.split(b"\n", 2)
    deep = b'{"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"," + header[1:]
    raw.set(key, b"\n".join([prefix, deep, rest]))
    await queue.enqueue(rota.JobSpec(task="step", payload=b'{"value":' + b"[" * 100_000))
    drained = await Worker(queue, lease=LEASE).run(burst=True)
    assert drained == rota.Drained(done=2, retried=0, dead=2, left=0)
    assert sorted(ran) == [0, 2]
