"""Calls sent together: which are answered, which are still to be sent, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rota.connection.faults import ErrorReply
from rota.connection.route import ServerInfo
from rota.connection.steps import Command, Terms
from rota.connection.target import Address
from rota.errors import ConfigError, ServerTooOld
from rota.script.loader import Call, Confirm, Library, Reply, commands_in

CONFIRMED_S = 1.0
"""What a wait for a confirmation leaves of a call's time, for the answer to it."""


class Sending:
    """Calls of one queue under way."""

    def __init__(self, calls: Sequence[Call[Any]], library: Library) -> None:
        self._calls = calls
        self.keys = calls[0].keys
        self._library = library
        self._pending = list(range(len(calls)))
        self.replies: list[Reply] = [None] * len(calls)
        self.asked: Address | None = None
        """Where a migrating slot's owner sent us, for the next sending only."""

    def check(self, server: ServerInfo | None) -> None:
        """Refuses, before anything is written, a confirmation that the server cannot give."""
        if server is None or not any(c.confirm and c.confirm.fsync for c in self._calls):
            return
        if server.version and server.version < (7, 2):
            raise ServerTooOld(
                f"durable: {server} cannot confirm an fsync (WAITAOF needs Redis 7.2 or Valkey); "
                "nothing was written"
            )
        if not server.appends:
            raise ConfigError(
                "durable: expected a server with its append-only file on (appendonly yes), "
                "this one has it off; nothing was written"
            )

    def denied(self, server: ServerInfo | None) -> list[str]:
        """The commands at which its scripts would stop half-way: our user may not run them."""
        if server is None or not server.denied:
            return []
        return sorted(server.denied & frozenset().union(*map(commands_in, self.texts())))

    def commands(self) -> list[Command]:
        commands: list[Command] = []
        for i in self._pending:
            call = self._calls[i]
            sha = self._library.assemble(call.script).sha
            if self.asked is not None:
                commands.append(("ASKING",))
            commands.append(("EVALSHA", sha, 2, call.keys.config, call.keys.none, *call.args))
        return commands

    def confirm(self, terms: Terms) -> Callable[[], Command] | None:
        """What is to follow the call, once it has run; such a call is sent alone."""
        confirm = self._calls[0].confirm
        return None if confirm is None else partial(_wait, confirm, terms)

    def sort(self, results: Sequence[Reply]) -> list[ErrorReply]:
        """Keeps what was answered; what was refused stays pending. The refusals, in order."""
        rest = iter(results)
        errors, refused = [], []
        for i in self._pending:
            if self.asked is not None:
                next(rest)
            result = next(rest)
            if isinstance(result, ErrorReply):
                errors.append(result)
                refused.append(i)
            elif self._calls[i].confirm is not None:
                self.replies[i] = (result, next(rest))
            else:
                self.replies[i] = result
        self._pending, self.asked = refused, None
        return errors

    def may_be_sent_again(self) -> bool:
        return all(self._calls[i].script.resend for i in self._pending)

    def texts(self) -> set[str]:
        """The scripts of what is pending."""
        return {self._library.assemble(self._calls[i].script).text for i in self._pending}


def _wait(confirm: Confirm, terms: Terms) -> Command:
    """For no longer than the call has left: what came before it counts, other attempts too."""
    left = terms.left - CONFIRMED_S
    most = max(1, min(confirm.timeout_ms, int(left * 1000)))
    if confirm.fsync:
        return ("WAITAOF", 1, confirm.replicas, most)
    return ("WAIT", confirm.replicas, most)
