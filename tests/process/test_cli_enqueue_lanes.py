"""`rota enqueue` into a queue with `require_lane`."""

from __future__ import annotations

from rota.queue import Queue
from tests.process.conftest import Here
from tests.process.programs import Programs


def test_a_line_in_the_default_lane_is_a_bad_one(rota: Programs, queue: Queue, here: Here) -> None:
    rota.write(
        "app.py",
        f"import rota\nqueue = rota.Queue({queue.name!r}, require_lane=True)\n"
        "@queue.task\ndef add(n, tenant): pass\n",
    )
    rota.write("a.jsonl", '{"n": 1, "tenant": "default"}\n{"n": 2, "tenant": "t7"}\n')
    code, out, err = here("enqueue", "app:queue", "add", "a.jsonl", "--lane-from", "tenant")
    assert (code, out) == (1, "1 created, 0 duplicate, 0 lane_full, 1 bad\n")
    assert "line 1: task add: this queue requires a lane other than 'default'" in err
    assert [lane.name for lane in queue.sync.lanes()] == ["t7"]
