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
    twice may have run.
    """
    slot = key_slot(calls[0].keys.config.encode())
    pending = list(range(len(calls)))
    replies: list[Reply] = [None] * len(calls)
    give_up, pause = time.monotonic() + window, FIRST_PAUSE_S
    while True:
        try:
            address = route.known(slot) or (yield from _find(route, slot))
            if address not in route.checked:
                yield from _check_version(route, address)
            results = yield Send(address, [_evalsha(calls[i], library) for i in pending])
            route.reached = True
        except NotSent as fault:
            route.forget(slot)
            trouble: Exception = fault
        except Lost as fault:
            route.forget(slot)
            if not all(calls[i].script.resend for i in pending):
                raise
            trouble = fault
        else:
            errors: dict[int, ResponseError] = {}
            for i, result in zip(pending, results, strict=True):
                if isinstance(result, ResponseError):
                    errors[i] = result
                else:
                    replies[i] = result
            if not errors:
                return replies
            pending = list(errors)
            refusals = {refusal(error) for error in errors.values()}
            trouble = next(iter(errors.values()))
            if refusals & {"final", "full"}:
                final = next(e for e in errors.values() if refusal(e) in ("final", "full"))
                raise error_for(final, route.target.display) from final
            if refusals == {"script"}:
                yield from _load(address, [calls[i] for i in pending], library)
                continue
            yield from _redirect(route, slot, address, errors.values())
            if "passing" not in refusals:
                continue
        if time.monotonic() + pause > give_up or not route.reached:
            raise Unavailable(f"{route.target.display} cannot be reached: {trouble}") from trouble
        yield Pause(pause)
        pause = min(2 * pause, MAX_PAUSE_S)


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
        yield from _redirect(route, slot, address, [reply])
        raise Lost(str(reply))
    return reply is not None


def _evalsha(call: Call[Any], library: Library) -> Command:
    sha = library.assemble(call.script).sha
    return ("EVALSHA", sha, 2, call.keys.config, call.keys.none, *call.args)


def _load(address: Address, calls: Sequence[Call[Any]], library: Library) -> Steps:
    texts = {library.assemble(call.script).text for call in calls}
    for result in (yield Send(address, [("SCRIPT", "LOAD", text) for text in texts])):
        if isinstance(result, ResponseError) and refusal(result) == "final":
            raise error_for(result, str(address)) from result


def _redirect(route: Route, slot: int, address: Address, errors: Any) -> Steps:
    for error in errors:
        match refusal(error):
            case "moved":
                route.slots[slot] = _moved_to(error, address)
            case "passing":
                yield Drop(address)
                route.forget(slot)


def _moved_to(error: ResponseError, asked: Address) -> Address:
    place = str(error).rpartition(" ")[2]
    host, _, port = place.rpartition(":")
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
