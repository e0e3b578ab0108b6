"""A key of the whole queue has a wrong type: a call works, or writes nothing and names the key.

Lua has no rollback. A queue with something of everything is made once, and put back, key by key,
before each key is damaged and each verb called.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import rota
from rota.errors import QueueBroken
from tests.failures.stage import ACTS, KEYS, Stage
from tests.failures.tools import working
from tests.support.queues import assert_sound, open_queue, spec
from tests.support.servers import Server
from tests.support.waiting import eventually_async


@pytest.fixture
async def stage(server: Server, queue_name: str) -> AsyncIterator[Stage]:
    async with open_queue(server, queue_name) as queue:
        yield await Stage(server, queue).set_up()


@pytest.mark.parametrize("kind", KEYS)
async def test_a_call_works_or_writes_nothing_and_names_the_key(stage: Stage, kind: str) -> None:
    for name, act in ACTS.items():
        stage.put_back()
        stage.busy.hand.number = stage.busy.other.number = 50
        stage.what = name
        key = stage.damage(kind)
        try:
            await act(stage)
        except QueueBroken as error:
            if key not in str(error) or "rota doctor" not in str(error):
                stage.torn.append(f"{name}: {error}")
        except Exception as error:
            stage.torn.append(f"{name} raised {type(error).__name__}: {error}")
    assert not stage.torn, "\n".join(stage.torn)


async def test_every_one_of_these_calls_works_on_a_sound_queue(stage: Stage) -> None:
    for act in ACTS.values():
        stage.put_back()
        await act(stage)


async def test_the_doctor_names_the_key_and_mends_the_queue_without_it(stage: Stage) -> None:
    """Until a person has moved it away, it leaves the rest alone."""
    for kind in KEYS:
        stage.put_back()
        key = stage.damage(kind)
        report = await stage.queue.doctor(repair=True)
        assert (kind, False) in {(f.subject, f.mended) for f in report.findings}, kind
        assert report.unchecked
        stage.raw.delete(key)
        report = await stage.queue.doctor(repair=True)
        assert report.left == [], kind
        await stage.queue.enqueue(spec("w"))
        assert_sound(stage.server, stage.queue)


@pytest.mark.parametrize("kind", ["ring", "config"])
async def test_a_worker_goes_on_once_the_key_is_mended(
    server: Server, beating: rota.Queue, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran = []

    @beating.task
    async def note(n: int) -> None:
        ran.append(n)

    raw, key = server.raw(), beating.link.keys.key(kind)
    async with working(beating) as worker:
        await note.enqueue(1)
        await eventually_async(lambda: ran == [1], "the first job did not run")
        raw.rename(key, key + ":away") if raw.exists(key) else None
        raw.set(key, "odd")
        await eventually_async(lambda: f"{key} is a string" in caplog.text, "it says nothing")
        await eventually_async(lambda: not worker.health().healthy, "it is healthy all the same")
        raw.delete(key)
        raw.rename(key + ":away", key) if raw.exists(key + ":away") else None
        await note.enqueue(2)
        await eventually_async(lambda: ran == [1, 2], "it stands still")
