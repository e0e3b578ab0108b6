"""Does a job cost the server more when more jobs wait, and how much memory does one take?

Two queues on one server, of 1,000 lanes each: 10,000 jobs wait in one, 10,000,000 in the other
(1,000,000 with --quick). In each round both do the same jobs, by the hundred. Memory is what the
server says it uses after the fill, less what it used before, per job, less its 100 bytes of
payload. Not shown: sequences, the allocator's overhead after long use.
"""

from __future__ import annotations

from benchmarks.load import PAYLOAD, Load
from benchmarks.report import Figure, Plan, figure, ratio
from benchmarks.server import Server

LANES = 1_000
FEW = 10_000
MOST_GROWTH = 1.3
MOST_BYTES = 300.0


def run(server: Server, plan: Plan) -> list[Figure]:
    many, jobs = plan.size(10_000_000, 1_000_000), plan.size(10_000, 5_000)
    loads = {jobs_there: Load(server, f"depth-{jobs_there}", LANES) for jobs_there in (FEW, many)}
    used: dict[int, float] = {}
    for jobs_there, load in loads.items():
        before = _memory(server)
        for _ in range(jobs_there // LANES):
            load.fill()
        used[jobs_there] = (_memory(server) - before) / jobs_there - len(PAYLOAD)
    cost: dict[int, list[float]] = {jobs_there: [] for jobs_there in loads}
    for _ in range(plan.runs):
        for jobs_there, load in loads.items():
            added, taken = load.add(jobs), load.take(jobs)
            cost[jobs_there].append((added.cpu_us + taken.cpu_us) / jobs)
    for load in loads.values():
        load.close()
    return [
        *(figure(f"{n:,} waiting: CPU", values, "µs/job") for n, values in cost.items()),
        ratio(f"{many:,} : {FEW:,} waiting", cost[many], cost[FEW], at_most=MOST_GROWTH),
        figure(
            f"memory per waiting job, {many:,}, less its payload",
            [used[many]],
            "bytes",
            at_most=MOST_BYTES,
        ),
    ]


def _memory(server: Server) -> int:
    return int(server.raw.info("memory")["used_memory"])
