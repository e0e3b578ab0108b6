import asyncio

import rota

queue = rota.Queue("mail")  # no server named: an embedded one, in .rota


@queue.task(lane_from="tenant")
async def send(tenant: str, number: int) -> None:
    print(tenant, number)


async def main() -> None:
    await queue.lane("big").set(ceiling=2)  # never more than two at once
    await queue.enqueue_many(send.spec("big", n) for n in range(1, 7))
    await queue.enqueue_many(send.spec("small", n) for n in range(1, 4))
    print(await rota.Worker(queue, concurrency=2).run(burst=True))


asyncio.run(main())
