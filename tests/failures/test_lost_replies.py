"""A verb whose reply is lost is sent again, and answers what it would have answered.

Each is called on two queues alike, on one of them through a network that loses the first reply to
its script after the server has run it. Where a verb goes in pages, of each page.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

import rota
from rota.values.model import Job
from tests.failures.damage import Busy, make_busy
from tests.failures.tools import jobs
from tests.support.faulty import CUT_AFTER, Break
from tests.support.queues import assert_sound, open_queue
from tests.support.servers import Server

Face = Any
"""A queue of either face: their methods have the same names."""
Verb = Callable[[Face, Busy], Any]


def settles(how: Callable[[Any, list[Job]], Any]) -> Verb:
    """A consumer claims two jobs and ends them."""

    async def act(queue: Face, busy: Busy) -> object:
        consumer = queue.consumer()
        if isinstance(queue, rota.Queue):
            async with consumer:
                return await how(consumer, await consumer.claim(2))
        with consumer:
            return how(consumer, consumer.claim(2))

    return act


VERBS: dict[str, tuple[str, Verb]] = {
    "complete": ("settle", settles(lambda consumer, jobs: consumer.complete(jobs))),
    "retry": ("settle", settles(lambda consumer, jobs: consumer.retry(jobs, delay=9))),
    "release": ("settle", settles(lambda consumer, jobs: consumer.release(jobs))),
    "bury": ("settle", settles(lambda consumer, jobs: consumer.bury(jobs, "no"))),
    "enqueue": ("enqueue", lambda queue, busy: queue.enqueue(*jobs(["new"]))),
    "enqueue_many": ("enqueue", lambda queue, busy: queue.enqueue_many(jobs(["a2", "new"]))),
    "cancel": ("cancel", lambda queue, busy: queue.job("a2").cancel()),
    "cancel a delayed job": ("cancel", lambda queue, busy: queue.job("d1").cancel()),
    "cancel a lane": ("purge", lambda queue, busy: queue.lane("a").cancel()),
    "cancel what runs": ("cancel_running", lambda queue, busy: queue.lane("b").cancel()),
    "retry a dead job": ("replay", lambda queue, busy: queue.job("x1").retry()),
    "retry a delayed job": ("hasten", lambda queue, busy: queue.job("d1").retry()),
    "replay": ("replay", lambda queue, busy: queue.dead.replay("x1", "h1")),
    "replay_all": ("replay", lambda queue, busy: queue.dead.replay_all()),
    "discard": ("discard", lambda queue, busy: queue.dead.discard("x1", "h1")),
    "discard_all": ("discard", lambda queue, busy: queue.dead.discard_all()),
    "skip a delayed head": ("skip", lambda queue, busy: queue.lane("r").skip("k")),
    "skip a dead head": ("skip", lambda queue, busy: queue.lane("h").skip("k")),
    "purge a lane": ("purge", lambda queue, busy: queue.lane("a").purge()),
    "purge the queue": ("purge", lambda queue, busy: queue.purge()),
    "move": ("move", lambda queue, busy: queue.lane("a").move("z")),
    "move sequences": ("move", lambda queue, busy: queue.lane("b").move("z")),
    "reprioritize": ("reprioritize", lambda queue, busy: queue.lane("a").reprioritize(7)),
    "pause": ("pause", lambda queue, busy: queue.lane("a").pause()),
    "resume": ("resume", lambda queue, busy: queue.lane("p").resume()),
    "block": ("block", lambda queue, busy: queue.lane("a").block(9)),
    "unblock": ("unblock", lambda queue, busy: queue.lane("l").unblock()),
    "set a lane": ("lane_set", lambda queue, busy: queue.lane("w").set(weight=5)),
    "reset a lane": ("lane_set", lambda queue, busy: queue.lane("w").reset()),
    "set lanes": ("lane_set", lambda queue, busy: queue.set_lanes({"w": {"template": "pro"}})),
    "set the queue": ("queue_set", lambda queue, busy: queue.set(default_ceiling=3)),
    "set a template": ("template_set", lambda queue, busy: queue.set_template("pro", weight=2)),
    "drop a template": ("template_drop", lambda queue, busy: queue.drop_template("pro")),
    "pause the queue": ("gate_shut", lambda queue, busy: queue.pause()),
    "resume the queue": ("gate_open", lambda queue, busy: queue.resume()),
    "quiet": ("order", lambda queue, busy: queue.quiet(busy.hand.id)),
    "stop": ("order", lambda queue, busy: queue.stop(busy.hand.id)),
    "evict": ("leave", lambda queue, busy: queue.evict(busy.hand.id)),
    "doctor": ("audit_mend", lambda queue, busy: queue.doctor(repair=True)),
}


async def prepared(queue: rota.Queue, name: str, server: Server) -> Busy:
    busy = await make_busy(queue)
    if name == "resume the queue":
        await queue.pause()
    if name == "doctor":
        server.raw().hset(queue.link.keys.key("gwaiting"), "a", "99")
    return busy


@asynccontextmanager
async def face(queue: rota.Queue, which: str) -> AsyncIterator[Face]:
    if which == "async":
        yield queue
    else:
        with queue.sync as blocking:
            yield blocking


async def answer(verb: Verb, queue: Face, busy: Busy) -> object:
    found = verb(queue, busy)
    return await cast("Awaitable[object]", found) if inspect.isawaitable(found) else found


@pytest.mark.parametrize("which", ["async", "sync"])
@pytest.mark.parametrize("name", VERBS)
async def test_a_lost_reply_changes_no_answer(
    server: Server,
    queue_name: str,
    faulty: Break,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    which: str,
) -> None:
    for module in ("rota.store.bulk", "rota.store.claiming"):
        monkeypatch.setattr(f"{module}.PAGE", 2)
    script, verb = VERBS[name]
    between = faulty(server)
    async with (
        open_queue(server, queue_name) as plain,
        open_queue(server, queue_name + "-lost") as direct,
        open_queue(between.url, queue_name + "-lost") as lossy,
    ):
        busy = await prepared(plain, name, server)
        async with face(plain, which) as queue:
            expected = await answer(verb, queue, busy)  # loads the scripts, too
        busy = await prepared(direct, name, server)
        async with face(lossy, which) as queue:
            await answer(lambda queue, busy: queue.info(), queue, busy)
            between.plant(script, CUT_AFTER, every=2)
            assert await answer(verb, queue, busy) == expected
        between.heal()
        assert between.failed[script] == len(between.passed[script])
        assert_sound(server, direct)
