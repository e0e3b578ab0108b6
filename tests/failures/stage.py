"""A queue with something of everything, made once, put back before each call; the calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import rota
from rota.errors import RotaError
from rota.script.keys import CATALOGUE, Keys
from rota.script.loader import Call, Operation, Request
from rota.values.model import Settlement
from tests.failures.damage import Busy, make_busy
from tests.failures.tools import Hand, beat, jobs
from tests.support.queues import spec
from tests.support.servers import Server

KEYS = {kind.name: kind.type for kind in CATALOGUE if kind.parameter is None}
del KEYS["none"]

_LOOK = """
local root, found = KEYS[1]:sub(1, -7), {}
for _, key in ipairs(redis.call('KEYS', root .. '*')) do
  found[#found + 1] = { key, redis.call('DUMP', key) }
end
return found
"""
_PUT_BACK = """
local root, kept = KEYS[1]:sub(1, -7), ARGV[1]
for _, key in ipairs(redis.call('KEYS', root .. '*')) do
  redis.call('DEL', key)
end
for _, key in ipairs(redis.call('KEYS', kept .. '*')) do
  redis.call('COPY', key, root .. key:sub(#kept + 1))
end
"""


class Kept:
    """A copy of all a queue's keys, taken when it is made."""

    def __init__(self, server: Server, keys: Keys, name: str) -> None:
        self._raw = server.raw(decode=False)
        self._config = keys.config
        self._root = Keys(name, "kept").root
        for key in server.keys():
            if key.startswith(keys.root):
                self._raw.copy(key, self._root + key.removeprefix(keys.root))

    def put_back(self) -> None:
        self._raw.eval(_PUT_BACK, 1, self._config, self._root)


Act = Callable[["Stage"], Awaitable[object]]


class Stage:
    """The queue, its copy, and what each call to it did. `wary`: looks for what is half-written."""

    def __init__(self, server: Server, queue: rota.Queue, *, wary: bool = True) -> None:
        self.queue = queue
        self.server = server
        self.raw = server.raw(decode=False)
        self.keys = queue.link.keys
        self.torn: list[str] = []
        """What was half-written, and what did not name its key."""
        self._wary = wary
        self.sent: set[str] = set()
        """The names of the scripts that were called."""
        self.busy: Busy
        self.what = ""

    async def set_up(self) -> Stage:
        self.busy = await make_busy(self.queue)
        await self.queue.pause(reason="a while", until=4_000_000_000)
        await self.queue.resume()
        self._due("scheduled", "blocked", "gtat")
        gone = await Hand(self.queue).join()
        await self.queue.enqueue(spec("a", id="gone", priority=1000))
        assert "gone" in await gone.claim(20)
        self.raw.zadd(self.keys.key("consumers"), {gone.id: 1})
        self.raw.hset(self.keys.config, "beat", "1")
        await self.queue.job("a1").cancel()
        await self.queue.quiet(self.busy.other.id)
        self._kept = Kept(self.server, self.keys, self.queue.name)
        run = self.queue.link.run

        def watched(operation: Operation[Any], **how: Any) -> Any:
            return run(self._watched(operation), **how)

        self.queue.link.run = watched  # type: ignore[method-assign]
        return self

    def _due(self, *kinds: str) -> None:
        """Some of what is there falls due."""
        for kind in kinds:
            for member in self.raw.zrange(self.keys.key(kind), 0, 0):
                self.raw.zadd(self.keys.key(kind), {member: 1})

    def put_back(self) -> None:
        self._kept.put_back()

    def damage(self, kind: str) -> str:
        key = self.keys.key(kind)
        self.raw.delete(key)
        self.raw.rpush(key, "odd") if KEYS[kind] != "list" else self.raw.set(key, "odd")
        return key

    def look(self) -> dict[bytes, bytes]:
        rows: Any = self.raw.eval(_LOOK, 1, self.keys.config)
        return dict(rows)

    def _note(self, request: Request) -> None:
        calls = request if isinstance(request, list) else [request]
        self.sent |= {call.script.name for call in calls if isinstance(call, Call)}

    def _watched(self, operation: Operation[Any]) -> Operation[Any]:
        """Looks at everything before and after each call that fails."""
        try:
            request: Request = next(operation)
            while True:
                self._note(request)
                before = self.look() if self._wary else {}
                try:
                    reply = yield request
                except RotaError as error:
                    after = self.look() if self._wary else {}
                    if before != after:
                        keys = before.keys() | after.keys()
                        changed = sorted(str(k) for k in keys if before.get(k) != after.get(k))
                        self.torn.append(f"{self.what} wrote {changed}")
                    request = operation.throw(error)
                else:
                    request = operation.send(reply)
        except StopIteration as end:
            return end.value


def settles(*actions: str, **how: Any) -> Act:
    """What is held, in one call: of a lane that is full, of a sequence, by time."""

    async def act(stage: Stage) -> None:
        hand = stage.busy.hand
        held = [(id, 3) for id in ("c1",)] + [(id, 2) for id in ("s1", "s2", "s3")] + [("a1", 1)]
        rows = [
            Settlement(id, str(number), actions[i % len(actions)], **how)  # type: ignore[arg-type]
            for i, (id, number) in enumerate(held)
        ]
        answers = await stage.queue.link.run(stage.queue.link.store.settle(hand.id, rows))
        assert "lost" not in answers

    return act


def enqueues(lane: str, **fields: Any) -> Act:
    how = {name: fields.pop(name) for name in ("atomic",) if name in fields}
    return lambda stage: stage.queue.enqueue_many(jobs(["n1", "n2"], lane, **fields), **how)


def store(method: str, *args: Any, **how: Any) -> Act:
    return lambda stage: stage.queue.link.run(
        getattr(stage.queue.link.store, method)(
            *(arg(stage) if callable(arg) else arg for arg in args), **how
        )
    )


def hand_id(stage: Stage) -> str:
    return stage.busy.hand.id


def other_id(stage: Stage) -> str:
    return stage.busy.other.id


ACTS: dict[str, Act] = {
    "enqueue": enqueues("a"),
    "enqueue into a new lane": enqueues("new"),
    "enqueue into a sequence": enqueues("b", ordering_key="new"),
    "enqueue into a held sequence": enqueues("b", ordering_key="k"),
    "enqueue with a delay": enqueues("new", delay_ms=1000),
    "enqueue with costs": enqueues("w", cost=3),
    "enqueue by time": enqueues("new", charge="time"),
    "enqueue large": enqueues("new", payload=b'"' + b"x" * 5000 + b'"'),
    "enqueue all or none": enqueues("new", atomic=True),
    "enqueue one": lambda stage: stage.queue.enqueue(spec("w", id="n")),
    "join": store("join", "new", lease_ms=1000, name="host:1"),
    "heartbeat": store("heartbeat", lambda stage: [stage.busy.hand.id], lease_ms=1000),
    "claim": lambda stage: stage.busy.other.exchange(20, prefetch=2),
    "claim one": lambda stage: stage.busy.other.exchange(1),
    "complete": lambda stage: stage.busy.hand.exchange(
        0, done=[("c1", "3"), ("s1", "2"), ("s2", "2"), ("s3", "2"), ("a1", "1")]
    ),
    "complete and claim": lambda stage: stage.busy.hand.exchange(5, done=[("c1", "3")]),
    "settle": settles("complete"),
    "retry": settles("retry", error="{}"),
    "retry later": settles("retry", delay=1000, error="{}"),
    "release": settles("release", unstarted=True),
    "bury": settles("bury", error="{}", hold=True),
    "block lanes": settles("block_lane", delay=1000),
    "block sequences": settles("block_sequence", delay=1000),
    "cancel held": settles("cancel"),
    "each its own way": settles("complete", "retry", "bury", "release"),
    "start": store("start", hand_id, "a1", "1"),
    "what is held": store("deliveries_of", hand_id, number=99),
    "leave": store("leave", hand_id),
    "evict": lambda stage: stage.queue.evict(stage.busy.hand.id),
    "pass on": store("pass_on", beat_ms=1000),
    "beat": lambda stage: beat(stage.queue),
    "beat of a witness": lambda stage: beat(stage.queue, watched_ms=10**15),
    "cancel": lambda stage: stage.queue.job("a2").cancel(by="me"),
    "cancel in a sequence": lambda stage: stage.queue.job("r1").cancel(),
    "cancel what is delayed": lambda stage: stage.queue.job("d2").cancel(),
    "cancel what runs": lambda stage: stage.queue.job("c1").cancel(),
    "cancel a lane": lambda stage: stage.queue.lane("b").cancel(),
    "retry the dead": lambda stage: stage.queue.job("h1").retry(),
    "retry the delayed": lambda stage: stage.queue.job("d2").retry(),
    "retry a head": lambda stage: stage.queue.job("r1").retry(),
    "replay": lambda stage: stage.queue.dead.replay_all(),
    "discard": lambda stage: stage.queue.dead.discard_all(),
    "skip": lambda stage: stage.queue.lane("r").skip("k", by="me"),
    "skip the dead": lambda stage: stage.queue.lane("h").skip("k"),
    "purge": lambda stage: stage.queue.purge(),
    "move": lambda stage: stage.queue.lane("a").move("w"),
    "move sequences": lambda stage: stage.queue.lane("b").move("z"),
    "reprioritize": lambda stage: stage.queue.lane("a").reprioritize(7),
    "reprioritize sequences": lambda stage: stage.queue.lane("b").reprioritize(7),
    "pause": lambda stage: stage.queue.lane("a").pause(until=4_000_000_000),
    "resume": lambda stage: stage.queue.lane("p").resume(),
    "block": lambda stage: stage.queue.lane("a").block(9),
    "unblock": lambda stage: stage.queue.lane("l").unblock(),
    "set a lane": lambda stage: stage.queue.lane("w").set(
        ceiling=2, weight=5, rate=rota.Rate(1), backlog=3, template="pro"
    ),
    "reset a lane": lambda stage: stage.queue.lane("w").reset(),
    "set the queue": lambda stage: stage.queue.set(default_ceiling=3, default_weight=2, ceiling=9),
    "set a template": lambda stage: stage.queue.set_template("pro", weight=2),
    "drop a template": lambda stage: stage.queue.drop_template("pro"),
    "pause the queue": lambda stage: stage.queue.pause(until=4_000_000_000),
    "resume the queue": lambda stage: stage.queue.resume(),
    "quiet": lambda stage: stage.queue.quiet(stage.busy.hand.id),
    "info": lambda stage: stage.queue.info(),
    "lanes": lambda stage: stage.queue.lanes(),
    "explain": lambda stage: stage.queue.job("s5").explain(),
}
