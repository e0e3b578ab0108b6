"""A queue's way to its server."""

from rota.link.faces import AsyncFace, BlockingFace, look, verb
from rota.link.link import Link
from rota.link.producer import Producer

__all__ = ["AsyncFace", "BlockingFace", "Link", "Producer", "look", "verb"]
