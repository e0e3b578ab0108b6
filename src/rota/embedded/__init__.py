"""A private Valkey or Redis server, shared by every process that names its directory.

The first `acquire` of a directory starts the server, the last holder gone ends it, and
whatever is killed in between is started anew by the next `acquire` or `ensure`.

    binary      finds the server program
    paths       the data directory, its files, and where the socket goes
    locks       whole-file locks that a fork cannot leak
    wire        asking a server whether it answers, without a client library
    starting    brings a server up, one starter at a time
    supervisor  the server's parent: a process of its own, stdlib only
    server      the public face: holders, counted per process
    temporary   a server in a directory of its own, gone with its block
"""

from __future__ import annotations

from rota.embedded.binary import ServerBinary, find_server
from rota.embedded.paths import has_run, running
from rota.embedded.server import EmbeddedServer, acquire

__all__ = ["EmbeddedServer", "ServerBinary", "acquire", "find_server", "has_run", "running"]
