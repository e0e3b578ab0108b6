"""One call from script to reply, without I/O: routing, lost script caches, resending.

`reply_to` yields steps and is sent their results; `blocking.py` and `aio.py` carry them out. So
every rule of what may be sent again stands here, once.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from binascii import crc_hqx
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from rota.connection.faults import (
    ErrorReply,
    Lost,
    NobodyThere,
    NotSent,
    Stranger,
    error_for,
    refusal,
)
from rota.connection.route import Route, find, learn, refresh
from rota.connection.sending import CONFIRMED_S, Sending
from rota.connection.steps import Drop, Send, Step, Steps, Terms
from rota.connection.target import Address, Target
from rota.errors import QueueBroken, RotaError, Unavailable
from rota.script.keys import CATALOGUE, Keys
from rota.script.loader import LIBRARY, Ask, Call, Library, Operation, Request, Room, Scan, Wait
from rota.values import config

T = TypeVar("T")

TRIES = 3
"""How often a call that may be sent again can go without a reply: a master that stands still is
asked for again while its replacement can still be reached."""
FIRST_PAUSE_S = 0.02
MAX_PAUSE_S = 1.0
MAX_DETOURS = 8
"""How often scripts are loaded or another node is asked before the first pause."""
TLS_WAIT_S = 1.0
SLOTS = 16384
SCANNED = 1000
"""Keys that one page of a look through them all goes over, about."""


class Bounds(msgspec.Struct, frozen=True):
    """How long calls may take: `call` seconds in all, with whatever is tried meanwhile. With
    `resend` what fails is tried again for as long. `room`: where nothing names another."""

    call: float = config.TIMEOUT_S
    resend: bool = True
    room: Room = "calls"

    def of(self, calls: Sequence[Call[Any]]) -> Terms:
        """Those of a call that begins now."""
        most, tries = self.call, TRIES if self.resend else 1
        for call in calls:
            if call.within is not None and call.within < most:
                most = call.within
            if not call.script.resend:
                tries = 1
            if call.confirm is not None:
                most = max(most, call.confirm.timeout_ms / 1000 + CONFIRMED_S)
        return Terms(time.monotonic() + most, most / tries, calls[0].room or self.room)

    def once(self) -> Terms:
        """Those of one question that begins now."""
        return Terms(time.monotonic() + self.call, self.call)


BOUNDS = Bounds()


@lru_cache
def slot_of(keys: Keys) -> int:
    """That of all keys of a queue: of what stands between its first brace and the next closing
    one, if anything does."""
    key = keys.config.encode()
    tag = key.partition(b"{")[2].partition(b"}")[0]
    return crc_hqx(tag or key, 0) % SLOTS


def reply_to(request: Request, route: Route, library: Library, bounds: Bounds) -> Steps:
    """What an operation is sent for what it yields."""
    if isinstance(request, Call):
        return (yield from deliver([request], route, library, bounds))[0]
    if isinstance(request, Wait):
        return (yield request)
    if isinstance(request, Ask):
        return (yield from ask(request, route, bounds))
    if isinstance(request, Scan):
        return (yield from scan(request, route, bounds))
    return (yield from deliver(request, route, library, bounds))


def deliver(calls: Sequence[Call[Any]], route: Route, library: Library, bounds: Bounds) -> Steps:
    """Sends calls of one queue together and returns their raw replies, in order.

    Raises ServerFull, ServerTooOld or Unavailable; Lost where a call that must not be sent
    twice may have run. Only the calls that were refused are sent again. After a lost reply a
    refusal is Unavailable: it does not say that nothing was written. Where no server has ever been,
    the address is taken to be wrong: that fails at once.
    """
    slot = slot_of(calls[0].keys)
    sending = Sending(calls, library)
    terms, pause, detours = bounds.of(calls), FIRST_PAUSE_S, 0
    may_have_run = False
    while True:
        address = None
        try:
            if route.slots and route.fresh_until < time.monotonic():
                yield from refresh(route, slot, terms)
            address = sending.asked or route.known(slot) or (yield from find(route, slot, terms))
            if address not in route.servers:
                yield from learn(route, address, calls[0].keys, terms)
            sending.check(route.servers.get(address))
            if sending.denied(route.servers.get(address)):
                yield from learn(route, address, calls[0].keys, terms)  # it may be allowed by now
                if denied := sending.denied(route.servers.get(address)):
                    raise Unavailable(_denial(route, denied))
            commands, confirm = sending.commands(), sending.confirm(terms)
            errors = sending.sort((yield Send(address, commands, terms, confirm)))
            route.reached = True
            if not errors:
                return sending.replies
            trouble: Exception = errors[0]
            wait = yield from _recover(errors, sending, route, slot, address, terms)
        except (NotSent, Lost) as fault:
            if address is None or route.known(slot) == address:
                route.forget(slot)  # else another call knows better by now
            sending.asked = None
            if isinstance(fault, Lost) and not sending.may_be_sent_again():
                raise
            trouble, wait = fault, True
            may_have_run = may_have_run or isinstance(fault, Lost)
        except RotaError as error:
            if may_have_run:
                raise Unavailable(f"a call's reply was lost, and sent again: {error}") from error
            raise
        detours += 1
        if not wait and detours < MAX_DETOURS:
            continue
        if not bounds.resend or time.monotonic() + pause > terms.until or _is_wrong(route, trouble):
            raise Unavailable(f"{route.target.display} cannot be reached: {trouble}") from trouble
        yield Wait(pause)
        pause = min(2 * pause, MAX_PAUSE_S)


def _recover(
    errors: Sequence[ErrorReply],
    sending: Sending,
    route: Route,
    slot: int,
    address: Address,
    terms: Terms,
) -> Generator[Step, Any, bool]:
    """Does what the refusals ask for; says whether to wait before sending again."""
    wait = False
    for error in errors:
        match refusal(error):
            case "script":
                yield from _load(address, sending.texts(), terms)
            case "moved":
                route.slots[slot] = _named_in(error, address)
            case "ask":
                sending.asked = _named_in(error, address)
            case "passing":
                yield Drop(address)
                route.forget(slot)
                wait = True
            case "broken":
                yield from _find_broken(sending.keys, address, terms)
                raise error_for(error, route.target.display) from error
            case "full" | "final":
                raise error_for(error, route.target.display) from error
    return wait


def _is_wrong(route: Route, trouble: Exception) -> bool:
    """Whether the address is. Of an embedded server it never is: that has just ended, and is
    started anew."""
    if route.reached or route.target.kind == "embedded":
        return False
    return isinstance(trouble, NobodyThere | Stranger)


def _denial(route: Route, denied: Sequence[str]) -> str:
    return (
        f"{route.target.display}: user {route.target.username or 'default'} may not run "
        f"{', '.join(denied)}, which this call needs; nothing was written. "
        "What to allow: docs/doctor.md, rota doctor"
    )


def park(
    keys: Keys, seconds: float, route: Route, bounds: Bounds, hung_up: Callable[[], bool]
) -> Generator[Step, Any, bool]:
    """One wait at the bell; returns whether it rang. Raises NotSent or Lost on any trouble.

    Over TLS no side of a connection can be closed alone, so that a wait that is to end would go on:
    it is made of short ones.
    """
    slot = slot_of(keys)
    most = TLS_WAIT_S if route.target.tls else seconds
    try:
        address = route.known(slot) or (yield from find(route, slot, bounds.once()))
        reply = None
        while reply is None and seconds > 0 and not hung_up():
            wait = ("BLPOP", keys.wake, repr(min(seconds, most)))
            (reply,) = yield Send(address, [wait], bounds.once())
            seconds -= most
    except (NotSent, Lost):
        route.forget(slot)
        raise
    if isinstance(reply, ErrorReply):
        if refusal(reply) == "moved":
            route.slots[slot] = _named_in(reply, address)
        else:
            route.forget(slot)
        raise Lost(str(reply))
    return reply is not None


def ask(question: Ask, route: Route, bounds: Bounds) -> Steps:
    """Questions to the queue's server, once; their replies, refusals among them."""
    slot, terms = slot_of(question.keys), bounds.once()
    try:
        address = route.known(slot) or (yield from find(route, slot, terms))
        return (yield Send(address, question.commands, terms))
    except (NotSent, Lost) as fault:
        route.forget(slot)
        raise Unavailable(f"{route.target.display} cannot be reached: {fault}") from fault


