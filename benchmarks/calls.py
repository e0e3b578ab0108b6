"""How many calls does the server make inside each operation?

Counted by INFO commandstats, so exact and the same on any machine: what is called while a hundred
jobs are enqueued, claimed and completed, per hundred, in calls of 100 and in calls of one. The
operation's own EVALSHA is not counted. It is the cost model of docs/benchmarks.md, to be checked
against the Lua files. Not shown: what a call costs, and the Lua between the calls.
"""

from __future__ import annotations

from benchmarks.load import BATCH, PAYLOAD, Load, lane_name
from benchmarks.report import Figure, Plan, figure
from benchmarks.server import SENT_BY_CLIENTS, Server, Work
from rota.values.jobspec import JobSpec

SHAPES = (
    ("one lane", 1, False),
    ("100 lanes", BATCH, False),
    ("100 lanes, a sequence each", BATCH, True),
)


def run(server: Server, plan: Plan) -> list[Figure]:
    figures = []
    for n, (name, lanes, ordered) in enumerate(SHAPES):
        for at_once in (BATCH, 1):
            load = Load(server, f"calls-{n}-{at_once}", lanes)
            figures += _count(server, load, name, ordered, at_once)
            load.close()
    return figures


def _count(server: Server, load: Load, name: str, ordered: bool, at_once: int) -> list[Figure]:
    def enqueue(jobs: int) -> None:
        load.enqueue_specs(
            [
                JobSpec(
                    task="noop",
                    lane=lane_name(i % load.lanes),
                    payload=PAYLOAD,
                    ordering_key="k" if ordered else None,
                )
                for i in range(jobs)
            ]
        )

    enqueue(BATCH)  # the lanes stand in the ring, and stay there
    load.exchange(load.exchange([], BATCH), 0)
    enqueue(2 * BATCH)
    done = load.exchange([], at_once)
    before = server.work()
    for _ in range(BATCH // at_once):
        enqueue(at_once)
    middle = server.work()
    for _ in range(BATCH // at_once):  # each completes as many as it claims
        done = load.exchange(done, at_once)
    after = server.work()
    how = f"{name}, {at_once} a call"
    return [
        figure(f"enqueue 100, {how}", [float(_calls(middle.since(before)))], "calls"),
        figure(f"claim + complete 100, {how}", [float(_calls(after.since(middle)))], "calls"),
    ]


def _calls(work: Work) -> int:
    return sum(n for name, n in work.calls.items() if name not in SENT_BY_CLIENTS | {"info"})
