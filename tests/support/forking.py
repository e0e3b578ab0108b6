"""A process that forks while it uses a queue: `python -m tests.support.forking URL QUEUE`.

Parent and children publish and consume EACH jobs each; told at the end as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import warnings

import rota

EACH = 100
CHILDREN = 4


def publish(queue: rota.Queue) -> None:
    """Half on a loop, half blocking."""
    lane = str(os.getpid())
    half = [rota.JobSpec(task="t", lane=lane) for _ in range(EACH // 2)]
    asyncio.run(queue.enqueue_many(half))
    for _ in range(EACH // 2):
        queue.sync.enqueue(rota.JobSpec(task="t", lane=lane))


def consume(queue: rota.Queue, write: int) -> None:
    taken: list[str] = []
    with queue.sync.consumer(lease=30) as consumer:
        held = consumer.claim(5, wait=20)
        while held:
            taken += [job.id for job in held]
            if len(taken) >= EACH:
                consumer.complete(held)
                break
            held = consumer.exchange(done=held, n=5, wait=2)
        row = {"pid": os.getpid(), "id": consumer.id, "taken": taken}
        os.write(write, (json.dumps(row) + "\n").encode())


def fork(queue: rota.Queue, write: int) -> int:
    pid = os.fork()
    if pid == 0:
        publish(queue)
        consume(queue, write)
        os._exit(0)
    return pid


def main(url: str, name: str) -> None:
    queue = rota.Queue(name, url=url, beat=1)
    read, write = os.pipe()
    asyncio.run(queue.info())
    idle = queue.sync.consumer(lease=30)
    idle.__enter__()
    waiting = threading.Thread(target=lambda: idle.claim(1, wait=0.4))
    waiting.start()
    time.sleep(0.1)  # the bell's thread waits at the bell while we fork
    pids = [fork(queue, write) for _ in range(CHILDREN)]
    codes = [os.waitpid(pid, 0)[1] for pid in pids[:2]]
    waiting.join()
    idle.release(idle.held)
    idle.__exit__(None, None, None)
    publish(queue)  # goes on after children have exited
    consume(queue, write)
    codes += [os.waitpid(pid, 0)[1] for pid in pids[2:]]
    os.close(write)
    with os.fdopen(read) as lines:
        rows = [json.loads(line) for line in lines]
    print(json.dumps({"codes": codes, "rows": rows, "left": queue.sync.info().waiting}))
    queue.sync.close()


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
    main(*sys.argv[1:])
