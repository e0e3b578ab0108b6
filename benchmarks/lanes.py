"""Does a job cost the server more when there are more lanes?

Four queues, of 1,000 to 1,000,000 lanes with a job waiting on each, stand on one server at the
same time; in each round every queue does the same number of jobs, by the hundred, on a hundred
lanes at a time. *stay*: the lanes have work before and after, so they keep their place in the
ring. *turn over*: each claim drains its lanes and each enqueue brings them back.

Shown is the server's time per job: inside scripts (INFO commandstats, wall clock) and its main
thread's whole CPU time (INFO cpu), reading and answering included. Not shown: the client's cost,
sequences, ceilings, and how long the first job of a new lane takes (keys are made in the fill).
"""

from __future__ import annotations

from collections import defaultdict

from benchmarks.load import Load
from benchmarks.report import Figure, Plan, figure, ratio
from benchmarks.server import Server, Work

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 100_000)
MOST_GROWTH = 1.5

Samples = dict[tuple[str, int], list[float]]


def run(server: Server, plan: Plan) -> list[Figure]:
    sizes = QUICK_SIZES if plan.quick else SIZES
    jobs = plan.size(10_000, 5_000)
    loads = [Load(server, f"lanes-{size}", size) for size in sizes]
    for load in loads:
        load.fill()
    samples: Samples = defaultdict(list)
    for _ in range(plan.runs):
        for load in loads:
            added, taken, turned = load.add(jobs), load.take(jobs), load.turn_over(jobs)
            _keep(samples, "enqueue, stay", load, added, jobs)
            _keep(samples, "claim + complete, stay", load, taken, jobs)
            _keep(samples, "all, turn over", load, turned, jobs)
    for load in loads:
        load.close()
    return _figures(samples, sizes)


def _keep(samples: Samples, name: str, load: Load, work: Work, jobs: int) -> None:
    samples[f"{name}: script", load.lanes].append(work.script_us / jobs)
    samples[f"{name}: CPU", load.lanes].append(work.cpu_us / jobs)


def _figures(samples: Samples, sizes: tuple[int, ...]) -> list[Figure]:
    figures = [
        figure(f"{name}, {lanes:,} lanes", values, "µs/job")
        for (name, lanes), values in sorted(samples.items(), key=lambda item: item[0][0])
    ]
    first, last = sizes[0], sizes[-1]
    title = f"{last:,} : {first:,} lanes"
    for kind in ("script", "CPU"):
        few, many = (
            [
                a + b
                for a, b in zip(
                    samples[f"enqueue, stay: {kind}", size],
                    samples[f"claim + complete, stay: {kind}", size],
                    strict=True,
                )
            ]
            for size in (first, last)
        )
        turned = f"all, turn over: {kind}"
        figures += [
            ratio(f"{title}, stay: {kind}", many, few, at_most=MOST_GROWTH),
            ratio(
                f"{title}, turn over: {kind}",
                samples[turned, last],
                samples[turned, first],
                at_most=MOST_GROWTH,
            ),
        ]
    return figures
