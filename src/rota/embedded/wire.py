"""Asks a server over its socket, in plain RESP: a client library is not needed for that."""

from __future__ import annotations

import socket
from enum import Enum
from pathlib import Path

_REPLY_LIMIT = 4096


class Answer(Enum):
    NONE = "none"
    LOADING = "loading"
    READY = "ready"


def ping(path: Path, timeout: float) -> Answer:
    """READY is any answer but "loading": a server that says BUSY or MISCONF does run."""
    try:
        reply = ask(path, "PING", timeout=timeout)
    except OSError:
        return Answer.NONE
    if reply.startswith("-LOADING"):
        return Answer.LOADING
    return Answer.READY


def ask(path: Path, *words: str, timeout: float) -> str:
    """Sends one command, returns the first line of its reply. Raises OSError."""
    request = f"*{len(words)}\r\n" + "".join(f"${len(w.encode())}\r\n{w}\r\n" for w in words)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(str(path))
        connection.sendall(request.encode())
        reply = b""
        while not reply.endswith(b"\n") and len(reply) < _REPLY_LIMIT:
            chunk = connection.recv(_REPLY_LIMIT)
            if not chunk:
                raise ConnectionResetError("the server hung up")
            reply += chunk
    return reply.decode(errors="replace").strip()
