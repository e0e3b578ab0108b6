"""What a server says of itself, and the oldest versions that run the scripts."""

from __future__ import annotations

from collections.abc import Mapping

OLDEST: Mapping[str, tuple[int, ...]] = {"valkey": (7, 2), "redis": (7, 0)}


def read_info(reply: object) -> dict[str, str]:
    """The fields of a reply to INFO; empty where the server refused to say."""
    if not isinstance(reply, bytes):
        return {}
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def version_of(info: Mapping[str, str]) -> tuple[str, tuple[int, ...]]:
    """The server's kind and version by its INFO; the version is empty where it hides that."""
    kind = "valkey" if "valkey_version" in info else "redis"
    parts = info.get(f"{kind}_version", "").split(".")
    return kind, tuple(int(part) for part in parts if part.isdigit())


def is_too_old(kind: str, version: tuple[int, ...]) -> bool:
    """A version that is hidden is not."""
    return bool(version) and version < OLDEST[kind]
