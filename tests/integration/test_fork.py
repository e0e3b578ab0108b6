"""C63: a queue made and used before a process forks, spawns or is started by a fork server.

By 3 children of its 8, and 200 jobs each of its 1,000.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rota
from tests.support.servers import Server

CHILDREN, JOBS = 3, 200

PROGRAM = '''
import json, multiprocessing, os, sys
import rota

url, name, method, children, jobs = sys.argv[1], sys.argv[2], sys.argv[3], 3, 200
queue = rota.Queue(name, url=url)

@queue.task
def work(who: str, n: int) -> None: ...

def share(who):
    """Publishes its own jobs, then takes as many of anyone's; returns what it saw."""
    queue.sync.enqueue_many(work.spec(who, n) for n in range(jobs // 2))
    for n in range(jobs // 2, jobs):
        work.sync.enqueue(who, n)
    seen = []
    with queue.sync.consumer() as consumer:
        identity = consumer.id
        taken = []
        while len(seen) < jobs:
            taken = consumer.exchange(taken, min(20, jobs - len(seen)), wait=20)
            assert taken, f"{who}: nothing came after {len(seen)}"
            seen += [[job.kwargs["who"], job.kwargs["n"]] for job in taken]
        consumer.complete(taken)
    return identity, seen

def child(who, pipe):
    pipe.send(share(who))
    pipe.close()

def main():
    context = multiprocessing.get_context(method)
    pipes, processes = [], []
    with queue.sync.consumer() as consumer:  # a lease, a bell thread, connections
        assert consumer.claim(1, wait=0.05) == []
        for i in range(children):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=child, args=(f"child{i}", theirs))
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        results = [share("parent")]
        results += [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join()
        codes = [process.exitcode for process in processes]
        work.sync.enqueue("last", 0)  # a child's end has not shut the parent's connections
        last = consumer.claim(1, wait=20)
        assert len(last) == 1
        consumer.complete(last)
    print(json.dumps({"codes": codes, "results": results, "left": queue.sync.info().waiting}))
    queue.sync.close()

if __name__ == "__main__":
    main()
'''


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_queue_goes_on_in_child_processes(
    server: Server, queue_name: str, method: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = _run([sys.executable, str(program), server.url, queue_name, method])
    assert found["codes"] == [0] * CHILDREN
    identities = [identity for identity, _ in found["results"]]
    assert len(set(identities)) == CHILDREN + 1, "no consumer id is shared by two processes"
    seen = sorted((who, n) for _, jobs in found["results"] for who, n in jobs)
    everyone = ["parent", *(f"child{i}" for i in range(CHILDREN))]
    assert seen == sorted((who, n) for who in everyone for n in range(JOBS))
    assert found["left"] == 0


def _run(command: list[str]) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(Path(rota.__file__).parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout)
    return result


INHERITED = """
import json, os, sys
import rota

queue = rota.Queue(sys.argv[2], url=sys.argv[1])

@queue.task
def work(n: int) -> None: ...

def take(consumer):
    jobs = consumer.claim(1)
    return [consumer.id, [job.kwargs["n"] for job in jobs], consumer.complete(jobs)]

queue.sync.enqueue_many(work.spec(n) for n in range(3))
with queue.sync.consumer() as consumer:
    before = consumer.claim(1)
    end, start = os.pipe()
    if os.fork() == 0:
        os.write(start, json.dumps(take(consumer)).encode())
        os._exit(0)
    child = json.loads(os.read(end, 10_000))
    os.wait()
    parent = take(consumer)
    done = consumer.complete(before)
print(json.dumps({"child": child, "parent": parent, "done": done}))
queue.sync.close()
"""


def test_a_child_with_its_parents_consumer_is_another_consumer(
    server: Server, queue_name: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(INHERITED)
    found = _run([sys.executable, str(program), server.url, queue_name])
    (child, first, child_done), (parent, second, parent_done) = found["child"], found["parent"]
    assert child != parent
    assert sorted(first + second) == [1, 2]
    assert child_done == parent_done == found["done"] == ["ok"]
