"""Where a request comes from: a page of this site, this machine."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def is_same_origin(request: Request) -> bool:
    """Whether the browser says that a page of this very site sent the request.

    A request that says nothing of where it comes from is refused as well: every browser tells.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    try:
        origin = urlsplit(request.headers.get("origin", ""))
    except ValueError:
        return False
    host = request.headers.get("host", "")
    return bool(origin.netloc) and origin.netloc.lower() == host.lower()


def is_local(request: Request) -> bool:
    """Whether peer and address are this machine's, and no proxy says that it speaks for others."""
    return peer_is_loopback(request) and host_is_loopback(request) and not is_forwarded(request)


def is_forwarded(request: Request) -> bool:
    return any(name in request.headers for name in _FORWARDED)


def peer_is_loopback(request: Request) -> bool:
    return request.client is not None and is_loopback(request.client.host)


def host_is_loopback(request: Request) -> bool:
    """Of the address in the browser: another name that leads here is somebody else's."""
    try:
        name = urlsplit("//" + request.headers.get("host", "")).hostname or ""
    except ValueError:
        return False
    return name == "localhost" or is_loopback(name)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
