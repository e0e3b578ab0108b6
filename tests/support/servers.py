"""Servers of the three kinds the tests run on, and the fleet that keeps one of each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Literal, cast, get_args

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry

from tests.support.binaries import redis_server, valkey_server
from tests.support.node import CLIENT_NAME, Node, NotStarted, free_port
from tests.support.times import IN_TIME
from tests.support.waiting import eventually
from tests.support.workplace import Workplace

Kind = Literal["valkey", "cluster", "redis7"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_SLOTS = 16384
_MASTERS = 3


class Server:
    """A standalone server or a cluster. `url` is what rota connects to; it survives restarts."""

    def __init__(self, kind: Kind, url: str, nodes: list[Node]) -> None:
        self.kind: Kind = kind
        self.url = url
        self.nodes = nodes
        self._clients: dict[bool, redis.Redis] = {}

    @property
    def alive(self) -> bool:
        return all(node.alive for node in self.nodes)

    def raw(self, decode: bool = True) -> Any:
        """A client of its own for looking and for damage; on a cluster it follows the slots.

        Made once per server; `decode=False` answers bytes. Its annotations do not know which.
        """
        if decode not in self._clients:
            self._clients[decode] = self._connect(decode)
        return self._clients[decode]

    def keys(self) -> list[str]:
        """Every key on every node, sorted; bytes that are not UTF-8 as escapes."""
        found: set[str] = set()
        for node in self.nodes:
            with node.client(decode=False) as client:
                found |= {key.decode(errors="backslashreplace") for key in client.keys()}
        return sorted(found)

    def strangers(self) -> list[str]:
        """The connections that are not the harness's own, described."""
        found = []
        for node in self.nodes:
            with node.client() as client:
                found += [_describe(c) for c in client.client_list() if c["name"] != CLIENT_NAME]
        return found

    def flush(self) -> None:
        """Delete every key. Scripts stay loaded, settings stay as they are."""
        for node in self.nodes:
            with node.client() as client:
                client.flushall()

    def reset(self) -> None:
        """Flush; where the server is gone or does not answer, start it anew."""
        try:
            self.flush()
        except redis.RedisError:
            self.kill()
            self.restart()
            self.flush()

    def stop(self) -> None:
        """SIGTERM to every process, and wait for the end."""
        self._each(Node.stop)

    def kill(self) -> None:
        """kill -9 of every process."""
        self._each(Node.kill)

    def freeze(self) -> None:
        """SIGSTOP: connections are accepted by the system, nothing is answered. Then `thaw`."""
        for node in self.nodes:
            node.freeze()

    def thaw(self) -> None:
        for node in self.nodes:
            node.thaw()

    def restart(self) -> None:
        """Stop what still runs, start again at the same address; data only if it was kept."""
        self.stop()
        for node in self.nodes:
            node.start()
        if self.kind == "cluster":
            _await_cluster(self.nodes)

    def log_tail(self) -> str:
        return "\n".join(node.log_tail() for node in self.nodes)

    def _each(self, action: Callable[[Node], None]) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for node in self.nodes:
            action(node)

    def _connect(self, decode: bool) -> redis.Redis:
        if self.kind != "cluster":
            return self.nodes[0].client(decode)
        client = RedisCluster(
            host="127.0.0.1",
            port=cast("int", self.nodes[0].address),
            decode_responses=decode,
            client_name=CLIENT_NAME,
            socket_timeout=IN_TIME,
            socket_connect_timeout=IN_TIME,
            retry=Retry(NoBackoff(), 2),
        )
        return cast("redis.Redis", client)  # the same commands under another class


