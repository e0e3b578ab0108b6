"""The main job on real input: a file of 13,145 events of 1,520 tenants, in and done."""

from __future__ import annotations

import collections
import json
import signal
from pathlib import Path

import pytest

from rota.queue import Queue
from tests.process.programs import Programs
from tests.support.waiting import eventually

EVENTS = Path(__file__).parents[3] / "shared" / "data" / "events.jsonl"

HANDLER = """
    @queue.task
    async def handle(id: str, at: int, tenant: str, object: str, size: int):
        note(json.dumps([id, tenant, object]))
"""


@pytest.mark.skipif(not EVENTS.exists(), reason=f"the events are not here: {EVENTS}")
def test_every_event_is_done_once_and_in_order(rota: Programs, queue: Queue) -> None:
    events = [json.loads(line) for line in EVENTS.read_text().splitlines()]
    rota.module("import json\n" + HANDLER.replace("\n    ", "\n"))
    workers = [rota.worker("-c", 50) for _ in range(2)]
    done = rota(
        "enqueue", queue.name, "handle", EVENTS,
        "--lane-from", "tenant", "--ordering-key-from", "object", "--id-from", "id",
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout == f"{len(events)} created, 0 duplicate, 0 lane_full, 0 bad\n"
    eventually(
        lambda: queue.sync.info().totals.get("completed", 0) >= len(events),
        "not all events are done",
        timeout=40,
    )
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0

    notes = [(int(pid), json.loads(" ".join(words))) for _, pid, *words in rota.notes()]
    assert sorted(note[0] for _, note in notes) == sorted(event["id"] for event in events)
    assert {pid for pid, _ in notes} == {worker.pid for worker in workers}
    ran, given = collections.defaultdict(list), collections.defaultdict(list)
    for _, (id, tenant, thing) in notes:
        ran[tenant, thing].append(id)
    for event in events:
        given[event["tenant"], event["object"]].append(event["id"])
    assert ran == given
    info = queue.sync.info()
    assert (info.waiting, info.running, info.dead) == (0, 0, 0)
