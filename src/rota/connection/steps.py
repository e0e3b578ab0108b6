"""What the protocol asks of a driver: the steps between a call and its reply."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from rota.connection.target import Address

Command = tuple[str | bytes | int, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Send `commands` to `address` in one go; the result is a list of replies and errors."""

    address: Address
    commands: Sequence[Command]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the idle connections to `address`: it changed its role."""

    address: Address


@dataclass(frozen=True, slots=True)
class Embedded:
    """Make sure the embedded server runs; the result is its address."""


Step = Send | Pause | Drop | Embedded
Steps = Generator[Step, Any, Any]
