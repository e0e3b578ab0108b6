"""A queue's way to its server."""

from rota.link.link import Link

__all__ = ["Link"]
