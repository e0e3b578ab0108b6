"""Every script does on every kind of server what it does on Valkey, down to what it leaves.

What a script decides is searched on Valkey, where most tests run. Here a queue with something of
everything lives the same calls on each kind, at one time of its own: answers and keys are equal.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any

import pytest

import rota
from rota.script.loader import BOUND
from rota.values import ids
from tests.failures.stage import ACTS, Act, Stage, store
from tests.model import audit
from tests.support.clock import Clock, on_test_clock
from tests.support.queues import dump, spec
from tests.support.servers import Server
from tests.support.times import FAR_BEAT

JOBS = ("a1", "a2", "c1", "c2", "d1", "h1", "h2", "l1", "o2", "p1", "r1", "r2", "s2", "s5", "none")
LANES = ("a", "b", "c", "h", "l", "!o", "p", "r", "t", "w", "none")
QUEUE_READS: dict[str, Act] = {
    "queue": lambda stage: stage.queue.info(),
    "templates": lambda stage: stage.queue.templates(),
    "consumers": lambda stage: stage.queue.consumers(),
    "lanes": lambda stage: stage.queue.lanes(by="oldest_wait"),
    "census": lambda stage: stage.queue.census(),
    "shares": lambda stage: stage.queue.shares(by="oldest_wait"),
    "sequences": lambda stage: stage.queue.sequences(),
    "dead": lambda stage: stage.queue.dead.list(),
    "running": lambda stage: stage.queue.jobs("running"),
    "delayed": lambda stage: stage.queue.jobs("delayed"),
    "dead jobs": lambda stage: stage.queue.jobs("dead"),
    "what is asked": store("asked", lambda stage: [stage.busy.hand.id, stage.busy.other.id]),
    "orders": store("orders", lambda stage: [stage.busy.other.id]),
    "doctor": lambda stage: stage.queue.doctor(),
}


async def mend(stage: Stage) -> object:
    """Counts that are wrong, of the queue and of a lane too long for one script."""
    await stage.queue.enqueue_many([spec("long", id=f"long{n}") for n in range(5_100)])
    for kind, field in (("stats", "waiting"), ("gactive", "a"), ("gwaiting", "long")):
        stage.raw.hset(stage.keys.key(kind), field, 99)
    return await stage.queue.doctor(repair=True)


def reads_of_a_lane(lane: str) -> dict[str, Act]:
    key = None if lane.startswith("!") else "k"
    return {
        f"waiting in {lane}": lambda stage: stage.queue.jobs("waiting", lane=lane),
        f"lane {lane}": lambda stage: stage.queue.lane(lane).info(),
        f"why {lane}": lambda stage: stage.queue.lane(lane).explain(),
        f"sequence of {lane}": lambda stage: stage.queue.lane(lane).sequence(key),
    }


def reads_of_a_job(id: str) -> dict[str, Act]:
    return {
        f"job {id}": lambda stage: stage.queue.job(id).info(),
        f"why {id}": lambda stage: stage.queue.job(id).explain(),
    }


CALLS = QUEUE_READS | ACTS | {"mend": mend}
for one in LANES:
    CALLS |= reads_of_a_lane(one)
for one in JOBS:
    CALLS |= reads_of_a_job(one)


def plain(answer: Any) -> Any:
    """Without what is the server's affair: the order of a hash, and so of a sum of its values."""
    match answer:
        case float():
            return round(answer, 9)
        case dict():
            return {name: plain(value) for name, value in answer.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(value) for value in answer]
        case _ if is_dataclass(answer):
            return {field.name: plain(getattr(answer, field.name)) for field in fields(answer)}
        case _:
            return repr(answer)


def contents(found: audit.Dump) -> dict[str, Any]:
    """What each key holds; the order of the fields in JSON is the server's affair as well."""
    held = {key: found.get(key) for key in found.types}
    for name in ("templates", "cancels", "why"):
        notes = found.get(name).items()
        held[name] = {of: json.loads(text) if text[:1] == "{" else text for of, text in notes}
    return held


class Life:
    """What came of the calls on one server: of each its answer, and what the keys hold then."""

    def __init__(self) -> None:
        self.came: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.sent: set[str] = set()

    async def live(self, server: Server, name: str) -> Life:
        queue = on_test_clock(rota.Queue(name, url=server.url, beat=FAR_BEAT))
        Clock(server.raw(), queue.link.keys)
        try:
            stage = await Stage(server, queue, wary=False).set_up()
            for what, act in CALLS.items():
                stage.put_back()
                stage.busy.hand.number = stage.busy.other.number = 50
                answer = await act(stage)
                self.came[what] = plain(answer), contents(dump(server, queue))
            self.sent = stage.sent
        finally:
            await queue.close()
        return self


@pytest.mark.legs("cluster", "redis7")
async def test_every_script_does_the_same_on_every_server(
    server: Server, valkey: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives: list[Life] = []
    for where in (valkey, server):
        digits = count()
        monkeypatch.setattr(ids, "_digits", lambda of=digits: f"{next(of):015x}")
        lives.append(await Life().live(where, queue_name))
    there, here = lives
    for what in CALLS:
        (said, left), (expected, kept) = here.came[what], there.came[what]
        assert said == expected, what
        differ = {key for key in left.keys() | kept.keys() if left.get(key) != kept.get(key)}
        assert differ == set(), what
    assert set(BOUND) - here.sent == set(), "scripts that were not called"
