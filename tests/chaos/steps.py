"""Inside a worker's process: what it hears from the server is noted, and it dies at named steps."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence

import rota
from rota.connection.aio import Connection
from rota.script.keys import Keys
from rota.script.loader import Operation
from rota.store import Store
from rota.values.model import Answer, Exchanged, Holdings, Job, Settlement
from tests.chaos.observer import Notebook

STEPS = (
    "claimed",  # the claim's answer is here, nothing of it has been looked at
    "decoding",  # a job's arguments are about to be read
    "marking",  # the start mark of a job with a death behind it was accepted
    "handler",  # in the middle of a handler
    "handled",  # the handler has returned, nothing of it was sent
    "unheard",  # a settlement was sent, its answer has not been read
    "heard",  # a settlement was answered
    "reconciling",  # what the server says it holds is here, nothing was given back
    "leaving",  # told to stop, the lease about to be ended
)
RARE = ("marking", "reconciling", "leaving")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal is on its way


class Steps:
    """Kills the process at the `after`th time it reaches the step `name`."""

    def __init__(self, name: str, after: int, notebook: Notebook) -> None:
        self._name = name
        self._left = after
        self._notebook = notebook
        self._lock = threading.Lock()
        self._settling = False
        if name == "unheard":
            self._listen_for_replies()

    def reach(self, name: str) -> None:
        if name != self._name:
            return
        with self._lock:
            self._left -= 1
            if self._left > 0:
                return
        self._notebook.note("dies", step=name)
        die()

    def settling(self, under_way: bool) -> None:
        self._settling = under_way

    def _listen_for_replies(self) -> None:
        """Between a command's sending and the reading of its reply there is one function."""
        read = Connection.buffer_updated

        def listen(connection: Connection, nbytes: int) -> None:
            if self._settling:
                self.reach("unheard")
            read(connection, nbytes)

        Connection.buffer_updated = listen  # type: ignore[method-assign, assignment]


class WatchedStore(Store):
    """The store, with a witness beside it."""

    def __init__(self, keys: Keys, notebook: Notebook, steps: Steps) -> None:
        super().__init__(keys)
        self._notebook = notebook
        self._steps = steps

    def join(self, consumer: str, *, lease_ms: int, name: str) -> Operation[int]:
        sent = time.monotonic()
        now = yield from super().join(consumer, lease_ms=lease_ms, name=name)
        self._notebook.note("renewed", sent=sent, consumers=[consumer])
        return now

    def heartbeat(
        self, consumers: Sequence[str], *, lease_ms: int
    ) -> Operation[list[Holdings | None]]:
        sent = time.monotonic()
        renewed = yield from super().heartbeat(consumers, lease_ms=lease_ms)
        kept = [c for c, alive in zip(consumers, renewed, strict=True) if alive is not None]
        self._notebook.note("renewed", sent=sent, consumers=kept)
        if len(kept) < len(consumers):
            self._notebook.note("lease gone", consumers=sorted({*consumers} - {*kept}))
        return renewed

    def leave(self, consumer: str, *, died: bool = False) -> Operation[int]:
        self._steps.reach("leaving")
        self._notebook.note("leaving", consumer=consumer)
        return (yield from super().leave(consumer, died=died))

    def exchange(
        self,
        consumer: str,
        *,
        number: int,
        want: int,
        prefetch: int,
        park: bool,
        done: Sequence[tuple[str, str]] = (),
        ran: Sequence[float | None] = (),
        within: float | None = None,
    ) -> Operation[Exchanged]:
        sent = time.monotonic()
        self._steps.settling(bool(done))
        reply = yield from super().exchange(
            consumer,
            number=number,
            want=want,
            prefetch=prefetch,
            park=park,
            done=done,
            ran=ran,
            within=within,
        )
        self._steps.settling(False)
        if reply.entries:
            ids = [one.id for entry in reply.entries for one in entry]
            self._notebook.note("claimed", consumer=consumer, sent=sent, delivery=number, jobs=ids)
            self._steps.reach("claimed")
        for (id, delivery), answer in zip(done, reply.answers, strict=True):
            self._hear(id, delivery, "complete", answer)
        return reply

    def settle(self, consumer: str, settlements: Sequence[Settlement]) -> Operation[list[Answer]]:
        self._steps.settling(True)
        answers = yield from super().settle(consumer, settlements)
        self._steps.settling(False)
        for one, answer in zip(settlements, answers, strict=True):
            self._hear(one.id, one.delivery, one.action, answer)
        return answers

    def start(self, consumer: str, job: str, delivery: str) -> Operation[str]:
        answer = yield from super().start(consumer, job, delivery)
        if answer == "ok":
            self._notebook.note("marked", job=job, delivery=int(delivery))
            self._steps.reach("marking")
        return answer

    def deliveries_of(self, consumer: str, *, number: int) -> Operation[dict[str, str] | None]:
        held = yield from super().deliveries_of(consumer, number=number)
        self._notebook.note("reconciles", consumer=consumer, holds=held and list(held))
        self._steps.reach("reconciling")
        return held

    def _hear(self, id: str, delivery: str, action: str, answer: str) -> None:
        self._notebook.note("reply", job=id, delivery=int(delivery), action=action, answer=answer)
        self._steps.reach("heard")


class WatchedQueue(rota.Queue):
    """A queue whose worker is watched and may die."""

    def __init__(
        self, name: str, *, url: str, beat: float, notebook: Notebook, steps: Steps
    ) -> None:
        super().__init__(name, url=url, beat=beat)
        self._steps = steps
        self.link.store = WatchedStore(self.link.keys, notebook, steps)

    def decode(self, job: Job) -> None:
        self._steps.reach("decoding")
        super().decode(job)
