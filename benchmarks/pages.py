"""How long does each page of the dashboard take, with 100,000 lanes and 1,000,000 jobs?

Every page is asked for over HTTP in this process, without a socket, while the look over all lanes
goes on: the time is the web process's and the server's together. 10 jobs wait on each lane, some
with ordering keys; 10,000 are delayed, 2,000 dead, 1,000 running. With --quick 10,000 lanes and
100,000 jobs. Not shown: the browser's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import rota
from benchmarks.load import PAYLOAD, lane_name
from benchmarks.report import Figure, Plan, figure
from benchmarks.server import Server
from rota.consumer import Consumer
from rota.web import dashboard

if TYPE_CHECKING:
    import httpx2

MOST_MS = 150.0
JOBS_A_LANE = 10
DELAYED = 10_000
DEAD = 2_000
RUNNING = 1_000
PAGES = {
    "overview": "",
    "lanes, who hurts most": "lanes",
    "lanes, page by page": "lanes?order=all",
    "a lane": f"lane?name={lane_name(7)}",
    "sequences": "sequences",
    "jobs waiting": f"jobs?state=waiting&lane={lane_name(7)}",
    "jobs running": "jobs?state=running",
    "jobs delayed": "jobs?state=delayed",
    "jobs dead": "jobs?state=dead",
    "dead by error": "dead",
    "scheduled": "scheduled",
    "workers": "workers",
    "system": "system",
}


def run(server: Server, plan: Plan) -> list[Figure]:
    return asyncio.run(_run(server, plan))


async def _run(server: Server, plan: Plan) -> list[Figure]:
    import httpx2  # the other parts run without it

    queue = rota.Queue("pages", url=server.url)
    lanes = plan.size(100_000, 10_000)
    async with queue.consumer(lease=3600) as consumer:
        await _fill(queue, consumer, lanes)
        app = dashboard(queue)
        transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
        try:
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return await _figures(http, plan)
        finally:
            await app.state.site.close()
            await queue.close()


async def _figures(http: httpx2.AsyncClient, plan: Plan) -> list[Figure]:
    """Each round asks for every page once, so that their times are of the same moments."""
    await http.get("/q/pages/lanes")  # the look begins
    id = (await http.get("/q/pages/jobs?state=dead")).text.partition("job?id=")[2][:26]
    pages = PAGES | {"a job": f"job?id={id}"}
    took: dict[str, list[float]] = {name: [] for name in pages}
    for _ in range(4 * plan.runs):
        for name, address in pages.items():
            began = time.perf_counter()
            answer = await http.get(f"/q/pages/{address}")
            took[name].append((time.perf_counter() - began) * 1000)
            if answer.status_code != 200:
                raise RuntimeError(f"{address}: {answer.status_code}")
        await asyncio.sleep(0.5)
    return [figure(f"{name}: time", values, "ms", at_most=MOST_MS) for name, values in took.items()]


async def _fill(queue: rota.Queue, consumer: Consumer, lanes: int) -> None:
    dying = [rota.JobSpec(task="charge", lane=lane_name(n), payload=PAYLOAD) for n in range(DEAD)]
    await _add(queue, dying)
    for _ in range(DEAD // 100):
        jobs = await consumer.claim(100)
        await consumer.bury(jobs, f"ValueError: card {jobs[0].id} refused")
    await _add(queue, _waiting(lanes))
    delayed = (
        rota.JobSpec(task="later", lane=lane_name(n), payload=PAYLOAD, delay_ms=3_600_000 + n)
        for n in range(DELAYED)
    )
    await _add(queue, delayed)
    for _ in range(RUNNING // 100):
        await consumer.claim(100)


def _waiting(lanes: int) -> Iterator[rota.JobSpec]:
    for n in range(lanes * JOBS_A_LANE):
        key = f"order-{n % 3}" if n % 7 == 0 else None
        yield rota.JobSpec(
            task="noop", lane=lane_name(n % lanes), payload=PAYLOAD, ordering_key=key
        )


async def _add(queue: rota.Queue, specs: Iterable[rota.JobSpec]) -> None:
    rest = iter(specs)
    while chunk := list(islice(rest, 1000)):
        await queue.enqueue_many(chunk)
