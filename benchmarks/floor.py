"""How far is a job from what the server must do at the least?

The floor stores, orders, fetches and deletes the same bytes over the same lanes with the fewest
native commands: MSET of a hundred records, one ZADD per lane, one ZPOPMIN per lane, MGET, DEL,
pipelined by the hundred. It keeps no turns, ceilings, leases or counts, and loses what a dead
worker held: nobody could use it as a queue; it is what any queue on this server pays first.

Both do the same jobs in alternating rounds on one server. The CPU time of the server's main
thread decides, for native commands spend most of theirs on being read and answered, which
commandstats leaves out. Not shown: round trips, the client, other shapes than lanes that stay.
"""

from __future__ import annotations

import redis

from benchmarks.load import BATCH, Load, specs
from benchmarks.report import Figure, Plan, figure, ratio
from benchmarks.server import Server, Work
from rota.script.keys import Keys
from rota.values.jobspec import JobSpec

MOST = 2.5
PREFIX = b"+0000000000000042,1700000000000,1700000000000\n"


class Floor:
    """The same data moved by native commands alone."""

    def __init__(self, server: Server, queue: str, lanes: int) -> None:
        self._server = server
        self._raw = server.raw
        self._keys = Keys(queue)
        self._lanes = lanes
        self._seq = 0
        self._fill()

    def _fill(self) -> None:
        for first in range(0, self._lanes, BATCH):
            self._enqueue(range(first, first + BATCH))

    def round(self, jobs: int) -> Work:
        """`jobs` jobs from stored to deleted, on lanes that keep a job each."""
        before = self._server.work()
        first = 0
        for _ in range(jobs // BATCH):
            lanes = range(first, first + BATCH)
            self._enqueue(lanes)
            self._take(lanes)
            first = (first + BATCH) % self._lanes
        return self._server.work().since(before)

    def _enqueue(self, lanes: range) -> None:
        made = specs([self._name(i) for i in lanes])
        pipe = self._raw.pipeline(transaction=False)
        pipe.mset({self._keys.key("job", spec.id): PREFIX + spec.body for spec in made})
        by_lane: dict[str, list[JobSpec]] = {}
        for spec in made:
            by_lane.setdefault(spec.lane, []).append(spec)
        for lane, jobs in by_lane.items():
            scores = {spec.id: self._seq + i for i, spec in enumerate(jobs)}
            pipe.zadd(self._keys.key("pending", lane), scores)
        self._seq += len(made)
        pipe.execute()

    def _take(self, lanes: range) -> None:
        shares: dict[str, int] = {}
        for i in lanes:
            shares[self._name(i)] = shares.get(self._name(i), 0) + 1
        pipe = self._raw.pipeline(transaction=False)
        for lane, share in shares.items():
            pipe.zpopmin(self._keys.key("pending", lane), share)
        popped = pipe.execute()
        names = [self._keys.key("job", row[0].decode()) for rows in popped for row in rows]
        fetch: redis.client.Pipeline = self._raw.pipeline(transaction=False)
        fetch.mget(names)
        fetch.delete(*names)
        fetch.execute()

    def _name(self, i: int) -> str:
        return f"tenant-{i % self._lanes:07}"


def run(server: Server, plan: Plan) -> list[Figure]:
    figures: list[Figure] = []
    for lanes in (1, 1_000):
        figures += _compare(server, plan, lanes)
    return figures


def _compare(server: Server, plan: Plan, lanes: int) -> list[Figure]:
    jobs = plan.size(20_000, 5_000)
    load = Load(server, f"rota-{lanes}", lanes)
    load.fill()
    floor = Floor(server, f"floor-{lanes}", lanes)
    rota_cpu, rota_script, floor_cpu, floor_commands = [], [], [], []
    for _ in range(plan.runs):
        native = floor.round(jobs)
        added, taken = load.add(jobs), load.take(jobs)
        floor_cpu.append(native.cpu_us / jobs)
        floor_commands.append(native.command_us / jobs)
        rota_cpu.append((added.cpu_us + taken.cpu_us) / jobs)
        rota_script.append((added.script_us + taken.script_us) / jobs)
    load.close()
    title = f"{lanes:,} lane{'s' if lanes > 1 else ''}"
    return [
        figure(f"floor, {title}: CPU", floor_cpu, "µs/job"),
        figure(f"rota, {title}: CPU", rota_cpu, "µs/job"),
        ratio(
            f"rota : floor, {title}: CPU",
            rota_cpu,
            floor_cpu,
            at_most=MOST if lanes == 1_000 else None,
        ),
        figure(f"floor, {title}: inside commands", floor_commands, "µs/job"),
        figure(f"rota, {title}: inside scripts", rota_script, "µs/job"),
    ]