def start(
    workplace: Workplace, kind: Kind, config: dict[str, str] | None = None, tcp: bool = False
) -> Server:
    """Start a server. Raises Missing when its program is not installed, NotStarted."""
    settings = config or {}
    if kind == "cluster":
        return _start_cluster(workplace, settings)
    binary = valkey_server() if kind == "valkey" else redis_server()
    if tcp:
        node = _start_on_port(workplace, binary, kind, settings)
        return Server(kind, f"redis://127.0.0.1:{node.address}", [node])
    folder = workplace.folder(kind)
    node = Node(binary, folder, folder / "socket", settings)
    node.start()
    return Server(kind, f"unix://{node.address}", [node])


def _start_on_port(
    workplace: Workplace, binary: str, name: str, config: dict[str, str], attempts: int = 5
) -> Node:
    """Start on free ports; take others if somebody was faster."""
    for attempt in range(attempts):
        ports = {"cluster-port": str(free_port())} if "cluster-enabled" in config else {}
        node = Node(binary, workplace.folder(name), free_port(), config | ports)
        try:
            node.start()
        except NotStarted:
            if attempt == attempts - 1 or "in use" not in node.log_tail():
                raise
        else:
            return node
    raise AssertionError("attempts must be positive")


def _start_cluster(workplace: Workplace, config: dict[str, str]) -> Server:
    settings = {"cluster-enabled": "yes", "cluster-config-file": "nodes.conf"} | config
    nodes: list[Node] = []
    try:
        while len(nodes) < _MASTERS:
            nodes.append(_start_on_port(workplace, valkey_server(), "cluster", settings))
        _join(nodes)
        _await_cluster(nodes)
    except BaseException:
        for node in nodes:
            node.kill()
        raise
    return Server("cluster", f"redis+cluster://127.0.0.1:{nodes[0].address}", nodes)


def _join(nodes: list[Node]) -> None:
    """Deal out the slots, number the epochs, introduce everybody to the first."""
    bounds = [_SLOTS * i // len(nodes) for i in range(len(nodes) + 1)]
    for i, node in enumerate(nodes):
        with node.client() as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", bounds[i], bounds[i + 1] - 1)
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", i + 1)
            if i:
                first = nodes[0]
                bus = first.config["cluster-port"]
                client.execute_command("CLUSTER MEET", "127.0.0.1", first.address, bus)


def _await_cluster(nodes: list[Node]) -> None:
    """Wait until every node knows every slot's owner and serves."""

    def all_agree() -> bool:
        return all(_serves(client, owners=len(nodes)) for client in clients)

    with ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for node in nodes]
        eventually(all_agree, "the cluster does not serve", timeout=20.0, interval=0.02)


def _serves(client: redis.Redis, owners: int) -> bool:
    info = client.execute_command("CLUSTER INFO")
    slots = client.execute_command("CLUSTER SLOTS")
    return info["cluster_state"] == "ok" and len(slots) == owners


def _describe(client: dict[str, str]) -> str:
    parts = ("id", "name", "lib-name", "age", "idle", "cmd")
    return " ".join(f"{part}={client.get(part, '')}" for part in parts)


class Fleet:
    """One shared server of each kind for this test process, started on first use."""

    def __init__(self) -> None:
        self._workplace: Workplace | None = None
        self._shared: dict[Kind, Server] = {}
        self._private: list[Server] = []

    def shared(self, kind: Kind) -> Server:
        """The server of this kind, alive and empty. Raises Missing."""
        if kind not in self._shared:
            self._shared[kind] = start(self.workplace, kind)
        self._shared[kind].reset()
        return self._shared[kind]

    def private(
        self, kind: Kind, config: dict[str, str] | None = None, tcp: bool = False
    ) -> Server:
        """A new server; who asked for it stops it, at the latest `close` does."""
        server = start(self.workplace, kind, config, tcp)
        self._private.append(server)
        return server

    @property
    def workplace(self) -> Workplace:
        if self._workplace is None:
            self._workplace = Workplace()
        return self._workplace

    def close(self) -> None:
        """End every server and remove every file."""
        for server in (*self._shared.values(), *self._private):
            server.kill()
        if self._workplace is not None:
            self._workplace.close()
