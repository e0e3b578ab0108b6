"""A user of few rights: what the docs say is enough, and what it lacks stops no script half-way."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.script.loader import BOUND, LIBRARY, commands_in
from rota.task import Task
from rota.values.model import Action, Settlement
from tests.conftest import PrivateServer
from tests.failures.tools import Hand, jobs
from tests.support.queues import assert_sound, open_queue
from tests.support.servers import Kind, Server

DOC = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
ROLES = [re.findall(r"\+\S+", block) for block in re.findall(r"```\n(.*?)```", DOC, re.DOTALL)[-3:]]
"""What the docs allow who enqueues, a worker beside that, an operator beside that."""

ENQUEUES = ("enqueue", "queue_set")
WORKS = (
    "exchange", "settle", "beat", "join", "heartbeat", "leave", "start", "reconcile_consumer",
    "pass_on", "asked_page", "orders_of", "queue_info",
)  # fmt: skip
OPTIONS = {"BYSCORE", "COUNT", "LIMIT", "LT", "MATCH", "NX", "PX", "WITHSCORES", "XX"}


def called_by(*scripts: str) -> set[str]:
    texts = (LIBRARY.assemble(BOUND[name]).text for name in scripts)
    return set().union(*map(commands_in, texts)) - OPTIONS


ALL = called_by(*BOUND)


@pytest.fixture
def server(leg: Kind, private_server: PrivateServer) -> Server:
    return private_server(leg, tcp=True, appendonly="yes")


def allow(server: Server, *rules: str) -> str:
    """The URL with which a user of these rights is had."""
    server.raw().execute_command("ACL", "SETUSER", "bob", "reset", "on", ">pw", *rules)
    return server.url.replace("redis://", "redis://bob:pw@")


@contextlib.asynccontextmanager
async def opened(server: Server, *rules: str) -> AsyncIterator[rota.Queue]:
    async with open_queue(allow(server, *rules), "shop") as queue:
        yield queue
        queue.sync.close()


def test_the_docs_allow_what_the_scripts_call_and_no_more() -> None:
    enqueue, work, operate = ({rule[1:].upper() for rule in rules} for rules in ROLES)
    assert enqueue == called_by(*ENQUEUES) | {"EVALSHA", "SCRIPT|LOAD", "INFO"}
    assert work == called_by(*WORKS) - enqueue | {"BLPOP"}
    asked = {"CONFIG|GET"}
    assert operate == ALL - work - enqueue | asked


@pytest.mark.legs("valkey", "redis7")
async def test_a_queue_that_its_user_may_not_touch_is_refused_in_our_words(server: Server) -> None:
    enqueue, work, operate = ROLES
    url = allow(server, "~emq:{shop}:*", *enqueue, *work, *operate)
    async with open_queue(url, "other") as queue:
        with pytest.raises(rota.Unavailable, match="refused to look for the queue"):
            await queue.link.run(queue.link.inspector.exists())


@pytest.mark.legs("valkey", "redis7")
async def test_what_the_docs_allow_is_enough(server: Server) -> None:
    enqueue, work, operate = ROLES
    key = "~emq:{shop}:*"
    done: list[int] = []

    def task(queue: rota.Queue) -> Task[[int], Any]:
        @queue.task(max_attempts=3, backoff=rota.Backoff(base=0.001))
        async def work(n: int) -> None:
            if n == 1 and rota.current_job().attempt == 1:
                raise ValueError("once")
            if n == 2:
                raise rota.Bury("no")
            done.append(n)

        return work

    async with opened(server, key, *enqueue) as queue:
        run = task(queue)
        await run.enqueue(0)
        await run.options(lane="a", ordering_key="k", delay=0.01).enqueue(1)
        await queue.enqueue_many([run.spec(n) for n in (2, 3)])
        await queue.enqueue_many(run.spec(n) for n in range(4, 9))
        assert queue.sync.enqueue(run.options(id="0").spec(9)).outcome == "created"
        assert (await queue.enqueue(run.options(id="0").spec(9))).outcome == "duplicate"
        with pytest.raises(rota.Unavailable, match="user bob may not run .*nothing was written"):
            await queue.dead.replay_all()
    async with opened(server, key, *enqueue, *work) as queue:
        task(queue)
        assert (await rota.Worker(queue).run(burst=True)).left in (0, 1)
        assert (await rota.Worker(queue).run(burst=True)).left == 0
        assert sorted(done) == [0, 1, *range(3, 10)]
    async with opened(server, key, *enqueue, *work, *operate) as queue:
        run = task(queue)
        lane = queue.lane("a")
        await lane.set(ceiling=2, weight=2, rate=rota.Rate(10), backlog=50)
        await lane.pause(reason="x")
        await run.options(lane="a", ordering_key="k").enqueue(1)
        await lane.resume()
        await lane.block(0.01)
        await queue.set(default_ceiling=3, dead_max=10)
        await queue.set_template("t", ceiling=1)
        await lane.explain()
        assert await queue.lanes()
        assert (await queue.jobs("waiting", lane="a")).jobs
        assert (await queue.sequences()).sequences
        assert await queue.dead.replay_all() == 1
        await lane.move("b")
        await queue.lane("b").cancel()
        await queue.purge()
        report = await queue.doctor(repair=True)
        assert (report.findings, report.advice, report.unchecked) == ([], [], [])
    assert_sound(server, queue)


def verbs(queue: rota.Queue, hand: Hand) -> Iterator[Callable[[], object]]:
    """Whatever writes, each on its own."""
    lane = queue.lane("a")
    yield lambda: queue.enqueue_many(jobs(["k1", "k2"], "a", ordering_key="k", cost=2))
    yield lambda: queue.enqueue_many(jobs(["n1", "n2", "n3"], "a"))
    yield lambda: queue.enqueue_many(jobs(["d1"], "a", delay_ms=1))
    yield lambda: queue.enqueue_many(jobs(["h1", "h2"], "!h"))
    yield lambda: lane.set(ceiling=5, weight=2, rate=rota.Rate(1000), backlog=50)
    yield lambda: lane.pause(reason="x", until=4e9)
    yield lane.resume
    yield lambda: lane.block(0.001)
    yield lambda: hand.claim(6, prefetch=2)
    endings: dict[str, Action] = {
        "n1": "retry",
        "n2": "bury",
        "h1": "block_sequence",
        "k1": "release",
    }
    for id, action in endings.items():
        row = Settlement(id, str(hand.number), action, 1)
        yield partial(queue.link.run, queue.link.store.settle(hand.id, [row]))
    yield lambda: queue.job("n3").cancel()
    yield lambda: lane.move("b")
    yield lambda: queue.lane("b").reprioritize(3)
    yield lambda: queue.set_template("t", ceiling=1)
    yield queue.dead.replay_all
    yield lambda: queue.link.run(queue.link.store.beat(watched_ms=0))
    yield hand.leave
    yield lambda: queue.lane("b").cancel()
    yield queue.purge


async def refusal_of(verb: Callable[[], Any]) -> str | None:
    try:
        await verb()
    except (rota.Unavailable, rota.BatchInterrupted) as error:
        return str(error)
    return None


@pytest.mark.legs("valkey", "redis7")
@pytest.mark.timeout(120)
async def test_a_right_that_is_missing_leaves_nothing_half_done(server: Server) -> None:
    refused: set[str] = set()
    for command in sorted(ALL):
        allowed = allow(server, "~*", "+@all", f"-{command}")
        async with open_queue(server, "shop") as whole, open_queue(allowed, "shop") as queue:
            hand = await Hand(whole, lease=3600).join()
            hand.queue = queue
            for verb in verbs(queue, hand):
                said = await refusal_of(verb)
                assert said is None or f"user bob may not run {command}," in said, said
                refused |= {command} if said else set()
                assert_sound(server, queue)
            report = await queue.doctor()
            (advice,) = [one for one in report.advice if one.danger]
            assert f"may not run {command.lower()}," in advice.text
            assert f"+{command.lower()}" in advice.text
            allow(server, "~*", "+@all")
            await queue.lane("a").resume()  # what was refused is asked again
        server.flush()
    assert refused >= called_by("enqueue", "exchange", "settle", "beat", "leave", "purge", "move")


async def test_the_doctor_names_keys_and_commands_of_workers(server: Server) -> None:
    async with opened(server, "+@all", "~emq:{shop}:g*", "~emq:{shop}:config", "~emq:{shop}:none",
                      "-blpop", "-zpopmin") as queue:  # fmt: skip
        report = await queue.doctor()
    assert not report.sound
    assert report.unchecked == ["nothing of the queue was checked: its user may not"]
    said = [advice.text for advice in report.advice if advice.setting == "ACL"]
    assert "may not run zpopmin, blpop," in said[0]
    assert "allow +zpopmin +blpop," in said[0]
    assert "emq:{shop}:ring" in said[1]
    assert "allow ~emq:{shop}:*" in said[1]
