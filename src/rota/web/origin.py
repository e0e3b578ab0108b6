"""Where a request comes from: a page of this site, this machine, a proxy that is believed."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from starlette.requests import Request

from rota.errors import ConfigError
from rota.values.names import shown

UNIX = "unix"
"""Stands among trusted proxies for a peer on a Unix socket, which has no address."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LABELS = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{0,5})?")
_FORWARDED = re.compile(
    r"forwarded|via|x-(forwarded|original)-.*|x-real-ip|x-(cluster-)?client-ip|.*-connecting-ip|"
    r"true-client-ip|fastly-client-ip"
)


class Trust:
    """The names a dashboard answers to, and the proxies whose word it takes.

    A name of somebody else's that leads here (DNS rebinding) makes their pages pass for this
    site's, so a dashboard that asks nobody who he is has to know its own names.
    """

    def __init__(self, hosts: Collection[str] = (), proxies: Collection[str] = ()) -> None:
        self._hosts = frozenset(_host_pattern(name) for name in _several(hosts, "trusted_hosts"))
        proxies = _several(proxies, "trusted_proxies")
        self._unix = UNIX in proxies
        self._networks = [_network(text) for text in proxies if text != UNIX]
        self.names_hosts = bool(self._hosts)

    def client(self, request: Request) -> str:
        """The address of who asks: the peer's, or what a trusted proxy says, read from the right
        up to the first that is none. '-' where there is none."""
        peer = _peer(request)
        if not self.is_proxy(peer):
            return peer or "-"
        said = ",".join(request.headers.getlist("x-forwarded-for"))
        for text in reversed(said.split(",")):
            found = read_address(text)
            if found is None:  # nobody to believe behind this one
                break
            peer = str(found)
            if not self.is_proxy(peer):
                break
        return peer or "-"

    def answers_to(self, request: Request) -> bool:
        """Whether the browser's address is one of this dashboard's own names."""
        return all(self._is_own(host, request) for host in self._hosts_of(request))

    def is_local(self, request: Request) -> bool:
        """Whether peer, name and page are this machine's, and nobody speaks for others."""
        peer = _peer(request)
        pages = request.headers.getlist("origin")  # tells where a proxy hides the name asked for
        return (
            is_loopback(peer or "")
            and not self.is_proxy(peer)
            and not any(_FORWARDED.fullmatch(name) for name in request.headers)
            and all(is_loopback_name(host) for host in self._hosts_of(request))
            and all(is_loopback_name(_host_name(_netloc(page))) for page in pages)
        )

    def is_same_origin(self, request: Request) -> bool:
        """Whether the browser says that a page of this very site sent the request.

        A request that says nothing of where it comes from is refused as well: every browser tells.
        """
        sites = request.headers.getlist("sec-fetch-site")
        if sites:
            return set(sites) == {"same-origin"}
        pages = {_netloc(page).lower() for page in request.headers.getlist("origin")}
        own = self._host_headers(request)[-1].lower()
        return bool(own) and pages == {own}

    def is_proxy(self, peer: str | None) -> bool:
        """Whether the peer, None for one without an address, is believed about others."""
        if peer is None:
            return self._unix
        address = read_address(peer)
        return address is not None and any(address in network for network in self._networks)

    def _is_own(self, host: str | None, request: Request) -> bool:
        if host is None:
            return False
        if is_loopback_name(host) or host in self._hosts or "*" in self._hosts:
            return True
        if read_address(host) is not None:
            # Nobody can make an address lead elsewhere; but at the loopback it is not this one.
            peer = _peer(request)
            return not is_loopback(peer or "") or self.is_proxy(peer)
        parents = host.split(".")
        return any("*." + ".".join(parents[n:]) in self._hosts for n in range(1, len(parents)))

    def _hosts_of(self, request: Request) -> list[str | None]:
        """The names asked for, one at least; None for one that is none."""
        return [_host_name(header) for header in self._host_headers(request)]

    def _host_headers(self, request: Request) -> list[str]:
        """What the request is for; last what the browser was told, where a proxy changed it."""
        said = request.headers.getlist("host") or [""]
        if self.is_proxy(_peer(request)):
            for several in request.headers.getlist("x-forwarded-host"):
                said += [one.strip() for one in several.split(",")]
        return said


def is_loopback_name(host: str | None) -> bool:
    """Of the address in the browser: another name that leads here is somebody else's."""
    return host is not None and (host == "localhost" or is_loopback(host))


def is_loopback(host: str) -> bool:
    address = read_address(host)
    return address is not None and address.is_loopback


def _peer(request: Request) -> str | None:
    """None for a peer without an address."""
    return (request.client.host or None) if request.client is not None else None


def _host_name(header: str) -> str | None:
    """The name in a Host header, lower case, without port, brackets and final dot."""
    found = _HOST.fullmatch(header.strip().lower())
    if found is None:
        return None
    address = read_address(found[1] or found[2])
    if address is not None:
        return str(address)
    return found[2] and found[2].removesuffix(".")


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def read_address(text: str) -> Address | None:
    """An address as proxies and sockets write it: with a port, a zone, brackets, mapped."""
    text = text.strip().strip('"')
    found = re.fullmatch(r"\[([^\]]+)\](?::\d+)?|([0-9.]+):\d+", text)
    text = (found[1] or found[2]) if found else text
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


# ── what is declared ────────────────────────────────────────────────────────────────────────────


def _several(given: Collection[str], what: str) -> list[str]:
    if isinstance(given, str) or not all(isinstance(one, str) for one in given):
        raise ConfigError(f"{what}: expected a list of texts, given {shown(given)}")
    return list(given)


def _host_pattern(name: str) -> str:
    """A name, an address, `*.` and a name for all below it, or `*`."""
    plain = name.lower().removesuffix(".")
    try:
        return str(ip_address(plain.strip("[]")))
    except ValueError:
        if plain == "*" or _LABELS.fullmatch(plain.removeprefix("*.")) is not None:
            return plain
    raise ConfigError(
        'trusted_hosts: expected names without port, such as "queue.example", or "*.example" for '
        f"all below one, given {shown(name)}"
    )


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigError(
            'trusted_proxies: expected addresses and networks, such as "10.0.0.0/8", or '
            f'"{UNIX}" for a Unix socket, given {shown(text)}: {error}'
        ) from None
