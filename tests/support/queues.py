"""What tests of the runtime share: queues, audits, counting commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import rota
from tests.model import audit
from tests.support.servers import Server
from tests.support.times import FAR_BEAT

SENT_BY_CLIENTS = ("evalsha", "blpop", "script|load")
"""What rota's clients send; commands that scripts call, and ours, are counted beside them."""


@asynccontextmanager
async def open_queue(
    server: Server | str, name: str, *, beat: float = FAR_BEAT
) -> AsyncIterator[rota.Queue]:
    """A queue whose connections are closed at the end; what needs its beats says so."""
    url = server if isinstance(server, str) else server.url
    queue = rota.Queue(name, url=url, beat=beat)
    try:
        yield queue
    finally:
        await queue.close()


def spec(lane: str = "a", task: str = "work", **fields: Any) -> rota.JobSpec:
    return rota.JobSpec(task=task, lane=lane, **fields)


def specs(n: int, lane: str = "a", **fields: Any) -> list[rota.JobSpec]:
    return [spec(lane, **fields) for _ in range(n)]


def ids(jobs: Iterable[rota.Job | rota.JobSpec]) -> list[str]:
    return [job.id for job in jobs]


def dump(server: Server, queue: rota.Queue) -> audit.Dump:
    """All the queue's keys at one moment."""
    return audit.read(server.raw(decode=False), queue.link.keys)


def assert_sound(server: Server, queue: rota.Queue) -> audit.Dump:
    """The audit finds nothing."""
    found = dump(server, queue)
    assert audit.findings(found) == []
    return found


def assert_drained(server: Server, queue: rota.Queue, *, done: int) -> None:
    """Nothing waits, runs or is dead, `done` jobs were completed, and the keys are sound."""
    stats = assert_sound(server, queue).counts("stats")
    left = {name: stats.get(name, 0) for name in ("waiting", "running", "buried")}
    assert left == {"waiting": 0, "running": 0, "buried": 0}
    assert stats.get("completed", 0) == done


def held_on_server(server: Server, queue: rota.Queue) -> dict[str, set[str]]:
    """What each consumer holds, by the server's word."""
    found = dump(server, queue)
    return {consumer: set(found.deliveries(consumer)) for consumer, _ in found.each("c:")}


def end_lease(server: Server, queue: rota.Queue, consumer: str) -> None:
    """As if it had not been renewed for so long: the next beat takes back what it holds."""
    server.raw().zadd(queue.link.keys.key("consumers"), {consumer: 1}, xx=True, lt=True)


def end_leases(server: Server, queue: rota.Queue, process: int) -> None:
    """`end_lease` for all consumers of a process."""
    raw, keys = server.raw(), queue.link.keys
    for consumer in cast("list[str]", raw.zrange(keys.key("consumers"), 0, -1)):
        name = cast("str | None", raw.hget(keys.key("consumer", consumer), "!name"))
        if name is not None and name.rstrip().endswith(f":{process}"):
            end_lease(server, queue, consumer)


def commands_sent(server: Server) -> int:
    """How many commands rota's clients have sent so far, all nodes together."""
    return sum(calls(server, name) for name in SENT_BY_CLIENTS)


def spent(server: Server) -> tuple[int, float]:
    """Calls of scripts so far, and the µs of processor time the server has used: other than by the
    clock, no time passes while the machine stands still."""
    used = 0.0
    for node in server.nodes:
        with node.client() as client:
            cpu = client.info("cpu")
        used += (cpu["used_cpu_user"] + cpu["used_cpu_sys"]) * 1e6
    return calls(server, "evalsha"), used


def calls(server: Server, command: str) -> int:
    total = 0
    for node in server.nodes:
        with node.client() as client:
            stats = client.info("commandstats")
        total += stats.get(f"cmdstat_{command}", {}).get("calls", 0)
    return total
