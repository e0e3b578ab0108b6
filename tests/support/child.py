"""A worker in a process of its own, with hooks that make it die or hang at a named step.

Run as `python -m tests.support.child`, told what to do by a JSON argument; see `start`.
Each start and end of a handler is a line in the log: `<event> <monotonic> <pid> <lane> <job>`.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rota

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the child does. `kill` names the step at which it sends SIGKILL to itself; with
    `freeze` it sends SIGSTOP as soon as a handler waits. `gate`: the path of a FIFO; handlers that
    keep the loop, or the interpreter's lock, do so until a byte comes out of it."""

    url: str
    queue: str
    log: str
    slots: int = 4
    prefetch: int = 10
    lease: float = 1.0
    beat: float = 0.5
    kill: str = ""
    freeze: bool = False
    gate: str = ""
    wall_clock: float = 0.0
    burst: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the log."""

    what: str
    at: float
    pid: int
    lane: str
    job: str


def start(order: Order) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.child", json.dumps(asdict(order))]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)


def read_log(path: Path) -> list[Event]:
    """What has been logged so far, by all processes that share the log."""
    events = []
    for line in path.read_text().splitlines() if path.exists() else ():
        what, at, pid, lane, job = line.split(" ")
        events.append(Event(what, float(at), int(pid), lane, job))
    return events


def logger(path: str) -> Callable[[str], None]:
    """Appends whole lines, whichever process writes."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def log(what: str) -> None:
        job = rota.current_job()
        os.write(file, f"{what} {time.monotonic()} {os.getpid()} {job.lane} {job.id}\n".encode())

    return log


def register(queue: rota.Queue, log: Callable[[str], None], order: Order) -> None:
    """The tasks of the child; the parent enqueues them by name."""

    @queue.task(backoff=rota.Backoff(base=0.01, jitter=0))
    async def work(seconds: float) -> None:
        log("start")
        if order.kill == "handler":
            die()
        if order.freeze:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGSTOP)
        await asyncio.sleep(seconds)
        if order.kill == "middle":
            die()
        log("end")

    @queue.task
    async def busy() -> None:
        """Keeps the event loop, gives up the interpreter's lock now and then."""
        gate = os.open(order.gate, os.O_RDWR)
        log("start")
        while not select.select([gate], [], [], 0)[0]:
            pass
        log("end")

    @queue.task
    async def sleeper() -> None:
        """Keeps the event loop."""
        gate = os.open(order.gate, os.O_RDWR)
        log("start")
        os.read(gate, 1)
        log("end")

    @queue.task
    def locked() -> None:
        """Keeps the interpreter's lock, as native code may."""
        gate = os.open(order.gate, os.O_RDWR)
        log("start")
        ctypes.PyDLL(None).read(gate, ctypes.create_string_buffer(1), 1)
        log("end")

    @queue.task
    async def mixed(seconds: float, n: int) -> None:
        """Every twentieth fails, every twentieth is rejected with a delay; once each."""
        log("start")
        await asyncio.sleep(seconds)
        log("end")
        if rota.current_job().attempt == 1 and n % 20 == 3:
            raise ValueError("every twentieth")
        if rota.current_job().attempt == 1 and n % 20 == 13:
            raise rota.Retry(0.05)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def arm(step: str) -> None:
    """Lets the process die at a step of the worker's own code."""
    from rota.consume.deliveries import Deliveries
    from rota.store import Store
    from rota.work.entries import Entries
    from rota.work.settling import Settling

    def before(owner: Any, name: str, is_time: Callable[..., bool]) -> None:
        original = getattr(owner, name)

        def patched(*args: Any, **kwargs: Any) -> Any:
            if is_time(*args, **kwargs):
                die()
            return original(*args, **kwargs)

        setattr(owner, name, patched)

    if step == "claimed":
        before(Deliveries, "_open", lambda _, reply: bool(reply.entries))
    elif step == "decoding":
        before(Deliveries, "_read", lambda *_: True)
    elif step == "starting":
        before(Entries, "start", lambda _, entries: bool(entries))
    elif step == "ending":
        before(Settling, "end", lambda *_: True)
    elif step == "acknowledged":
        original: Any = Store.exchange

        def exchange(self: Store, consumer: str, **settings: Any) -> Any:
            reply = yield from original(self, consumer, **settings)
            if settings["done"]:
                die()
            return reply

        setattr(Store, "exchange", exchange)  # noqa: B010  (a method may not be assigned to)


async def main(order: Order) -> None:
    if order.wall_clock:
        real, real_ns = time.time, time.time_ns
        time.time = lambda: real() + order.wall_clock
        time.time_ns = lambda: real_ns() + int(order.wall_clock * 1e9)
    queue = rota.Queue(order.queue, url=order.url, beat=order.beat)
    register(queue, logger(order.log), order)
    arm(order.kill)
    worker = rota.Worker(
        queue, concurrency=order.slots, prefetch=order.prefetch, lease=order.lease, grace=1
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run(burst=order.burst)


if __name__ == "__main__":
    asyncio.run(main(Order(**json.loads(sys.argv[1]))))
