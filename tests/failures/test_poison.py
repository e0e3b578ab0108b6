"""A dead job in a sequence: the sequence goes on behind it, or stops until someone acts."""

from __future__ import annotations

import asyncio

import pytest

import rota
from tests.failures.tools import Hand, Timed, jobs, stats, until_done, working
from tests.support.queues import assert_sound, dump
from tests.support.servers import Server
from tests.support.waiting import eventually_async

KINDS: dict[str, dict[str, str]] = {
    "sequence": {"lane": "a", "ordering_key": "k"},
    "ordered lane": {"lane": "!a"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", ["replay", "discard"])
async def test_a_hold_ends_with_its_job(
    server: Server, queue: rota.Queue, act: str, kind: str
) -> None:
    """The lane's other sequence and its single jobs go on; a replayed job runs first."""
    others = jobs(["m1", "m2"], lane="a", ordering_key="m") + jobs(["u1", "u2"], lane="a")
    await queue.enqueue_many(jobs("abcd", on_dead="hold", **KINDS[kind]) + others)
    hand = await Hand(queue).join()
    taken = await hand.claim(9, prefetch=3)
    assert set(taken) == {"a", "b", "c", "m1", "m2", "u1", "u2"}
    for id in ("m1", "m2", "u1", "u2", "a"):
        assert await hand.settle(id, "complete") == "ok"
    assert await hand.settle("b", "bury", hold=True) == "ok"
    assert await hand.settle("c", "complete") == "settled", "it went back with the dead head"
    await queue.enqueue_many(jobs(["u3"], lane="a") + jobs("e", **KINDS[kind]))
    assert await hand.claim(9, prefetch=9) == ["u3"]
    assert await hand.settle("u3", "complete") == "ok"
    assert dump(server, queue).counts("gactive") == {}
    assert await getattr(queue.dead, act)("b") == ["ok"]
    rest = ["b", "c", "d", "e"] if act == "replay" else ["c", "d", "e"]
    assert await hand.claim(9, prefetch=9) == rest
    found = assert_sound(server, queue)
    assert found.get("why") == {}
    assert found.counts("attempts") == {}, "attempts are forgiven, or gone"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_skipped_job_keeps_its_place_for_a_replay(
    server: Server, queue: rota.Queue, kind: str
) -> None:
    """The sequence has gone on; the replayed job runs before what still waits, after what is in
    flight."""
    await queue.enqueue_many(jobs("abcde", **KINDS[kind]))
    hand = await Hand(queue).join()
    assert await hand.claim(1, prefetch=2) == ["a", "b"]
    assert await hand.settle("a", "bury") == "ok"
    assert dump(server, queue).deliveries(hand.id).keys() == {"b"}, "what is behind goes on"
    assert await queue.dead.replay("a") == ["ok"]
    assert await hand.claim() == [], "the sequence is held"
    assert_sound(server, queue)
    assert await hand.settle("b", "complete", delivery="1") == "ok"
    assert await hand.claim(1, prefetch=9) == ["a", "c", "d", "e"]
    assert_sound(server, queue)


async def test_two_dead_jobs_of_one_sequence(server: Server, queue: rota.Queue) -> None:
    """Skipped ones do not hold, and discarding them frees nothing another holds."""
    await queue.enqueue_many(jobs("abcd", lane="!o"))
    hand = await Hand(queue).join()
    assert await hand.claim(1, prefetch=2) == ["a", "b"]
    assert await hand.settle("a", "bury") == "ok"
    assert await hand.settle("b", "bury", hold=True) == "ok"
    assert await queue.dead.discard("a") == ["ok"]
    assert await hand.claim() == []
    assert_sound(server, queue)
    assert await queue.dead.replay("b") == ["ok"]
    assert await hand.claim(1, prefetch=9) == ["b", "c", "d"]
    assert_sound(server, queue)


async def test_a_purge_leaves_a_hold_and_a_discard_frees_what_comes_later(
    server: Server, queue: rota.Queue
) -> None:
    await queue.enqueue_many(jobs("abc", lane="!o"))
    hand = await Hand(queue).join()
    await hand.claim()
    await hand.settle("a", "bury", hold=True)
    assert await queue.lane("!o").purge() == 2
    await queue.enqueue_many(jobs("d", lane="!o"))
    assert await hand.claim() == []
    assert_sound(server, queue)
    assert await queue.dead.discard("a") == ["ok"]
    assert await hand.claim() == ["d"]
    assert_sound(server, queue)


async def test_a_hold_does_not_end_with_a_delay_or_a_block(server: Server, timed: Timed) -> None:
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(jobs("abc", lane="a", ordering_key="k"))
    hand = await Hand(queue, lease=60).join()
    await hand.claim(1, prefetch=2)
    await hand.settle("b", "bury", hold=True)
    await hand.settle("a", "retry", delay=1000)
    clock.advance(5000)
    assert await hand.claim() == []
    assert await queue.dead.discard("b") == ["ok"]
    assert await hand.claim(1, prefetch=5) == ["a", "c"]
    assert_sound(server, queue)


@pytest.mark.parametrize("policy", ["skip", "hold"])
async def test_workers_stop_or_go_on_at_a_poisoned_head(
    server: Server, queue: rota.Queue, policy: str
) -> None:
    """As the task says; a replay after the mend wakes them at once."""
    ran: list[str] = []
    broken = True

    @queue.task(max_attempts=2, backoff=rota.Backoff(base=0.02, jitter=0), on_dead=policy)  # type: ignore[call-overload, untyped-decorator]
    async def step(name: str) -> None:
        ran.append(name)
        if name == "C" and broken:
            raise ValueError("poison")

    await queue.enqueue_many(
        step.options(lane="a", ordering_key="k", id=name).spec(name) for name in "ABCDE"
    )
    await queue.enqueue_many(step.options(lane="a", ordering_key="m").spec(n) for n in "xyz")
    async with working(queue, prefetch=3):
        await until_done(server, queue, 7 if policy == "skip" else 5)
        await eventually_async(lambda: stats(server, queue).get("buried") == 1, "not buried")
        (dead,) = await queue.dead.list()
        assert (dead.id, dead.attempts) == ("C", 2)
        assert "ValueError: poison" in str(dead.error)
        if policy == "hold":
            await asyncio.sleep(0.2)
            assert "D" not in ran
        broken = False
        assert await queue.dead.replay("C") == ["ok"]
        await until_done(server, queue, 8)
    in_sequence = [name for name in ran if name in "ABCDE"]
    assert in_sequence == list("ABCCDEC" if policy == "skip" else "ABCCCDE")
    assert_drained_of_dead(server, queue)


def assert_drained_of_dead(server: Server, queue: rota.Queue) -> None:
    assert_sound(server, queue)
    assert dump(server, queue).get("dead") == {}
    assert stats(server, queue).get("waiting", 0) == 0


async def test_an_expired_or_unreadable_head_follows_the_same_rule(
    server: Server, timed: Timed
) -> None:
    """Dead before it ran: skip and hold as its record says; an unreadable one skips."""
    queue, clock = timed.queue, timed.clock
    await queue.enqueue_many(
        jobs(["a1"], lane="!a", on_dead="hold", expires_in_ms=1000)
        + jobs(["a2"], lane="!a")
        + jobs(["b1"], lane="!b", expires_in_ms=1000)
        + jobs(["b2"], lane="!b")
        + jobs(["c1", "c2"], lane="!c", on_dead="hold")
    )
    server.raw().setrange(queue.link.keys.key("job", "c1"), 47, "damaged")
    clock.advance(1000)
    async with queue.consumer(prefetch=5, lease=3600) as consumer:
        assert {job.id for job in await consumer.claim(5)} == {"b2", "c2"}
        await consumer.complete(consumer.held)
        assert {job.id for job in await queue.dead.list()} == {"a1", "b1", "c1"}
        assert await consumer.claim(5) == []
        assert await queue.dead.replay("c1", "a1") == ["unreadable", "ok"]
        assert await consumer.claim(5) == [], "it has expired: dead again, and holds again"
        assert await queue.dead.discard("a1", "b1", "c1") == ["ok"] * 3
        (last,) = await consumer.claim(5)
        assert last.id == "a2"
        await consumer.complete(last)
    assert_sound(server, queue)
