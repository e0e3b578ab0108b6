"""Who may write to a queue: each script that writes is refused, and writes nothing, where the
queue is another's, needs a newer rota, or is sealed as it moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import rota
from rota.errors import BatchInterrupted, QueueClosed, RotaError
from rota.script.loader import BOUND, PROTOCOL, Call, Operation
from rota.values.ids import new_nonce
from tests.failures.stage import ACTS, Stage
from tests.failures.tools import jobs, until_done, working
from tests.support.queues import assert_sound, open_queue, spec
from tests.support.servers import Server
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.legs("valkey")

WRITING = {name for name, script in BOUND.items() if script.writes}
GOES_ON = {
    "audit_mend", "beat", "exchange", "heartbeat", "join", "leave", "order", "pass_on",
    "reconcile_consumer", "settle", "start",
}  # fmt: skip
"""What a sealed queue still does: it ends what runs, and tells how it is."""

HOME = "4f2a:3"
CLOSED = {
    "foreign": ("home", HOME, f"it is part {HOME} of a queue over several hash slots"),
    "newer": ("needs", str(PROTOCOL + 1), f"it needs a rota of protocol {PROTOCOL + 1}"),
    "sealed": ("sealed", "orders-2", "it is sealed, as it moves to orders-2"),
}


@pytest.fixture
async def stage(server: Server, queue_name: str) -> AsyncIterator[Stage]:
    async with open_queue(server, queue_name) as queue:
        yield await Stage(server, queue).set_up()


def made(call: Call[Any]) -> Operation[Any]:
    return (yield from call)


async def refusals(stage: Stage) -> dict[str, str]:
    """Makes a call of each script that writes, with arguments without a meaning; those that say the
    queue is closed, with what they say."""
    keys, found = stage.queue.link.keys, {}
    for name in WRITING:
        script = BOUND[name]
        args = [new_nonce()] * script.receipt + [keys.home] + ["1"] * len(script.arguments)
        stage.what = name
        try:
            call: Call[Any] = Call(script, keys, args, lambda reply: reply)
            await stage.queue.link.run(made(call))
        except QueueClosed as error:
            found[name] = str(error)
        except RotaError:
            stage.torn.clear()  # what goes on makes nothing of such arguments
    return found


@pytest.mark.legs("valkey", "redis7")
@pytest.mark.parametrize("reason", CLOSED)
async def test_every_script_that_writes_is_guarded(stage: Stage, reason: str) -> None:
    field, value, why = CLOSED[reason]
    stage.raw.hset(stage.keys.config, field, value)
    found = await refusals(stage)
    assert found.keys() == WRITING - (GOES_ON if reason == "sealed" else set())
    assert all(why in said and "nothing was written" in said for said in found.values())
    assert not stage.torn, "\n".join(stage.torn)


async def test_a_part_of_a_queue_is_written_to_by_who_knows_which_it_is(stage: Stage) -> None:
    keys = stage.queue.link.keys
    keys.home = HOME
    found = await refusals(stage)
    assert found.keys() == WRITING
    assert all(f"no more that it is part {HOME} of a queue" in said for said in found.values())
    assert not stage.torn, "\n".join(stage.torn)
    stage.raw.hset(keys.config, "home", HOME)
    for name, act in ACTS.items():
        stage.what = name
        await act(stage)
        stage.put_back()
        stage.raw.hset(keys.config, "home", HOME)


@pytest.mark.parametrize("reason", CLOSED)
async def test_no_verb_writes_to_a_closed_queue(stage: Stage, reason: str) -> None:
    """By the verbs: reading goes on, and of a sealed queue what ends jobs."""
    field, value, _ = CLOSED[reason]
    went_on = set()
    for name, act in ACTS.items():
        stage.put_back()
        stage.busy.hand.number = stage.busy.other.number = 50
        stage.raw.hset(stage.keys.config, field, value)
        stage.what = name
        try:
            await act(stage)
            went_on.add(name)
        except QueueClosed:
            pass
    assert not stage.torn, "\n".join(stage.torn)
    reading = {"info", "lanes", "explain"}
    ending = {
        "join", "heartbeat", "claim", "claim one", "complete", "complete and claim", "settle",
        "retry", "retry later", "release", "bury", "block lanes", "block sequences", "cancel held",
        "each its own way", "start", "what is held", "leave", "evict", "pass on", "beat",
        "beat of a witness", "quiet",
    }  # fmt: skip
    assert went_on == (reading | ending if reason == "sealed" else reading)


@pytest.mark.parametrize("needs", ["", "0", "1", "one", "-1"])
async def test_a_queue_that_needs_no_more_is_open(stage: Stage, needs: str) -> None:
    stage.raw.hset(stage.keys.config, "needs", needs)
    assert (await stage.queue.enqueue(spec("new"))).outcome == "created"
    report = await stage.queue.doctor(repair=True)
    mended = {finding.subject for finding in report.findings if finding.mended}
    assert ("config needs" in mended) == (not needs.isdecimal())


@pytest.mark.parametrize("reason", CLOSED)
async def test_what_was_done_before_is_answered_again(
    server: Server, queue: rota.Queue, reason: str
) -> None:
    """Who missed the reply learns it, whatever has become of the queue."""
    call = next(queue.link.store.enqueue([spec("a", id="x")]))
    assert isinstance(call, Call)
    first = await queue.link.run(made(call))
    field, value, _ = CLOSED[reason]
    server.raw().hset(queue.link.keys.config, field, value)
    assert await queue.link.run(made(call)) == first == ("ok", "c")
    assert_sound(server, queue)


async def test_a_bulk_that_meets_a_sealed_queue_has_no_unsure_jobs(
    server: Server, queue: rota.Queue
) -> None:
    raw = server.raw()

    def more() -> Any:
        yield from jobs(str(n) for n in range(1500))
        raw.hset(queue.link.keys.config, "sealed", "")

    with pytest.raises(BatchInterrupted, match="sealed") as caught:
        await queue.enqueue_many(more())
    assert (len(caught.value.outcomes), caught.value.unsure) == (1000, [])


async def test_a_worker_of_a_sealed_queue_ends_what_it_has_and_takes_no_more(
    server: Server, beating: rota.Queue
) -> None:
    raw, config = server.raw(), beating.link.keys.config
    ran: list[str] = []

    @beating.task
    async def work() -> None:
        ran.append(rota.current_job().id)
        if rota.current_job().id == "x":
            raw.hset(config, "sealed", "orders-2")

    await beating.enqueue_many(jobs(["x", "y", "z"], "!o"))
    async with working(beating, prefetch=1, slots=1) as worker:
        await until_done(server, beating, 1)
        assert ran == ["x"]
        await eventually_async(lambda: worker.health().healthy, "it is not well")
        raw.hdel(config, "sealed")
        await until_done(server, beating, 3)
    assert ran == ["x", "y", "z"]
    assert_sound(server, beating)


async def test_a_worker_says_that_it_needs_to_be_newer(
    server: Server, beating: rota.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    raw, config = server.raw(), beating.link.keys.config

    @beating.task
    async def work() -> None: ...

    async with working(beating) as worker:
        await beating.enqueue(spec("a"))
        await until_done(server, beating, 1)
        raw.hset(config, "needs", PROTOCOL + 1)
        await eventually_async(lambda: not worker.health().healthy, "it thinks itself well")
        await eventually_async(lambda: "upgrade" in caplog.text, "it says nothing")
        raw.hset(config, "needs", PROTOCOL)
        await beating.enqueue(spec("a"))
        await until_done(server, beating, 2)


async def test_a_ceiling_in_code_keeps_nobody_from_reading_a_closed_queue(
    server: Server, queue: rota.Queue
) -> None:
    """It is told once the queue is open again."""
    raw, config = server.raw(), queue.link.keys.config
    raw.hset(config, "sealed", "orders-2")
    other = rota.Queue(queue.name, url=server.url, default_ceiling=3)
    try:
        assert (await other.info()).default_ceiling is None
        with pytest.raises(QueueClosed):
            await other.enqueue(spec("a"))
        raw.hdel(config, "sealed")
        await other.enqueue(spec("a"))
        assert (await other.info()).default_ceiling == 3
    finally:
        await other.close()


async def test_a_sealed_queue_with_work_is_neither_sick_nor_without_workers(
    server: Server, queue: rota.Queue
) -> None:
    """Nothing starts there, on purpose."""
    raw, config = server.raw(), queue.link.keys.config
    await queue.enqueue(spec("a"))
    assert (await queue.info()).state == "no worker"
    raw.hset(config, "sealed", "")
    info = await queue.info()
    assert (info.sealed, info.state, info.unattended) == (True, "sealed", False)
    raw.hdel(config, "sealed")
