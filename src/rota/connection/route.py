"""Which server serves a queue, and what that server can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

from rota.connection.faults import TOO_OLD, Lost, NotSent, refusal
from rota.connection.steps import Command, Embedded, Send, Steps
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
    hang_ups: int = 0
    """How often the client was asked to end its waits."""

    def known(self, slot: int) -> Address | None:
        return self.slots.get(slot) if self.target.kind == "cluster" else self.found

    def forget(self, slot: int) -> None:
        """After a failure: look again, except where there is only one address."""
        if self.target.kind != "single":
            self.found = None
            self.slots.pop(slot, None)


def find(route: Route, slot: int) -> Steps:
    target = route.target
    match target.kind:
        case "single":
            route.found = target.addresses[0]
        case "embedded":
            route.found = yield Embedded()
        case "sentinel":
            command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service)
            route.found = yield from _ask_all(target.addresses, command, _read_master)
        case "cluster":
            known = dict.fromkeys((*target.addresses, *route.slots.values()))
            route.slots = yield from _ask_all(tuple(known), ("CLUSTER", "SLOTS"), _read_slots)
    found = route.known(slot)
    if found is None:
        raise NotSent(f"no server serves slot {slot}")
    return found


def _ask_all(addresses: Sequence[Address], command: Command, read: Any) -> Steps:
    trouble: Exception = NotSent("no address given")
    for address in addresses:
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


def learn(route: Route, address: Address) -> Steps:
    """Once per address. A server that hides INFO is judged by whether it takes the scripts."""
    server, *more = yield Send(
        address, [("INFO", "server"), ("INFO", "persistence"), ("INFO", "memory")]
    )
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
