"""One call from script to reply, without I/O: routing, lost script caches, resending.

`deliver` yields steps and is sent their results; `blocking.py` and `aio.py` carry them out. So
every rule of what may be sent again stands here, once.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.crc import key_slot
from redis.exceptions import ResponseError

from rota.connection.faults import TOO_OLD, Lost, NotSent, error_for, refusal
from rota.connection.target import Address, Target
from rota.errors import ServerTooOld, Unavailable
from rota.keys import Keys
from rota.scripting import Call, Library, Reply

RESEND_WINDOW_S = 10.0
"""How long a call is sent again before it fails. Receipts of enqueue calls live for 60 s."""
FIRST_PAUSE_S = 0.02
MAX_PAUSE_S = 1.0
MAX_DETOURS = 8
"""How often scripts are loaded or another node is asked before the first pause."""

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


@dataclass(slots=True)
class Route:
    """Where calls of a slot go, as far as is known. Shared by all clients of a queue."""

    target: Target
    slots: dict[int, Address] = field(default_factory=dict)
    found: Address | None = None
    checked: set[Address] = field(default_factory=set)
    reached: bool = False

    def known(self, slot: int) -> Address | None:
        return self.slots.get(slot) if self.target.kind == "cluster" else self.found

    def forget(self, slot: int) -> None:
        """After a failure: look again, except where there is only one address."""
        if self.target.kind != "single":
            self.found = None
            self.slots.pop(slot, None)


def deliver(
    calls: Sequence[Call[Any]], route: Route, library: Library, window: float = RESEND_WINDOW_S
) -> Steps:
    """Sends calls of one queue together and returns their raw replies, in order.

    Raises ServerFull, ServerTooOld or Unavailable; Lost where a call that must not be sent
    twice may have run. Only the calls that were refused are sent again.
    """
    slot = key_slot(calls[0].keys.config.encode())
    batch = _Batch(calls, library)
    give_up, pause, detours = time.monotonic() + window, FIRST_PAUSE_S, 0
    while True:
        try:
            address = batch.asked or route.known(slot) or (yield from _find(route, slot))
            if address not in route.checked:
                yield from _check_version(route, address)
            errors = batch.sort((yield Send(address, batch.commands())))
            route.reached = True
            if not errors:
                return batch.replies
            trouble: Exception = errors[0]
            wait = yield from _recover(errors, batch, route, slot, address)
        except (NotSent, Lost) as fault:
            route.forget(slot)
            batch.asked = None
            if isinstance(fault, Lost) and not batch.may_be_sent_again():
                raise
            trouble, wait = fault, True
        detours += 1
        if not wait and detours < MAX_DETOURS:
            continue
        if time.monotonic() + pause > give_up or not route.reached:
            raise Unavailable(f"{route.target.display} cannot be reached: {trouble}") from trouble
        yield Pause(pause)
        pause = min(2 * pause, MAX_PAUSE_S)


class _Batch:
    """Calls under way: which are answered, which are still to be sent, and where."""

    def __init__(self, calls: Sequence[Call[Any]], library: Library) -> None:
        self._calls = calls
        self._library = library
        self._pending = list(range(len(calls)))
        self.replies: list[Reply] = [None] * len(calls)
        self.asked: Address | None = None
        """Where a migrating slot's owner sent us, for the next sending only."""

    def commands(self) -> list[Command]:
        commands: list[Command] = []
        for i in self._pending:
            call = self._calls[i]
            sha = self._library.assemble(call.script).sha
            if self.asked is not None:
                commands.append(("ASKING",))
            commands.append(("EVALSHA", sha, 2, call.keys.config, call.keys.none, *call.args))
        return commands

    def sort(self, results: Sequence[Reply]) -> list[ResponseError]:
        """Keeps what was answered; what was refused stays pending. The refusals, in order."""
        if self.asked is not None:
            results = results[1::2]
            self.asked = None
        errors, refused = [], []
        for i, result in zip(self._pending, results, strict=True):
            if isinstance(result, ResponseError):
                errors.append(result)
                refused.append(i)
            else:
                self.replies[i] = result
        self._pending = refused
        return errors

    def may_be_sent_again(self) -> bool:
        return all(self._calls[i].script.resend for i in self._pending)

    def texts(self) -> set[str]:
        """The scripts of what is pending."""
        return {self._library.assemble(self._calls[i].script).text for i in self._pending}


