"""What goes over a connection, without I/O: commands as bytes, replies from bytes, who we are."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import cast

import hiredis

from rota.connection.faults import ErrorReply, NotAReply
from rota.connection.steps import Command, Terms
from rota.connection.target import Address, Files, Target
from rota.script.loader import Reply

CONNECT_TIMEOUT_S = 5.0
READ_BYTES = 65536
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A peer that has gone without a word is noticed; systems know these options or not."""
_MORE = object()


def packed(commands: Sequence[Command]) -> bytes:
    """Commands as the server reads them, to be sent in one go."""
    return b"".join([_pack(command) for command in commands])


def _pack(command: Command) -> bytes:
    return cast(bytes, hiredis.pack_command(command))  # type: ignore[arg-type]  # stub: one item


class Replies:
    """The replies to what was asked last, read from what comes in. In RESP2, which every server
    speaks without being asked to."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=_MORE)
        self._found: list[Reply] = []
        self.buffer = memoryview(bytearray(READ_BYTES))
        """Where drivers put what comes in: asyncio else makes 256 KiB anew for each reading, which
        an allocator may take from the system and give back each time. A view, as asyncio's TLS
        reads into slices of it."""
        self.has_more = False
        """Whether more has come than was asked for: the next call would read it."""

    def feed(self, size: int, wanted: int) -> list[Reply] | None:
        """All that are wanted, errors among them, once the last one is here: `size` bytes more are
        in the buffer. Raises NotAReply."""
        found, reader = self._found, self._reader
        try:
            reader.feed(self.buffer, 0, size)  # type: ignore[arg-type]  # stub: bytes only
            while len(found) < wanted:
                reply = reader.gets()
                if reply is _MORE:
                    return None
                found.append(reply)
        except (hiredis.ProtocolError, MemoryError) as error:  # a list of four thousand million
            raise NotAReply(f"not a reply: {error}") from error
        self._found, self.has_more = [], reader.has_data()
        return found


def patience(terms: Terms) -> float:
    """How long to wait for a connection."""
    return max(0.001, min(CONNECT_TIMEOUT_S, terms.reply, terms.left))


def greeting(target: Target, address: Address) -> list[Command]:
    """What is said first: who we are, and which database is meant. A URL's login and database are
    the server's; sentinels have a login of their own, if any."""
    user, password, db = target.username, target.password, target.db
    if target.kind == "sentinel" and address in target.addresses:
        user, password, db = target.sentinel_username, target.sentinel_password, 0
    commands: list[Command] = []
    if user:
        commands.append(("AUTH", user, password or ""))
    elif password:
        commands.append(("AUTH", password))
    if db:
        commands.append(("SELECT", db))
    return commands


def tls_context(files: Files) -> ssl.SSLContext:
    """For one connection: files are read anew for each, as certificates are renewed."""
    context = ssl.create_default_context()
    if files.ssl_certfile:  # without a password OpenSSL would ask on the terminal
        context.load_cert_chain(files.ssl_certfile, files.ssl_keyfile, password="")
    if files.ssl_ca_certs:
        context.load_verify_locations(files.ssl_ca_certs)
    return context


def keep_alive(sock: socket.socket) -> None:
    """Also sends what is written at once, though it is little."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
