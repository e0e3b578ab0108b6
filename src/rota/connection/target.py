"""A server's URL, read and checked before anything is sent."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from rota.errors import ConfigError

SCHEMES = (
    "redis://, rediss://, valkey://, valkeys://, unix://, redis+sentinel://, redis+cluster://, "
    "embedded:PATH"
)
MAX_DATABASE_DIGITS = 6
SENTINEL_LOGIN = ("sentinel_username", "sentinel_password")


class Address(msgspec.Struct, frozen=True):
    """Where one server listens: a host and port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


class Files(NamedTuple):
    """Paths: of the client's certificate and key, and of those who vouch for the server's, beside
    the system's."""

    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_ca_certs: str | None = None


NO_FILES = Files()


Kind = Literal["single", "cluster", "sentinel", "embedded"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL names. `display` is the URL without its password."""

    kind: Kind
    display: str
    addresses: tuple[Address, ...] = ()
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    service: str = ""
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    files: Files = NO_FILES
    directory: Path = Path()
    fsync: Literal["no", "always"] = "no"


def parse_url(url: str, *, directory: Path | None = None) -> Target:
    """Reads a server URL; raises ConfigError naming what is wrong with it.

    A relative path of `embedded:` counts from `directory`, by default the current one.
    """
    if not isinstance(url, str):
        raise ConfigError(f"url: expected text, given {type(url).__name__}")
    if not url.isprintable():
        raise ConfigError(f"url: expected printable text, given {without_password(url)!r}")
    if url.startswith("embedded:"):
        return _embedded(url, directory or Path.cwd())
    try:
        parts = urlsplit(url)
        query = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
    except ValueError:  # whose text may hold the password
        raise _unreadable(url) from None
    if parts.fragment or parts.netloc.count("@") > 1:
        raise _unreadable(url)
    match parts.scheme if "://" in url else None:
        case "redis" | "valkey" | "rediss" | "valkeys":
            return _single(parts, query)
        case "unix":
            return _unix(parts, query)
        case "redis+cluster" | "valkey+cluster" | "rediss+cluster" | "valkeys+cluster":
            return _cluster(parts, query)
        case "redis+sentinel" | "valkey+sentinel" | "rediss+sentinel" | "valkeys+sentinel":
            return _sentinel(parts, query)
    raise ConfigError(f"url: expected one of {SCHEMES}; given {without_password(url)!r}")


def _unreadable(url: str) -> ConfigError:
    return ConfigError(
        "url: cannot be read (in a user's name or password, characters such as # / ? @ must be "
        f"percent-encoded), given {without_password(url)!r}"
    )


def _shown(parts: SplitResult) -> str:
    query = f"?{parts.query}" if parts.query else ""
    return without_password(f"{parts.scheme}://{parts.netloc}{parts.path}{query}")


def without_password(url: str) -> str:
    """The URL for display. Masks what could be a password even where the URL is malformed."""
    url = re.sub(r"(?i)(password=)[^&]*", r"\1***", url)
    before, at, after = url.rpartition("@")
    if not at:
        return url
    scheme, slashes, credentials = before.partition("://")
    if not slashes:
        scheme, _, credentials = before.partition(":")
    user = credentials.partition(":")[0] if slashes else ""
    return f"{scheme}:{'//' if slashes else ''}{user}:***@{after}"


def _embedded(url: str, base: Path) -> Target:
    path, _, query = url.removeprefix("embedded:").partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    fsync = options.pop("fsync", "no")
    slashes = len(path) - len(path.lstrip("/"))
    if not path or slashes == 2 or options or fsync not in ("no", "always"):
        raise ConfigError(
            f"url: expected embedded:PATH or embedded:PATH?fsync=always, given {url!r}"
        )
    directory = Path(os.path.abspath(base / os.path.expanduser(path)))
    return Target(
        "embedded",
        f"embedded:{directory}",
        directory=directory,
        fsync="always" if fsync == "always" else "no",
    )


def _credentials(parts: SplitResult) -> tuple[str | None, str | None]:
    username = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    return username, password


def _database(text: str, url: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DATABASE_DIGITS:
        raise ConfigError(f"url: expected a database number, given {url!r}")
    return int(text)


def _hosts(parts: SplitResult, default_port: int) -> tuple[Address, ...]:
    shown = _shown(parts)
    pieces = parts.netloc.rpartition("@")[2].split(",")
    if len(pieces) > 1 and not all(pieces):
        raise ConfigError(f"url: expected a host between the commas, given {shown!r}")
    return tuple(_host(piece, default_port, shown) for piece in pieces)


def _host(piece: str, default_port: int, shown: str) -> Address:
    try:
        one = urlsplit(f"//{piece}")
        port = default_port if one.port is None else one.port
    except ValueError:
        port = 0
    if port == 0:
        raise ConfigError(
            f"url: expected host:port with a port from 1 to 65535, given {shown!r}"
        ) from None
    host = one.hostname or "localhost"
    if not host.isprintable() or " " in host:
        raise ConfigError(f"url: expected the name of a host, given {shown!r}")
    return Address(host, port)


def _refuse_rest(parts: SplitResult, query: dict[str, str]) -> None:
    if query:
        shown = _shown(parts)
        raise ConfigError(f"url: unknown option {', '.join(query)} in {shown!r}")


def _files(parts: SplitResult, query: dict[str, str], *, tls: bool) -> Files:
    """What is in them is for the first connection to say; that they are there is said here."""
    found = {name: query.pop(name) for name in Files._fields if name in query}
    shown = _shown(parts)
    if found and not tls:
        raise ConfigError(f"url: expected rediss:// with {', '.join(found)}, given {shown!r}")
    if "ssl_keyfile" in found and "ssl_certfile" not in found:
        raise ConfigError(f"url: expected ssl_certfile with ssl_keyfile, given {shown!r}")
    for name, path in found.items():
        found[name] = os.path.abspath(os.path.expanduser(path))
        if not path or not os.path.isfile(found[name]):
            raise ConfigError(f"url: {name}: expected a file, given {path!r} in {shown!r}")
    return Files(**found)


def _one_database(path: str, query: dict[str, str], shown: str) -> int:
    """From the path or the option `db`."""
    option = query.pop("db", None)
    if option is None:
        return _database(path, shown)
    if path or not option:
        raise ConfigError(f"url: expected the database once, given {shown!r}")
    return _database(option, shown)


def _single(parts: SplitResult, query: dict[str, str]) -> Target:
    shown = _shown(parts)
    if len(_hosts(parts, 6379)) > 1:
        raise ConfigError(f"url: expected one host (redis+cluster:// takes many), given {shown!r}")
    return _served("single", parts, query, _one_database(parts.path.strip("/"), query, shown))


def _unix(parts: SplitResult, query: dict[str, str]) -> Target:
    shown = _shown(parts)
    path = unquote(parts.path)
    if not path.startswith("/") or "\0" in path or parts.netloc.rpartition("@")[2]:
        raise ConfigError(f"url: expected unix:///path/to/socket, given {shown!r}")
    db = _one_database("", query, shown)
    username, password = _credentials(parts)
    password = query.pop("password", password)
    username = query.pop("username", username)
    _refuse_rest(parts, query)
    return Target("single", f"unix://{path}", (Address(path=path),), db, username, password)


def _cluster(parts: SplitResult, query: dict[str, str]) -> Target:
    shown = _shown(parts)
    if _database(parts.path.strip("/"), shown) != 0:
        raise ConfigError(f"url: a cluster has database 0 only, given {shown!r}")
    return _served("cluster", parts, query, 0)


def _sentinel(parts: SplitResult, query: dict[str, str]) -> Target:
    shown = _shown(parts)
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ConfigError(f"url: expected redis+sentinel://host:port/service[/db], given {shown!r}")
    username, password = (query.pop(name, "") or None for name in SENTINEL_LOGIN)
    if username and not password:
        raise ConfigError(f"url: expected sentinel_username with a password, given {shown!r}")
    target = _served("sentinel", parts, query, _database(db, shown), 26379)
    return replace(target, service=service, sentinel_username=username, sentinel_password=password)


def _served(
    kind: Kind, parts: SplitResult, query: dict[str, str], db: int, port: int = 6379
) -> Target:
    """Over TCP, with what the options say that all of these have."""
    tls = parts.scheme.startswith(("rediss", "valkeys"))
    files = _files(parts, query, tls=tls)
    _refuse_rest(parts, query)
    addresses, (username, password) = _hosts(parts, port), _credentials(parts)
    return Target(kind, _shown(parts), addresses, db, username, password, tls, files=files)
