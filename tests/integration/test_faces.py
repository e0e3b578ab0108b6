"""Every async verb has its blocking twin, with the same signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import rota
from rota.consumer import Consumer
from rota.dead_jobs import DeadJobs, SyncDeadJobs
from rota.job import JobHandle, SyncJobHandle
from rota.lane import Lane, SyncLane
from rota.queue import Queue
from rota.sync import SyncQueue
from rota.sync_consumer import SyncConsumer
from rota.task import Enqueuer, SyncEnqueuer
from tests.support.servers import Server

TWINS: list[tuple[type, type]] = [
    (Queue, SyncQueue),
    (Lane, SyncLane),
    (JobHandle, SyncJobHandle),
    (DeadJobs, SyncDeadJobs),
    (Consumer, SyncConsumer),
    (Enqueuer, SyncEnqueuer),
]
DOORS = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
TYPES = {asynchronous.__name__: blocking.__name__ for asynchronous, blocking in TWINS} | {
    "AsyncIterator": "Iterator"
}


def _is_async(verb: object) -> bool:
    return inspect.iscoroutinefunction(verb) or inspect.isasyncgenfunction(verb)


def _verbs(of: type) -> dict[str, Callable[..., Any]]:
    return {
        name: verb
        for name, verb in vars(of).items()
        if callable(verb) and (not name.startswith("_") or name in DOORS)
    }


ASYNC_VERBS = [
    (asynchronous, blocking, name)
    for asynchronous, blocking in TWINS
    for name, verb in _verbs(asynchronous).items()
    if _is_async(verb)
]


@pytest.mark.parametrize(
    ("asynchronous", "blocking", "name"),
    ASYNC_VERBS,
    ids=[f"{a.__name__}.{name}" for a, _, name in ASYNC_VERBS],
)
def test_every_async_verb_has_its_twin(asynchronous: type, blocking: type, name: str) -> None:
    twin = vars(blocking).get(DOORS.get(name, name))
    assert twin is not None, f"{blocking.__name__} lacks {name}"
    assert not _is_async(twin)
    mine, theirs = inspect.signature(vars(asynchronous)[name]), inspect.signature(twin)
    assert list(mine.parameters.values()) == list(theirs.parameters.values())
    expected = str(mine.return_annotation)
    for ours, blocking_name in TYPES.items():
        expected = re.sub(rf"\b{ours}\b", blocking_name, expected)
    assert theirs.return_annotation == expected


@pytest.mark.parametrize(("asynchronous", "blocking"), TWINS, ids=lambda cls: cls.__name__)
def test_a_twin_has_no_verbs_of_its_own(asynchronous: type, blocking: type) -> None:
    for name in _verbs(blocking):
        if not name.startswith("_"):
            assert hasattr(asynchronous, name), f"{asynchronous.__name__} lacks {name}"


@pytest.mark.parametrize(("asynchronous", "blocking"), TWINS, ids=lambda cls: cls.__name__)
def test_every_async_verb_says_what_it_does(asynchronous: type, blocking: type) -> None:
    said = {"close", "resume"}  # named as what they do
    for name, verb in _verbs(asynchronous).items():
        if _is_async(verb) and not name.startswith("_") and name not in said:
            assert verb.__doc__, f"{asynchronous.__name__}.{name}"


def test_the_blocking_face_needs_no_event_loop(server: Server, queue_name: str) -> None:
    queue = rota.Queue(queue_name, url=server.url)

    @queue.task(lane_from="tenant")
    def charge(tenant: str, cents: int) -> None: ...

    try:
        assert charge.sync.enqueue("t7", 1).outcome == "created"
        assert charge.options(priority=3).sync.enqueue("t7", 2).outcome == "created"
        many = queue.sync.enqueue_many(charge.sync.spec("t8", i) for i in range(3))
        assert [done.outcome for done in many] == ["created"] * 3
        assert len(list(queue.sync.enqueue_stream([charge.spec("t8", 9)]))) == 1
        queue.sync.lane("t8").set(ceiling=1, weight=2)
        queue.sync.lane("t8").pause(reason="abuse", by="ops")
        assert queue.sync.lane("t8").info().paused
        with queue.sync.consumer() as consumer:
            jobs = consumer.claim(10)
            assert [job.kwargs for job in jobs] == [
                {"tenant": "t7", "cents": 2},
                {"tenant": "t7", "cents": 1},
            ]
            assert consumer.complete(jobs) == ["ok", "ok"]
            assert queue.sync.lane("t8").resume()
            (job,) = consumer.claim(10)
            assert consumer.exchange(job, 1)[0].lane == "t8"
        assert queue.sync.info().waiting == 3
        info = queue.sync.job(many[2].id).info()
        assert info is not None
        assert info.state == "waiting"
        assert {lane.name for lane in queue.sync.lanes()} == {"t8"}
    finally:
        queue.sync.close()
