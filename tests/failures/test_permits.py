"""C18: whatever ends a lease on a job frees its permit, and its lane may be served again.

20 lanes are brought to their ceiling, all that is held ends by one way alone, then the keys are
audited and the lanes must be claimable as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import rota
from rota.consume.deliveries import Deliveries
from tests.failures.tools import Hand, Timed, beat
from tests.support.queues import assert_sound, dump
from tests.support.servers import Server

LANES = [f"l{n}" for n in range(14)] + [f"!o{n}" for n in range(6)]
CEILING = 2

End = Callable[[Timed, Hand, list[str]], Awaitable[None]]


async def _settle(hand: Hand, ids: list[str], action: str, **how: object) -> None:
    for id in ids:
        assert await hand.settle(id, action, **how) in ("ok", "settled")


async def complete(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "complete")


async def exchange(timed: Timed, hand: Hand, ids: list[str]) -> None:
    reply = await hand.exchange(0, done=[(id, "1") for id in ids])
    assert set(reply.answers) == {"ok"}


async def retry(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "retry")


async def delayed_retry(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "retry", delay=1000)
    assert_all_free(timed)
    timed.clock.advance(1000)


async def release(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "release")


async def bury(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "bury")


async def bury_and_hold(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "bury", hold=True)
    assert_all_free(timed)
    await timed.queue.dead.discard_all()


async def bury_and_replay(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "bury", hold=True)
    assert await timed.queue.dead.replay_all() > 0


async def rate_limit(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "block_lane", delay=1000)
    assert_all_free(timed)
    timed.clock.advance(1000)


async def unblock(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "block_lane", delay=1000)
    for lane in LANES:
        await timed.queue.lane(lane).unblock()


async def reap(timed: Timed, hand: Hand, ids: list[str]) -> None:
    for _ in range(4):
        timed.clock.advance(1100)
        await beat(timed.queue)


async def reap_in_one(timed: Timed, hand: Hand, ids: list[str]) -> None:
    timed.clock.advance(60_000)
    await beat(timed.queue)


async def third_death(timed: Timed, hand: Hand, ids: list[str]) -> None:
    keys = timed.queue.link.keys
    raw = RAW[timed.queue.name]
    raw.raw().hset(keys.key("deaths"), mapping=dict.fromkeys(ids, 2))
    await reap(timed, hand, ids)
    assert stat(timed, "buried") > 0
    assert_all_free(timed)
    await timed.queue.dead.discard_all()  # those of sequences hold them


async def leave(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await hand.leave()


async def evict(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await timed.queue.evict(hand.id)


async def purge_then_complete(timed: Timed, hand: Hand, ids: list[str]) -> None:
    """Purging takes what waits; what is in flight keeps its permit until it ends."""
    await timed.queue.purge()
    assert dump(RAW[timed.queue.name], timed.queue).counts("gactive")
    await _settle(hand, ids, "complete")
    await timed.queue.enqueue_many(enough())


async def cancel(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "cancel")


async def cancel_then_release(timed: Timed, hand: Hand, ids: list[str]) -> None:
    """What was asked to be cancelled does not go back; the rest does."""
    for id in ids[::2]:
        assert await timed.queue.job(id).cancel() == "asked"
    await _settle(hand, ids, "release")
    assert stat(timed, "cancelled") == len(ids[::2])


async def cancel_then_complete(timed: Timed, hand: Hand, ids: list[str]) -> None:
    for lane in LANES:
        assert (await timed.queue.lane(lane).cancel()).asked > 0
    assert stat(timed, "waiting") == 0
    await _settle(hand, ids, "complete")
    assert_all_free(timed)
    await timed.queue.enqueue_many(enough())


async def cancel_then_reap(timed: Timed, hand: Hand, ids: list[str]) -> None:
    for id in ids:
        assert await timed.queue.job(id).cancel() == "asked"
    await reap(timed, hand, ids)
    assert stat(timed, "cancelled") == len(ids)
    assert stat(timed, "buried") == 0


async def cancel_then_leave(timed: Timed, hand: Hand, ids: list[str]) -> None:
    for id in ids:
        assert await timed.queue.job(id).cancel() == "asked"
    assert await hand.leave() == 0


async def cancel_what_waits(timed: Timed, hand: Hand, ids: list[str]) -> None:
    """Heads that block their sequences included: their blocks end with them."""
    await _settle(hand, ids, "retry", delay=1000)
    for id in ids:
        assert await timed.queue.job(id).cancel() in ("cancelled", "none")
    assert stat(timed, "cancelled") > 0


async def purge_what_waits(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await _settle(hand, ids, "retry", delay=1000)
    for lane in LANES:
        await timed.queue.lane(lane).purge()
    assert_all_free(timed)
    assert dump(RAW[timed.queue.name], timed.queue).get("blocked") == {}
    await timed.queue.enqueue_many(enough())


async def reconcile(timed: Timed, hand: Hand, ids: list[str]) -> None:
    """The claim's reply was lost: what it took is unknown and given back."""
    knows_nothing = Deliveries(timed.queue.link.store, lease_ms=60_000, decode=timed.queue.decode)
    knows_nothing.id, knows_nothing._number = hand.id, hand.number
    await timed.queue.link.run(knows_nothing.reconcile())


async def lost_bodies(timed: Timed, hand: Hand, ids: list[str]) -> None:
    keys = timed.queue.link.keys
    for id in ids:
        RAW[timed.queue.name].raw().delete(keys.key("job", id))
    await _settle(hand, ids, "complete")


