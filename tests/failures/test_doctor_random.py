"""Whatever one key, member or field of a queue is damaged, the doctor mends it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rota
from tests.failures.damage import make_busy
from tests.failures.test_doctor import drain
from tests.model import audit
from tests.support.queues import dump
from tests.support.servers import Server

ODD = ("x", "", "-1", "0", "1.5", "77", "999999999", "a1", "s1", "p:a", "l:zz", "1:b:k", "!k", "{}")
NUMBERS = (-5.0, 0.0, 1.0, 3.5, 1e6, 1e15, float("inf"))


def damage(raw: redis.Redis, names: list[str], draw: Any) -> str:
    """Draws what to do to one of the keys, and does it: says what."""
    key = names[draw(st.integers(0, 10_000), label="key") % len(names)]
    kind: str = raw.type(key)  # type: ignore[assignment]
    act = draw(st.sampled_from(("delete", "drop", "alter", "add", "expire")), label="act")
    pick = draw(st.integers(0, 10_000), label="member")
    odd, number = draw(st.sampled_from(ODD)), draw(st.sampled_from(NUMBERS))
    parts = _members(raw, key, kind)
    part = parts[pick % len(parts)] if parts else ""
    if act == "delete":
        raw.delete(key)
    elif act == "expire":
        raw.pexpire(key, 3_600_000)
    elif kind == "string":
        raw.set(key, odd) if act != "add" else raw.append(key, odd)
    elif kind == "hash":
        raw.hdel(key, part) if act == "drop" else raw.hset(
            key, part if act == "alter" else odd, odd
        )
    elif kind == "zset":
        member = part if act == "alter" else odd
        raw.zrem(key, part) if act == "drop" else raw.zadd(key, {member: number})
    elif kind == "set":
        raw.srem(key, part) if act == "drop" else raw.sadd(key, odd)
    elif kind == "list":
        raw.rpush(key, *[odd] * 70)
    return f"{act} {key} {part!r} {odd!r} {number}"


def _members(raw: redis.Redis, key: str, kind: str) -> list[str]:
    found: Any = {
        "hash": lambda: raw.hkeys(key),
        "zset": lambda: raw.zrange(key, 0, -1),
        "set": lambda: raw.smembers(key),
    }.get(kind, list)()
    return sorted(found)


@pytest.mark.legs("valkey", "cluster", "redis7")
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), blows=st.integers(1, 3))
def test_any_damage_is_mended(
    server: Server, queue_name: str, data: st.DataObject, blows: int
) -> None:
    asyncio.run(_damage_and_mend(server, queue_name, data, blows))


async def _damage_and_mend(server: Server, name: str, data: Any, blows: int) -> None:
    server.flush()
    raw = server.raw()
    queue = rota.Queue(name, url=server.url)
    try:
        busy = await make_busy(queue)
        names = server.keys()
        done = [damage(raw, names, data.draw) for _ in range(blows)]
        report = await queue.doctor(repair=True)
        assert report.left == [], (report.left, done)
        assert audit.findings(dump(server, queue)) == [], done
        await drain(queue, busy)
        found = dump(server, queue)
        assert audit.findings(found) == [], done
        assert not found.get("ring"), done
    finally:
        await queue.close()