def scan(look: Scan, route: Route, bounds: Bounds) -> Steps:
    """A page of a look through the keys: the next cursor, '<node>:<its cursor>', and the keys."""
    slot, (node, _, at), terms = 0, look.cursor.partition(":"), bounds.once()
    try:
        address = route.known(slot) or (yield from find(route, slot, terms))
        nodes = sorted(set(route.slots.values()), key=str) or [address]
        number = int(node or 0)
        if number >= len(nodes):  # the cluster has become smaller
            return "", []
        command = ("SCAN", at or "0", "MATCH", look.pattern, "COUNT", SCANNED, "TYPE", "hash")
        (reply,) = yield Send(nodes[number], [command], terms)
    except (NotSent, Lost) as fault:
        route.forget(slot)
        raise Unavailable(f"{route.target.display} cannot be reached: {fault}") from fault
    if isinstance(reply, ErrorReply):
        raise error_for(reply, str(nodes[number])) from reply
    after, keys = reply
    if after != b"0":
        return f"{number}:{after.decode()}", keys
    return (f"{number + 1}:0" if number + 1 < len(nodes) else ""), keys


def _load(address: Address, texts: set[str], terms: Terms) -> Steps:
    for result in (yield Send(address, [("SCRIPT", "LOAD", text) for text in texts], terms)):
        if isinstance(result, ErrorReply) and refusal(result) == "final":
            raise error_for(result, str(address)) from result


