"""The write side of a queue, in the words of the domain: operations without I/O.

enqueueing.py   jobs come in
claiming.py     consumers join, claim and settle; the queue's time is kept
settings.py     what lanes and the queue may do
bulk.py         many jobs at once: by lane, or the dead
"""

from rota.script.keys import Keys
from rota.store.bulk import Bulk
from rota.store.claiming import Claiming
from rota.store.enqueueing import (
    Enqueueing,
    check_on_full,
    chunks,
    next_chunk,
    refusal,
)
from rota.store.settings import Settings

__all__ = ["Store", "check_on_full", "chunks", "next_chunk", "refusal"]


class Store(Enqueueing, Claiming, Settings, Bulk):
    """The write side of one queue."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
