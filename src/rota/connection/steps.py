"""What the protocol asks of a driver: the steps between a call and its reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import msgspec

from rota.connection.target import Address
from rota.script.loader import Room, Wait

HEDGE_S = 0.25
Command = tuple[str | bytes | int, ...]


ROOMS: dict[Room, int] = {"calls": 16, "leases": 4, "enqueues": 8, "durable": 32, "races": 8}
"""How many connections may be in use for what."""


class Terms(msgspec.Struct, frozen=True):
    """How long a step may take: until the moment `until` (monotonic) at most, waiting for a
    connection included, and no reply longer than `reply` seconds. And whose connections it uses."""

    until: float
    reply: float
    room: Room = "calls"

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self.until - time.monotonic()


class Send(msgspec.Struct, frozen=True):
    """Send `commands` to `address` in one go; the result is a list of replies and errors.

    `confirm`: where none of them was refused, what it makes is sent by the same connection, and the
    reply to it follows the others. It may take all the time that is left.
    """

    address: Address
    commands: Sequence[Command]
    terms: Terms
    confirm: Callable[[], Command] | None = None


class Race(msgspec.Struct, frozen=True):
    """Ask them all the same, the next one as soon as one has failed or kept silent for HEDGE_S.

    The result is the first whose answer `read` takes, and what that makes of it; it raises NotSent
    for any other. Where there is none, that is what is raised.
    """

    addresses: Sequence[Address]
    command: Command
    read: Callable[[Any, Address], Any]
    terms: Terms

    def question(self, address: Address) -> Send:
        terms = Terms(self.terms.until, self.terms.reply, "races")
        return Send(address, [self.command], terms)


class Drop(msgspec.Struct, frozen=True):
    """Close the idle connections to `address`: it changed its role."""

    address: Address


class Embedded(msgspec.Struct, frozen=True):
    """Make sure the embedded server runs; the result is its address."""


Step = Send | Race | Wait | Drop | Embedded
Steps = Generator[Step, Any, Any]
