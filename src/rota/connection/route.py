"""Which server serves a queue, and what that server can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

from rota.connection.faults import TOO_OLD, Lost, NotSent, Refused, Stranger, refusal
from rota.connection.steps import Command, Embedded, Send, Steps, Terms
from rota.connection.target import Address, Target
from rota.errors import ServerTooOld
from rota.scripting import Reply


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server says of itself; `version` is empty where it hides that."""

    kind: str = ""
    version: tuple[int, ...] = ()
    appends: bool = True
    policy: str = "noeviction"
    """Its maxmemory-policy: what it does when its memory is full."""

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(map(str, self.version))}"

    @property
    def too_old(self) -> bool:
        return bool(self.version) and self.version < ((7, 2) if self.kind == "valkey" else (7, 0))

    @property
    def confirms_fsync(self) -> bool:
        """Whether it knows WAITAOF."""
        return not self.version or self.version >= (7, 2)


@dataclass(slots=True)
class Route:
    """Where a client's calls of a slot go, as far as is known."""

    target: Target
    slots: dict[int, Address] = field(default_factory=dict)
    found: Address | None = None
    facts: dict[Address, Facts] = field(default_factory=dict)
    reached: bool = False
    """Whether a server of it has been there before."""
    hang_ups: int = 0
    """How often the client was asked to end its waits."""

    def known(self, slot: int) -> Address | None:
        return self.slots.get(slot) if self.target.kind == "cluster" else self.found

    def forget(self, slot: int) -> None:
        """After a failure: look again, except where there is only one address."""
        if self.target.kind != "single":
            self.found = None
            self.slots.pop(slot, None)


def find(route: Route, slot: int, terms: Terms) -> Steps:
    target = route.target
    match target.kind:
        case "single":
            route.found = target.addresses[0]
        case "embedded":
            route.found = yield Embedded()
        case "sentinel":
            command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service)
            route.found = yield from _ask_all(route, target.addresses, command, _read_master, terms)
        case "cluster":
            known = dict.fromkeys((*target.addresses, *route.slots.values()))
            route.slots = yield from _ask_all(
                route, tuple(known), ("CLUSTER", "SLOTS"), _read_slots, terms
            )
    found = route.known(slot)
    if found is None:
        raise NotSent(f"no server serves slot {slot}")
    return found


def _ask_all(
    route: Route, addresses: Sequence[Address], command: Command, read: Any, terms: Terms
) -> Steps:
    troubles: list[Exception] = []
    for address in addresses:
        try:
            (reply,) = yield Send(address, [command], terms)
            found = read(_answered(reply, address), address)
        except (NotSent, Lost) as fault:
            troubles.append(fault)
        else:
            route.reached = True
            return found
    wrong = all(isinstance(one, Refused | Stranger) for one in troubles)
    raise (Refused if wrong else NotSent)(str(troubles[-1])) from troubles[-1]


def _answered(reply: Reply, address: Address) -> Reply:
    if reply and not isinstance(reply, ResponseError):
        return reply
    passes = isinstance(reply, ResponseError) and refusal(reply) == "passing"
    raise (NotSent if passes else Refused)(f"{address}: {reply or 'no such service'}")


def _read_master(reply: Reply, _: Address) -> Address:
    host, port = reply
    return Address(host.decode(), int(port))


def _read_slots(reply: Reply, asked: Address) -> dict[int, Address]:
    slots = {}
    for first, last, owner, *_ in reply:
        address = Address((owner[0] or b"").decode() or asked.host, owner[1])
        slots.update(dict.fromkeys(range(first, last + 1), address))
    return slots


def learn(route: Route, address: Address, terms: Terms) -> Steps:
    """Once per address. A server that hides INFO is judged by whether it takes the scripts."""
    server, *more = yield Send(
        address, [("INFO", "server"), ("INFO", "persistence"), ("INFO", "memory")], terms
    )
    route.reached = True
    if isinstance(server, ResponseError):
        if refusal(server) == "final":
            route.facts[address] = Facts()
        return
    info = _fields(server)
    for reply in more:
        info |= {} if isinstance(reply, ResponseError) else _fields(reply)
    kind = "valkey" if "valkey_version" in info else "redis"
    version = tuple(int(p) for p in info.get(f"{kind}_version", "").split(".") if p.isdigit())
    policy = info.get("maxmemory_policy", "noeviction")
    facts = Facts(kind, version, info.get("aof_enabled") != "0", policy)
    if facts.too_old:
        raise ServerTooOld(f"{address} is {facts}: rota {TOO_OLD}")
    route.facts[address] = facts


def _fields(reply: Reply) -> dict[str, str]:
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
