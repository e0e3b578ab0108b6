"""What reads a queue, bounded. Each method is an operation without I/O."""

from __future__ import annotations

from rota.errors import Unavailable
from rota.script import stubs
from rota.script.keys import ANY_CONFIG, CATALOGUE, Keys, of_config
from rota.script.loader import Ask, Operation, Scan
from rota.store.census import CensusTaker
from rota.store.jobs import Jobs
from rota.store.shares import Fairness
from rota.values import config
from rota.values.listing import FoundQueue
from rota.values.model import ConsumerInfo, QueueInfo
from rota.values.names import text_of

PAGE = 200


class Inspector(Jobs, Fairness, CensusTaker):
    """The read side of one queue."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def queue(self) -> Operation[QueueInfo]:
        return (yield from stubs.queue_info(self.keys))

    def exists(self) -> Operation[bool]:
        """Whether anything of the queue is on the server: settings, workers, a job at any time."""
        names = [kind.name for kind in CATALOGUE if kind.parameter is None]
        (count,) = yield Ask(self.keys, (("EXISTS", *map(self.keys.key, names)),))
        if isinstance(count, Exception):
            raise Unavailable(f"the server refused to look for the queue: {count}") from count
        return bool(count)

    def consumers(self, limit: int) -> Operation[list[ConsumerInfo]]:
        """The first `limit` consumers found, those whose jobs are being taken back included."""
        config.whole(limit, 1, config.MAX_CONSUMERS, "limit")
        found: dict[str, ConsumerInfo] = {}
        cursor = "0"
        while True:
            cursor, page = yield from stubs.consumers_page(self.keys, cursor=cursor, limit=PAGE)
            found.update((one.id, one) for one in page)
            if cursor == "0" or len(found) >= limit:
                return list(found.values())[:limit]


def server_queues() -> Operation[list[FoundQueue]]:
    """All queues of a server with their totals. Looks through all its keys, some at a time."""
    found: dict[str, Keys] = {}
    cursor, keys = yield Scan(ANY_CONFIG)
    while True:
        for key in keys:
            if queue := of_config(text_of(key)):
                found[queue.root] = queue
        if not cursor:
            break
        cursor, keys = yield Scan(ANY_CONFIG, cursor)
    queues: list[FoundQueue] = []
    for queue in sorted(found.values(), key=lambda keys: (keys.queue, keys.prefix)):
        info = yield from stubs.queue_info(queue)
        queues.append(FoundQueue(queue.queue, queue.prefix, info))
    return queues
