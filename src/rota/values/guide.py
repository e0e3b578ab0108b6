"""What others call what is done here: said to people who come with the verbs of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

Words = Mapping[str, str]
"""What is called here, by the words for it elsewhere, with spaces between them."""


class Guide:
    """Base of classes whose AttributeError of such a verb says what it is called here."""

    _called_here: ClassVar[Words] = {}

    if not TYPE_CHECKING:  # a type checker would take any attribute

        def __getattr__(self, name: str) -> object:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            for words, ours in self._called_here.items():
                if name in words.split():
                    text += f": here it is {ours}"
            raise AttributeError(text, name=name, obj=self)


_ENQUEUE = "await task.enqueue(…), or without an event loop task.sync.enqueue(…)"
_LATER = "await task.options(lane=…, delay=…).enqueue(…), or .sync.enqueue(…) of it"

OF_QUEUES: Words = {
    "delay send send_task add push put put_nowait publish defer submit enqueue_job enqueue_call": (
        _ENQUEUE
    ),
    "enqueue_in enqueue_at enqueue_after schedule apply_async": _LATER,
    "actor register register_task add_task job_type": "@queue.task, above the function",
    "run work worker start run_worker start_worker process": (
        "await rota.Worker(queue).run(), or the command rota worker module:queue"
    ),
}
OF_TASKS: Words = {
    "delay send kiq defer defer_async submit push publish dispatch perform_async enqueue_job": (
        _ENQUEUE
    ),
    "apply_async enqueue_in enqueue_at schedule send_with_options kicker configure using": _LATER,
    "s si signature subtask message message_with_options": "task.spec(…), for queue.enqueue_many",
    "map starmap chunks abatch": "await queue.enqueue_many(task.spec(x) for x in …)",
    "apply call call_local run_local": "task(…): a task called runs its function, without a queue",
}
OF_WORKERS: Words = {
    "start work main serve run_forever run_async": (
        "await worker.run(), or async with worker: beside an application"
    ),
    "burst run_until_complete run_once join": "await worker.run(burst=True)",
    "shutdown close aclose terminate cancel kill": "worker.stop()",
}