async def pause_and_resume(timed: Timed, hand: Hand, ids: list[str]) -> None:
    for lane in LANES:
        await timed.queue.lane(lane).pause()
    await _settle(hand, ids, "release")
    assert_all_free(timed)
    for lane in LANES:
        await timed.queue.lane(lane).resume()


async def other_ceilings(timed: Timed, hand: Hand, ids: list[str]) -> None:
    await timed.queue.set_lanes({lane: {"ceiling": 0} for lane in LANES})
    await _settle(hand, ids, "complete")
    assert_all_free(timed)
    await timed.queue.set_lanes({lane: {"ceiling": CEILING} for lane in LANES})


WAYS: list[End] = [
    complete,
    exchange,
    retry,
    delayed_retry,
    release,
    bury,
    bury_and_hold,
    bury_and_replay,
    rate_limit,
    unblock,
    reap,
    reap_in_one,
    third_death,
    leave,
    evict,
    purge_then_complete,
    purge_what_waits,
    cancel,
    cancel_then_release,
    cancel_then_complete,
    cancel_then_reap,
    cancel_then_leave,
    cancel_what_waits,
    reconcile,
    lost_bodies,
    pause_and_resume,
    other_ceilings,
]

RAW: dict[str, Server] = {}


def stat(timed: Timed, name: str) -> int:
    return dump(RAW[timed.queue.name], timed.queue).counts("stats").get(name, 0)


def assert_all_free(timed: Timed) -> None:
    found = assert_sound(RAW[timed.queue.name], timed.queue)
    assert found.counts("gactive") == {}
    assert found.get("held") == {}
    assert found.counts("stats").get("running", 0) == 0


def enough(**fields: object) -> list[rota.JobSpec]:
    """More than the ceiling in each lane: unordered jobs, a sequence; ordered lanes."""
    found = []
    for lane in LANES:
        for n in range(6):
            key = None if lane[0] == "!" or n % 3 else "k"
            found.append(
                rota.JobSpec(task="work", lane=lane, ordering_key=key, on_dead="hold", **fields)  # type: ignore[arg-type]
            )
    return found


@pytest.fixture
def told(server: Server, timed: Timed) -> Timed:
    RAW.clear()
    RAW[timed.queue.name] = server
    return timed


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_every_way_a_lease_ends_frees_the_permits(told: Timed, way: End) -> None:
    queue = told.queue
    await queue.set_lanes({lane: {"ceiling": CEILING} for lane in LANES})
    await queue.enqueue_many(enough())
    hand = await Hand(queue, lease=4).join()
    taken = await hand.claim(1000, prefetch=2)
    active = dump(RAW[queue.name], queue).counts("gactive")
    assert active == {lane: 1 if lane[0] == "!" else CEILING for lane in LANES}
    assert await hand.claim(1000, prefetch=2) == []
    hand.number = 1
    await way(told, hand, taken)
    assert_all_free(told)
    other = await Hand(queue, lease=3600).join()
    assert await other.claim(1000, prefetch=2)
    assert dump(RAW[queue.name], queue).counts("gactive") == active, "a lane does not come back"
    assert_sound(RAW[queue.name], queue)


@pytest.mark.parametrize("damage", ["expired", "undecodable", "missing"])
async def test_jobs_that_cannot_be_run_free_their_permits_too(told: Timed, damage: str) -> None:
    """They are buried by whoever claims them; the good ones behind them come in the same or the
    next claims, the lanes never above their ceiling."""
    queue = told.queue
    await queue.set_lanes({lane: {"ceiling": CEILING} for lane in LANES})
    fields = {"expires_in_ms": 1000} if damage == "expired" else {}
    bad = [spec for spec in enough(**fields) if spec.ordering_key is None and spec.lane[0] != "!"]
    good = [rota.JobSpec(task="work", lane=lane) for lane in LANES]
    await queue.enqueue_many([*bad, *good])
    raw, keys = RAW[queue.name].raw(), queue.link.keys
    if damage == "expired":
        told.clock.advance(1000)
    for spec in bad:
        if damage == "undecodable":
            raw.setrange(keys.key("job", spec.id), 47, "damaged")
        elif damage == "missing":
            raw.delete(keys.key("job", spec.id))
    seen = set()
    async with queue.consumer(lease=3600, prefetch=2) as consumer:
        for _ in range(20):
            for job in await consumer.claim(100):
                seen.add(job.id)
                await consumer.complete(job)
    assert seen == {spec.id for spec in good}
    assert_all_free(told)
    assert {job.id async for job in queue.dead.iterate()} == {spec.id for spec in bad}


async def test_ways_at_the_same_time(told: Timed) -> None:
    """Several consumers end what they hold by different ways, concurrently, for some rounds."""
    queue = told.queue
    await queue.set_lanes({lane: {"ceiling": CEILING} for lane in LANES})
    await queue.enqueue_many([*enough(), *enough()])

    async def life(way: int) -> None:
        for _ in range(4):
            hand = await Hand(queue, lease=3600).join()
            taken = await hand.claim(7, prefetch=2)
            action = ("complete", "retry", "release", "bury")[way % 4]
            await _settle(hand, taken[: len(taken) // 2], action, hold=True)
            await (hand.leave() if way % 2 else queue.evict(hand.id))

    await asyncio.gather(*(life(way) for way in range(8)))
    assert_all_free(told)
