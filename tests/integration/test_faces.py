"""Every verb is there for those who await and for those who block, and looks the same."""

from __future__ import annotations

import gc
import inspect
import pydoc
import re
import typing
from collections.abc import Callable
from typing import Any

import pytest

import rota
from rota.consumer import Consumer, SyncConsumer
from rota.dead_jobs import DeadJobs, SyncDeadJobs
from rota.job import JobHandle, SyncJobHandle
from rota.lane import Lane, SyncLane
from rota.link.faces import verb
from rota.queue import Queue, SyncQueue
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


@pytest.mark.parametrize("face", [face for pair in TWINS for face in pair])
def test_every_verb_says_what_it_does(face: type) -> None:
    named_as_what_they_do = {"lane", "job"}
    for name, function in _verbs(face).items():
        if not name.startswith("_") and name not in named_as_what_they_do:
            assert function.__doc__, f"{face.__name__}.{name}"


WRITTEN_ONCE = [
    (asynchronous, blocking, name)
    for asynchronous, blocking in TWINS
    for name in dir(asynchronous)
    if any(isinstance(vars(base).get(name), verb) for base in asynchronous.__mro__)
]


def test_nearly_all_verbs_are_written_once() -> None:
    by_hand = {name for _, _, name in ASYNC_VERBS} - {name for _, _, name in WRITTEN_ONCE}
    assert len(WRITTEN_ONCE) > 40
    assert by_hand - {*DOORS} <= {
        "enqueue", "enqueue_stream", "iterate", "close",  # travel together; streams; ends
        "claim", "exchange",  # wait
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asynchronous", "blocking", "name"),
    WRITTEN_ONCE,
    ids=[f"{a.__name__}.{name}" for a, _, name in WRITTEN_ONCE],
)
def test_a_verb_written_once_looks_written_by_hand_on_both_faces(
    asynchronous: type, blocking: type, name: str
) -> None:
    mine, theirs = vars(asynchronous)[name], vars(blocking)[name]
    assert mine.__doc__ == theirs.__doc__
    assert inspect.signature(mine) == inspect.signature(theirs)
    assert typing.get_type_hints(mine) == typing.get_type_hints(theirs)
    assert inspect.iscoroutinefunction(mine)
    assert not inspect.iscoroutinefunction(theirs)
    for face, function in ((asynchronous, mine), (blocking, theirs)):
        assert inspect.isfunction(function)
        assert function.__name__ == name
        assert function.__qualname__ == f"{face.__name__}.{name}"
        assert function.__module__ == face.__module__
        assert "Operation" not in str(inspect.signature(function))
        assert f"{name}(self" in pydoc.plain(pydoc.render_doc(face))


def test_a_verb_that_is_not_awaited_is_named() -> None:
    lane = Queue("orders").lane("t7")
    with pytest.warns(RuntimeWarning, match=r"coroutine 'Lane\.pause' was never awaited"):
        _forget(lane.pause(reason="why"))


def _forget(thing: object) -> None:
    del thing
    gc.collect()


def test_a_verb_belongs_to_a_face() -> None:
    with pytest.raises(AttributeError, match="is no face: pause cannot be called"):
        _ = Lane.__mro__[1].pause  # type: ignore[attr-defined]


@pytest.mark.legs("valkey", "cluster", "redis7")
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
