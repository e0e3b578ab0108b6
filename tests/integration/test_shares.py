"""Shares received and due, and the highest of all lanes, with the queue's clock in hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

import rota
from rota.errors import ConfigError
from rota.script import stubs
from rota.script.loader import Operation, packed_names
from rota.values.figures import LaneShare, Shares, ShareSort
from tests.support.clock import Clock, on_test_clock
from tests.support.queues import assert_sound, specs, spent
from tests.support.servers import Server

LONG = 200_000
"""Milliseconds: longer than any window."""
HOSTILE = (
    "a b", "'", '"; drop', "{x}", "%s%d", "!ordered", "0", "-1", "nan", "ring", "g:a:pending", "é",
    "日本", "*", "a\\", "x" * 200, ":", "p:", "r:a",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scene:
    queue: rota.Queue
    clock: Clock

    async def fill(self, *lanes: str, jobs: int = 100, **fields: Any) -> None:
        for lane in lanes:
            await self.queue.enqueue_many(specs(jobs, lane, **fields))

    async def serve(self, turns: int, *, at_once: int = 1) -> None:
        """Single claims, each completed, as a worker that has just come would."""
        async with self.queue.consumer() as consumer:
            for _ in range(0, turns, at_once):
                jobs = await consumer.claim(at_once)
                assert len(jobs) == at_once
                await consumer.complete(jobs)

    async def shares(self, limit: int = 20, by: ShareSort = "behind") -> Shares:
        found = await self.queue.shares(limit, by)
        assert self.queue.sync.shares(limit, by) == found
        return found

    async def share(self, lane: str) -> LaneShare:
        (found,) = [share for share in (await self.shares(1000)).top if share.lane.name == lane]
        return found


@pytest.fixture
async def scene(server: Server, queue_name: str) -> AsyncIterator[Scene]:
    queue = on_test_clock(rota.Queue(queue_name, url=server.url))
    yield Scene(queue, Clock(server.raw(), queue.link.keys))
    if len(server.keys()) < 2000:  # the audit looks key by key
        assert_sound(server, queue)
    await queue.close()


def test_the_clock_starts_in_the_middle_of_a_minute() -> None:
    assert Clock.__init__.__defaults__ is not None
    assert Clock.__init__.__defaults__[0] % 60_000 == 20_000


# ── received and due ────────────────────────────────────────────────────────────────────────────


async def test_equal_weights_share_alike(scene: Scene) -> None:
    await scene.fill("a", "b", "c", "d")
    scene.clock.advance(LONG)
    await scene.serve(60)
    found = await scene.shares()
    assert found.index == pytest.approx(1)
    assert (found.lanes, found.window) == (4, 100)
    for share in found.top:
        assert (share.received, share.due, share.ratio, share.behind) == pytest.approx(
            (0.25, 0.25, 1, 0)
        )
        lane = share.lane
        assert (lane.served, lane.waiting, lane.running, lane.weight) == (15, 85, 0, 1)
        assert (lane.oldest_wait, lane.wait_mean, lane.state) == (200, 200, "ready")


async def test_what_is_due_follows_weights(scene: Scene) -> None:
    await scene.queue.lane("heavy").set(weight=3)
    await scene.queue.set(default_weight=1)
    await scene.fill("light", "heavy")
    scene.clock.advance(LONG)
    await scene.serve(80, at_once=4)
    found = {share.lane.name: share for share in (await scene.shares()).top}
    assert found["heavy"].due == pytest.approx(0.75)
    assert found["heavy"].received == pytest.approx(0.75, abs=1 / 80)
    assert found["light"].received == pytest.approx(0.25, abs=1 / 80)
    assert found["light"].lane.weight == 1
    assert (await scene.shares()).index == pytest.approx(1, abs=0.002)


async def test_what_is_due_follows_costs(scene: Scene) -> None:
    await scene.fill("dear", cost=4)
    await scene.fill("cheap")
    scene.clock.advance(LONG)
    await scene.serve(50)
    dear, cheap = await scene.share("dear"), await scene.share("cheap")
    assert cheap.lane.served == pytest.approx(4 * dear.lane.served, abs=4)
    assert dear.received == pytest.approx(0.5, abs=0.05)
    assert dear.due == cheap.due == pytest.approx(0.5)
    found = await scene.shares()
    assert found.index == pytest.approx(1, abs=0.01)


async def test_who_was_kept_from_its_share_is_behind(scene: Scene) -> None:
    """As it may come to where claims do not follow turns; here the pause has just ended."""
    await scene.fill("first", "kept", "late")
    scene.clock.advance(LONG)
    for lane in ("kept", "late"):
        await scene.queue.lane(lane).pause()
    await scene.serve(10)
    await scene.queue.lane("late").resume()
    await scene.serve(10)
    await scene.queue.lane("kept").resume()
    found = await scene.shares()
    assert [share.lane.name for share in found.top] == ["kept", "late", "first"]
    kept, late, first = found.top
    assert (kept.ratio, kept.behind, kept.received) == (0, 1, 0)
    assert late.ratio == pytest.approx(late.received / (1 / 3))
    assert late.behind == pytest.approx(1 - (late.ratio or 0))
    assert first.ratio == pytest.approx(first.received * 3)
    assert first.behind < 0
    paces = [first.received, late.received]
    assert found.index == pytest.approx(1 / (3 * sum(pace**2 for pace in paces)))


async def test_a_lane_that_may_not_be_served_is_not_behind(scene: Scene) -> None:
    shut = ("full", "paused", "blocked", "stopped", "rated")
    await scene.fill("a", "b", *shut)
    scene.clock.advance(LONG)
    queue = scene.queue
    async with queue.consumer() as consumer:
        await queue.lane("full").set(ceiling=1)
        await queue.lane("rated").set(rate=rota.Rate(1, per=600))
        held = await consumer.claim(len(shut) + 2)
        await consumer.complete([job for job in held if job.lane != "full"])
        await queue.lane("paused").pause()
        await queue.lane("blocked").block(500)
        await queue.lane("stopped").set(ceiling=0)
        async with queue.consumer() as other:
            for _ in range(40):
                await other.complete(await other.claim(1))
        found = await scene.shares()
        states = {share.lane.name: share.lane.state for share in found.top}
        assert states == {
            "a": "ready", "b": "ready", "full": "at ceiling", "paused": "paused",
            "blocked": "blocked", "stopped": "stopped", "rated": "out of rate",
        }  # fmt: skip
        assert found.index == pytest.approx(1)
        for share in found.top:
            assert share.ratio == pytest.approx(1), share.lane.name
            assert share.behind == pytest.approx(0), share.lane.name
            assert share.received == pytest.approx((1 if share.lane.name in shut else 21) / 47)


async def test_what_an_idle_lane_leaves_goes_to_the_others(scene: Scene) -> None:
    await scene.queue.lane("b").set(weight=2)
    await scene.fill("a", "b")
    await scene.fill("idle", jobs=3)
    scene.clock.advance(LONG)
    await scene.serve(63)
    found = {share.lane.name: share for share in (await scene.shares()).top}
    served = {name: share.lane.served for name, share in found.items()}
    assert served == {"a": 20, "b": 40, "idle": 3}
    assert found["idle"].due == pytest.approx(3 / 63)
    assert found["a"].due == pytest.approx(20 / 63)
    assert found["b"].due == pytest.approx(40 / 63)
    idle = found["idle"].lane
    assert (idle.state, idle.waiting, idle.oldest_wait) == ("idle", 0, None)


async def test_a_lane_that_has_just_come_is_hardly_behind(scene: Scene) -> None:
    await scene.fill("a", "b")
    scene.clock.advance(LONG)
    await scene.serve(20)
    await scene.fill("new")
    new = await scene.share("new")
    assert (new.received, new.due, new.ratio, new.behind) == (0, 0, None, 0)
    scene.clock.advance(10_000)
    found = await scene.shares()
    assert found.window == 110
    assert found.top[0].lane.name == "new"
    assert found.top[0].behind == pytest.approx(10 / 110)
    assert found.index == pytest.approx(1), "of those that have waited all through"


async def test_no_index_of_fewer_than_two_lanes_or_where_none_was_served(scene: Scene) -> None:
    found = await scene.shares()
    assert (found.index, found.lanes, found.top) == (None, 0, [])
    await scene.fill("a")
    scene.clock.advance(LONG)
    await scene.serve(1)
    assert (await scene.shares()).index is None
    await scene.fill("b")
    assert (await scene.shares()).index is None, "b has not waited all through"
    scene.clock.advance(LONG)
    found = await scene.shares()
    assert found.index is None, "nothing was served"
    assert [(share.received, share.due, share.ratio) for share in found.top] == [(0, 0, None)] * 2


async def test_lanes_leave_when_their_minutes_are_over(scene: Scene) -> None:
    await scene.fill("a", jobs=1)
    await scene.serve(1)
    seen = []
    for passed in (39_999, 1, 59_999, 1):
        scene.clock.advance(passed)
        found = await scene.shares()
        seen.append((found.lanes, found.window))
    assert seen == [(1, 119.999), (1, 60), (1, 119.999), (0, 60)]


@pytest.mark.parametrize("in_ring", [True, False])
async def test_a_lane_that_comes_and_goes_between_pages_is_told(
    scene: Scene, in_ring: bool
) -> None:
    keys = scene.queue.link.keys

    def page(place: list[bytes]) -> Operation[tuple[list[bytes], list[str]]]:
        after, rows, _ = yield from stubs.turns_page(keys, cursor=packed_names(place), limit=100)
        return after, [row.name for row in rows]

    await scene.fill("a", jobs=1)
    await scene.serve(1)
    place, found = list[bytes](), list[str]()
    for first in (True, False, False):
        if in_ring:
            await scene.fill("a", jobs=1)
        elif not first:
            await scene.serve(1)
        in_ring = not in_ring
        place, names = await scene.queue.link.run(page(place))
        found += names
    assert place == []
    assert "a" in found


async def test_in_what_order_and_how_many(scene: Scene) -> None:
    for n, lane in enumerate(("c", "a", "b")):
        await scene.fill(lane, jobs=10 + n)
        scene.clock.advance(1000)
    async with scene.queue.consumer() as consumer:
        held = await consumer.claim(3)
        await consumer.complete([job for job in held if job.lane != "a"])

        async def names(by: ShareSort, limit: int = 9) -> list[str]:
            return [share.lane.name for share in (await scene.shares(limit, by)).top]

        assert await names("waiting") == ["b", "a", "c"]
        assert await names("oldest_wait") == ["c", "a", "b"]
        assert await names("running") == ["a", "b", "c"]
        assert await names("served", 2) == ["a", "b"]
        assert (await scene.shares(1)).lanes == 3
    for wrong in (0, 10_000_000, True, "5"):
        with pytest.raises(ConfigError, match="limit: expected a whole number"):
            await scene.queue.shares(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="by: expected one of behind, .*, given 'name'"):
        scene.queue.sync.shares(by="name")  # type: ignore[arg-type]


async def test_odd_names_are_told_as_they_are(scene: Scene) -> None:
    await scene.fill(*HOSTILE, jobs=3)
    scene.clock.advance(LONG)
    await scene.serve(len(HOSTILE), at_once=1)
    found = await scene.shares(100)
    assert {share.lane.name for share in found.top} == set(HOSTILE)
    assert found.lanes == len(HOSTILE)
    assert all(share.lane.served == 1 and share.ratio == pytest.approx(1) for share in found.top)
    assert {lane.name for lane in await scene.queue.lanes(by="served")} == set(HOSTILE)
    assert {lane.name for lane in await scene.queue.lanes(by="waiting")} == set(HOSTILE)


# ── the highest of all lanes ────────────────────────────────────────────────────────────────────


async def test_the_highest_of_all_lanes(scene: Scene) -> None:
    queue = scene.queue
    for n in range(30):
        await scene.fill(f"lane{n:02}", jobs=1 + n % 7)
        scene.clock.advance(1000)
    await queue.lane("configured").set(weight=2)
    async with queue.consumer() as consumer:
        await consumer.claim(40)
        lanes = await queue.lanes()
        assert len(lanes) == 31
        for by in ("waiting", "oldest_wait", "running", "served"):
            key = lambda lane, by=by: (-(getattr(lane, by) or 0), lane.name)  # noqa: E731
            expected = sorted(lanes, key=key)
            for limit in (1, 5, 30):
                found = await queue.lanes(limit, by)
                assert found == expected[:limit], by
                assert queue.sync.lanes(limit, by) == found
    with pytest.raises(ConfigError, match="by: expected None or one of waiting, .* given 'behind'"):
        await queue.lanes(by="behind")  # type: ignore[arg-type]


async def test_reading_the_figures_of_many_lanes_never_blocks_the_server(
    server: Server, scene: Scene
) -> None:
    many = 20_000
    await scene.queue.enqueue_many(
        rota.JobSpec(task="t", id=f"{n}", lane=f"lane{n}") for n in range(many)
    )
    scene.clock.advance(LONG)
    await scene.serve(2_000, at_once=500)
    for read in ("shares", "waiting", "served"):
        calls, before = spent(server)
        if read == "shares":
            found = await scene.queue.shares(5)
            assert (found.lanes, len(found.top)) == (many, 5)
            assert found.top[0].behind == 1
        else:
            lanes = await scene.queue.lanes(5, read)  # type: ignore[arg-type]
            assert len(lanes) == 5
        now, after = spent(server)
        assert now - calls > many / 600, "in pages"
        assert (after - before) / (now - calls) < 10_000, read