def _find_broken(keys: Keys, address: Address, terms: Terms) -> Steps:
    """Raises QueueBroken where a key of the whole queue is to blame."""
    kinds = [kind for kind in CATALOGUE if kind.parameter is None]
    types = yield Send(address, [("TYPE", keys.key(kind.name)) for kind in kinds], terms)
    for kind, found in zip(kinds, types, strict=True):
        if isinstance(found, bytes) and found not in (b"none", kind.type.encode()):
            raise QueueBroken(keys.key(kind.name), found.decode(), kind.type)


def _named_in(error: ErrorReply, asked: Address) -> Address:
    """The address in a MOVED or ASK reply; an empty host is that of the node asked."""
    host, _, port = str(error).rpartition(" ")[2].rpartition(":")
    return Address(host or asked.host, int(port))


class BaseClient(ABC):
    """What the clients of both drivers know of their calls.

    The clients of a process share their connections to a server; with `size` a client has so many
    of its own. `bounds`: the time of a call.
    """

    def __init__(
        self,
        target: Target,
        *,
        library: Library = LIBRARY,
        size: int | None = None,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.target = target
        self._bounds = bounds
        self._library = library
        self._size = size
        self._hang_ups = 0

    @property
    @abstractmethod
    def _route(self) -> Route: ...

    def _steps(self, operation: Operation[T], bounds: Bounds) -> Generator[Step, Any, T]:
        """Those of a whole operation: it is sent the replies to what it yields, or thrown the
        faults, and its own result is returned."""
        try:
            request = next(operation)
            while True:
                try:
                    reply = yield from reply_to(request, self._route, self._library, bounds)
                except BaseException as error:
                    request = operation.throw(error)
                else:
                    request = operation.send(reply)
        except StopIteration as stop:
            return cast(T, stop.value)
        finally:
            operation.close()

    def _parking(self, keys: Keys, seconds: float) -> Generator[Step, Any, bool]:
        hang_ups = self._hang_ups
        return park(keys, seconds, self._route, self._bounds, lambda: self._hang_ups != hang_ups)
