"""Which server serves a queue, and what that server can do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rota.connection.faults import TOO_OLD, ErrorReply, NobodyThere, NotSent, refusal
from rota.connection.sharing import Shared
from rota.connection.steps import Command, Embedded, Race, Send, Steps, Terms
from rota.connection.target import Address, Target
from rota.errors import ServerTooOld, Unavailable
from rota.script.keys import Keys
from rota.script.loader import LIBRARY, Packed, Reply, Tail, all_commands
from rota.script.stubs import rights
from rota.values.versions import is_too_old, read_info, version_of

MAP_AGE_S = 15.0
"""After how long the map of a cluster is read anew, though it has led nobody astray."""
REFRESH_S = 1.0
"""How long a call waits for that."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server says of itself; `version` is empty where it hides that."""

    kind: str = ""
    version: tuple[int, ...] = ()
    appends: bool = True
    policy: str = "noeviction"
    """Its maxmemory-policy: what it does when its memory is full."""
    denied: frozenset[str] = frozenset()
    """Commands of scripts that it does not let our user run."""

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(map(str, self.version))}"


@dataclass(slots=True, weakref_slot=True)
class Route:
    """Where a client's calls of a slot go, as far as is known."""

    target: Target
    slots: dict[int, Address] = field(default_factory=dict)
    nodes: tuple[Address, ...] = ()
    """All of the cluster, replicas too, when it was last asked."""
    found: Address | None = None
    servers: dict[Address, ServerInfo] = field(default_factory=dict)
    reached: bool = False
    """Whether a server of it has been there before."""
    fresh_until: float = 0.0
    """When the map of a cluster is to be read anew (monotonic)."""
    first: int = 0
    """Who is asked first for the way: another one after a way that led nowhere."""

    def known(self, slot: int) -> Address | None:
        return self.slots.get(slot) if self.target.kind == "cluster" else self.found

    def forget(self, slot: int) -> None:
        """After a failure: look again, except where there is only one address."""
        if self.target.kind != "single":
            self.found = None
            self.slots.pop(slot, None)
            self.first += 1


_ROUTES = Shared(Route)


def route_to(target: Target) -> Route:
    """What the process knows of the way: whoever learns of a change learns it for all. An embedded
    server is there for those who have asked for it themselves."""
    return Route(target) if target.kind == "embedded" else _ROUTES.to(target)


def find(route: Route, slot: int, terms: Terms) -> Steps:
    target = route.target
    match target.kind:
        case "single":
            route.found = target.addresses[0]
        case "embedded":
            route.found = yield Embedded()
        case "sentinel":
            command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service)
            route.found = yield from _race(route, target.addresses, command, _read_master, terms)
        case "cluster":
            yield from _read_map(route, terms)
    found = route.known(slot)
    if found is None:
        raise NotSent(f"no server serves slot {slot}")
    return found


def refresh(route: Route, slot: int, terms: Terms) -> Steps:
    """Reads the map of a cluster anew: else, once all addresses have changed one by one and the
    one in use is the last, nobody is known who could tell."""
    now = time.monotonic()
    route.fresh_until = now + MAP_AGE_S  # others do not ask meanwhile
    with suppress(Unavailable):
        most = min(terms.until, now + REFRESH_S)
        yield from _read_map(route, Terms(most, REFRESH_S), route.known(slot))


def _read_map(route: Route, terms: Terms, owner: Address | None = None) -> Steps:
    known = (*route.nodes, *route.slots.values(), *route.target.addresses)
    if owner is not None:
        known, route.first = (owner, *known), 0
    asked = tuple(dict.fromkeys(known))
    found = yield from _race(route, asked, ("CLUSTER", "SLOTS"), _read_slots, terms)
    route.slots, route.nodes = found
    route.fresh_until = time.monotonic() + MAP_AGE_S


def _race(
    route: Route, addresses: Sequence[Address], command: Command, read: Any, terms: Terms
) -> Steps:
    start = route.first % len(addresses)

    def accept(reply: Reply, address: Address) -> Any:
        return read(_answered(reply, address), address)

    order = (*addresses[start:], *addresses[:start])
    winner, found = yield Race(order, command, accept, terms)
    route.first, route.reached = addresses.index(winner), True
    return found


def _answered(reply: Reply, address: Address) -> Reply:
    if reply and not isinstance(reply, ErrorReply):
        return reply
    passes = isinstance(reply, ErrorReply) and refusal(reply) == "passing"
    raise (NotSent if passes else NobodyThere)(f"{address}: {reply or 'no such service'}")


def _read_master(reply: Reply, _: Address) -> Address:
    host, port = reply
    return Address(host.decode(), int(port))


def _read_slots(reply: Reply, asked: Address) -> tuple[dict[int, Address], tuple[Address, ...]]:
    """The owner of each slot, and all nodes."""
    slots, nodes = {}, []
    for first, last, *row in reply:
        found = [Address((host or b"").decode() or asked.host, port) for host, port, *_ in row]
        slots.update(dict.fromkeys(range(first, last + 1), found[0]))
        nodes += found
    return slots, tuple(dict.fromkeys(nodes))


def learn(route: Route, address: Address, keys: Keys, terms: Terms) -> Steps:
    """Once per address. A server that hides INFO is judged by whether it takes the scripts."""
    ask = rights(keys, commands=Packed(all_commands()), names=Tail([]))
    script = LIBRARY.assemble(ask.script)
    server, *more, _, answer = yield Send(
        address,
        [
            ("INFO", "server"),
            ("INFO", "persistence"),
            ("INFO", "memory"),
            ("SCRIPT", "LOAD", script.text),
            ("EVALSHA", script.sha, 2, keys.config, keys.none, *ask.args),
        ],
        terms,
    )
    route.reached = True
    denied = frozenset(() if isinstance(answer, ErrorReply) else ask.decode(answer)[0])
    if isinstance(server, ErrorReply):
        if refusal(server) == "final":
            route.servers[address] = ServerInfo(denied=denied)
        return
    info = {name: value for reply in (server, *more) for name, value in read_info(reply).items()}
    kind, version = version_of(info)
    policy = info.get("maxmemory_policy", "noeviction")
    found = ServerInfo(kind, version, info.get("aof_enabled") != "0", policy, denied)
    if is_too_old(kind, version):
        raise ServerTooOld(f"{address} is {found}: rota {TOO_OLD}")
    route.servers[address] = found
