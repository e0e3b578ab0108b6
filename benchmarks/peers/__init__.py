"""How does rota compare with the queue libraries that people use?

Each contestant is installed, once, from the public package index into an environment of its own
(see `environments`); it runs against the same server, over TCP, with the same payload of three
small arguments, about 100 bytes, in its fastest documented settings (see `catalogue` and
`programs/`). *work*: one worker process, no-op jobs that all wait already. *enqueue by 100*: the
contestant's call for many jobs; *one by one* where it has none; *50 at once*: that many tasks of
one event loop enqueue singly. Contestants take turns at each measure, in three rounds; each
measurement takes about four seconds, its start and its first fifth not counted.

rota has its jobs on 1,000 lanes with ceilings, under leases, at least once; the others have one
queue, and what they promise differs (see the notes). Clients with coroutines run on uvloop, rota
too. Not shown: jobs that do anything, several worker processes, large payloads, and how fair
anything is to anybody.
"""

from __future__ import annotations

from benchmarks.peers.catalogue import peers, rota_itself
from benchmarks.peers.entry import MEASURES, Entry
from benchmarks.peers.environments import this_one
from benchmarks.peers.results import figures
from benchmarks.report import Figure, Plan
from benchmarks.server import Server

MOST_ROUNDS = 3


def run(server: Server, plan: Plan) -> list[Figure]:
    ours = Entry(rota_itself(), spare=this_one())
    others = [Entry(peer) for peer in peers() if not plan.only or peer.name in plan.only]
    for entry in (ours, *others):
        entry.install(server)
    for _ in range(1 + min(plan.runs, MOST_ROUNDS)):  # the first is a rehearsal
        for measure in MEASURES:
            for entry in (ours, *others):
                entry.run(measure, plan.size(4, 1))
    return figures(ours.result, [other.result for other in others])
