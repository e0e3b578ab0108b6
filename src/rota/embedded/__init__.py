"""A private Valkey or Redis server, shared by every process that names its directory.

The first `acquire` of a directory starts the server, the last user gone ends it, and
whatever is killed in between is started anew by the next `acquire` or `ensure`. Shared
locks on files of the directory say who uses it; where the server listens is noted in the
one its parent holds.

    binary      finds the server program
    directory   the data directory: made private, refused
    locks       whole-file locks that a fork cannot leak
    supervisor  the server's parent: a process of its own, stdlib only; how to ask a server
    server      a use: joins the server that runs, or launches a supervisor; a server in a directory
                of its own, gone with its block
"""

from __future__ import annotations

from rota.embedded.binary import ServerBinary, find_server
from rota.embedded.directory import has_run, running
from rota.embedded.server import EmbeddedServer, acquire, socket_url, temporary_server

__all__ = [
    "EmbeddedServer",
    "ServerBinary",
    "acquire",
    "find_server",
    "has_run",
    "running",
    "socket_url",
    "temporary_server",
]