def _recover(
    errors: Sequence[ResponseError], batch: _Batch, route: Route, slot: int, address: Address
) -> Generator[Step, Any, bool]:
    """Does what the refusals ask for; says whether to wait before sending again."""
    wait = False
    for error in errors:
        match refusal(error):
            case "script":
                yield from _load(address, batch.texts())
            case "moved":
                route.slots[slot] = _named_in(error, address)
            case "ask":
                batch.asked = _named_in(error, address)
            case "passing":
                yield Drop(address)
                route.forget(slot)
                wait = True
            case "full" | "final":
                raise error_for(error, route.target.display) from error
    return wait


def park(keys: Keys, seconds: float, route: Route) -> Steps:
    """One wait at the bell; returns whether it rang. Raises NotSent or Lost on any trouble."""
    slot = key_slot(keys.wake.encode())
    try:
        address = route.known(slot) or (yield from _find(route, slot))
        (reply,) = yield Send(address, [("BLPOP", keys.wake, repr(seconds))])
    except (NotSent, Lost):
        route.forget(slot)
        raise
    if isinstance(reply, ResponseError):
        if refusal(reply) == "moved":
            route.slots[slot] = _named_in(reply, address)
        else:
            route.forget(slot)
        raise Lost(str(reply))
    return reply is not None


def _load(address: Address, texts: set[str]) -> Steps:
    for result in (yield Send(address, [("SCRIPT", "LOAD", text) for text in texts])):
        if isinstance(result, ResponseError) and refusal(result) == "final":
            raise error_for(result, str(address)) from result


def _named_in(error: ResponseError, asked: Address) -> Address:
    """The address in a MOVED or ASK reply; an empty host is that of the node asked."""
    host, _, port = str(error).rpartition(" ")[2].rpartition(":")
    return Address(host or asked.host, int(port))


def _find(route: Route, slot: int) -> Steps:
    target = route.target
    match target.kind:
        case "single":
            route.found = target.addresses[0]
        case "embedded":
            route.found = yield Embedded()
        case "sentinel":
            route.found = yield from _ask_all(
                target, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service), _read_master
            )
        case "cluster":
            route.slots = yield from _ask_all(target, ("CLUSTER", "SLOTS"), _read_slots)
    found = route.known(slot)
    if found is None:
        raise NotSent(f"no server serves slot {slot}")
    return found


def _ask_all(target: Target, command: Command, read: Any) -> Steps:
    trouble: Exception = NotSent("no address given")
    for address in target.addresses:
        try:
            (reply,) = yield Send(address, [command])
        except (NotSent, Lost) as fault:
            trouble = fault
            continue
        if isinstance(reply, ResponseError) or not reply:
            trouble = NotSent(f"{address}: {reply or 'no such service'}")
            continue
        return read(reply, address)
    raise NotSent(str(trouble)) from trouble


def _read_master(reply: Reply, _: Address) -> Address:
    host, port = reply
    return Address(host.decode(), int(port))


def _read_slots(reply: Reply, asked: Address) -> dict[int, Address]:
    slots = {}
    for first, last, owner, *_ in reply:
        address = Address((owner[0] or b"").decode() or asked.host, owner[1])
        slots.update(dict.fromkeys(range(first, last + 1), address))
    return slots


def _check_version(route: Route, address: Address) -> Steps:
    """Once per address. A server that hides INFO is judged by whether it takes the scripts."""
    (reply,) = yield Send(address, [("INFO", "server")])
    if not isinstance(reply, ResponseError):
        text = reply.decode(errors="replace") if isinstance(reply, bytes) else ""
        info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        kind = "valkey" if "valkey_version" in info else "redis"
        version = info.get(f"{kind}_version", "")
        if version and _number(version) < ((7, 2) if kind == "valkey" else (7, 0)):
            raise ServerTooOld(f"{address} is {kind} {version}: rota {TOO_OLD}")
        route.checked.add(address)
    elif refusal(reply) == "final":
        route.checked.add(address)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
