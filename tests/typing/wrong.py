"""Calls a type checker must refuse: each line marked `wrong`, and no other. Never run."""

from __future__ import annotations

from datetime import date

import rota

queue = rota.Queue("orders")


@queue.task
async def charge(tenant: str, order_id: int, cents: int = 0) -> None: ...


@queue.task(lane_from="tenant")
def plain(tenant: str) -> str:
    return tenant


async def enqueue() -> None:
    await charge.enqueue("t7", "x")  # wrong
    await charge.enqueue("t7")  # wrong
    await charge.enqueue("t7", 1, 2, 3)  # wrong
    await charge.enqueue("t7", 1, nobody=3)  # wrong
    await charge.options(priority=1).enqueue(7, 1)  # wrong
    charge.sync.enqueue("t7", "x")  # wrong
    charge.options().sync.enqueue("t7")  # wrong
    charge.spec("t7", None)  # wrong
    charge.sync.spec()  # wrong
    await plain.enqueue(5)  # wrong
    await charge("t7", "x")  # wrong
    plain(5)  # wrong


async def words_of_others() -> None:
    charge.delay("t7", 1)  # wrong
    charge.sync.send("t7", 1)  # wrong
    queue.send_task("charge")  # wrong
    rota.Worker(queue).start()  # wrong
    await queue.enqueue(charge, "t7", 1)  # wrong
    await queue.enqueue(charge.spec("t7", 1), "t7")  # wrong
    await queue.enqueue(charge.spec("t7", 1), lane="t7")  # wrong
    queue.sync.enqueue(charge.spec("t7", 1), 1)  # wrong


async def options() -> None:
    charge.options(lane=5)  # wrong
    charge.options(priority="high")  # wrong
    charge.options(delay="5s")  # wrong
    charge.options(at="2026-01-01")  # wrong
    charge.options(at=date(2026, 1, 1))  # wrong
    charge.options(lanes="t7")  # wrong
    queue.task(max_attempts="5")  # wrong
    queue.task(on_dead="stop")  # wrong
    queue.task(backoff=3)  # wrong


async def bulk() -> None:
    await queue.enqueue_many(charge.spec("t7", 1))  # wrong
    await queue.enqueue_many([{"task": "charge"}])  # wrong
    await queue.enqueue_many([], on_full="explode")  # wrong
    await queue.enqueue({"task": "charge"})  # wrong
    rota.JobSpec("charge")  # wrong
    rota.JobSpec(task="charge", payload="{}")  # wrong


async def lanes() -> None:
    await queue.lane("t7").set(ceiling="3")  # wrong
    await queue.lane("t7").set(ceilings=3)  # wrong
    await queue.lane("t7").block("30")  # wrong
    queue.lane(7)  # wrong
    await queue.set(default_ceiling=1.5)  # wrong


async def verbs() -> None:
    lane = queue.lane("t7")
    lane.pause()  # wrong
    await lane.pause("abuse")  # wrong
    await lane.pause(reasons="abuse")  # wrong
    await lane.resume(1)  # wrong
    await lane.skip(7)  # wrong
    await queue.jobs("lost")  # wrong
    await queue.lanes("10")  # wrong
    await queue.lanes(by="name")  # wrong
    await queue.doctor(progress=len)  # wrong
    await queue.lanes_page(3)  # wrong
    await queue.job("j").cancel("ops")  # wrong
    await queue.dead.replay(7)  # wrong
    text: str = await queue.purge()  # wrong
    print(text)


def verbs_that_block() -> None:
    lane = queue.sync.lane("t7")
    lane.pause("abuse")  # wrong
    lane.pause(reasons="abuse")  # wrong
    lane.block("30")  # wrong
    queue.sync.jobs("lost")  # wrong
    queue.sync.job("j").cancel("ops")  # wrong
    queue.sync.dead.replay(7)  # wrong
    queue.sync.set(default_ceiling=1.5)  # wrong
    text: str = queue.sync.purge()  # wrong
    print(text)


async def verbs_of_the_other_face() -> None:
    await queue.sync.info()  # wrong
    await queue.sync.lane("t7").resume()  # wrong
    print(queue.info().waiting)  # wrong


async def by_hand() -> None:
    async with queue.consumer() as consumer:
        (job,) = await consumer.claim("1")  # wrong
        await consumer.complete("j")  # wrong
        await consumer.settle([(job, "retry")])  # wrong
    raise rota.RateLimited(30, scope="queue")  # wrong
