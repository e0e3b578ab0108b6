"""Lua scripts as typed functions.

A script is one file in `rota/script/lua`, with a machine-read header:

    #!lua flags=allow-oom
    -- include: bell clock          the files of `lua/lib` that it uses names of
    -- args: consumer number        its arguments, by name, in order
    -- resend: receipt              yes: sending it twice is as good as once; no: it must not be;
                                    receipt: sent again, it answers what it answered first
    -- checks: itself               it looks at the types of the queue's keys by its own means
    -- sealed: goes on              it does its work also on a sealed queue

What it includes is put before it: see `includes`.

`@script(decode)` binds a typed stub of the same name: at import the header must equal the
stub's keyword parameters. Bodies never mention KEYS or ARGV; each argument is a Lua local of
its name, decoded by its Python type. Every script declares two keys, the queue's `config` and
`none`, so that a migrating cluster slot answers before anything runs.

A receipt is the reply of a call, kept on the server for a minute under a nonce that the call
carries as its first argument. Who missed the reply is given it again, and nothing is done twice. A
body that calls `answered(reply)` itself says which of its replies are kept, and is not wrapped in a
function, which costs some 20,000 instructions.

A script that writes is guarded: before it writes anything, behind its receipt, it is refused
(`QueueClosed`) where the queue is not the caller's to write to. By fields of `config`: `home` is
another than the caller's, '' for a queue of one hash slot; `needs` is a later protocol; or it is
`sealed`, as it is about to move.

Lua has no rollback. So each script that writes first asks each key of the whole queue that it
mentions for its length: one of a wrong type refuses the call before anything is written. Where
that would cost too much the script sees to it itself, by reads it needs anyway, and by lines like
`-- check: ring vt`, which become such questions.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    NewType,
    ParamSpec,
    TypeVar,
    cast,
    get_type_hints,
)

import msgspec

from rota.errors import RotaError, Unavailable
from rota.script.includes import INCLUDES, gather, sent, split_header, without_comments, words_of
from rota.script.keys import Keys, keys_to_check, lua_checks, lua_helpers
from rota.values.ids import new_nonce
from rota.values.names import shown

P = ParamSpec("P")
T = TypeVar("T")
Packed = NewType("Packed", object)
"""An argument of lists and scalars, sent as one msgpack blob."""

Tail = NewType("Tail", object)
"""The last argument of a script where it is a list of byte strings, sent as they are."""

Reply = Any
"""A raw reply: nested lists of bytes, int and None."""

_pack = msgspec.msgpack.Encoder().encode
_LUA_DECODERS = {
    str: "ARGV[{}]",
    bytes: "ARGV[{}]",
    int: "tonumber(ARGV[{}])",
    float: "tonumber(ARGV[{}])",
    bool: "ARGV[{}] == '1'",
    Packed: "cmsgpack.unpack(ARGV[{}])",
    Tail: "{{unpack(ARGV, {})}}",
}
_ENCODERS: dict[object, Callable[[Any], str | bytes]] = {
    str: lambda value: value,
    bytes: lambda value: value,
    int: str,
    float: repr,
    bool: lambda value: "1" if value else "0",
    Packed: _pack,
}


def packed_names(names: Sequence[bytes]) -> Packed:
    """Names as they are stored, which may be no text: Lua reads no other kind of bytes."""
    return Packed([msgspec.Raw(b"\xda" + len(name).to_bytes(2, "big") + name) for name in names])


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua file: its header and body, and the Lua that binds its arguments."""

    name: str
    flags: str
    includes: tuple[str, ...]
    arguments: tuple[str, ...]
    resend: bool
    body: str
    binding: str = ""
    receipt: bool = False
    checks_itself: bool = False
    goes_on_sealed: bool = False

    @property
    def writes(self) -> bool:
        return "no-writes" not in self.flags


@dataclass(frozen=True, slots=True)
class Assembled:
    """What the server is sent: the whole text and its SHA1."""

    text: str
    sha: str


Room = Literal["calls", "leases", "enqueues", "durable", "races"]
"""What connections are for: claims, settlements and beats never stand behind enqueues, and neither
behind waits for their confirmation. Races are run by questions for the way."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """What the connection that wrote is asked to wait for, once it has, at most `timeout_ms`.

    `fsync`: the server's own append-only file is on disk. `replicas`: so many replicas have the
    write; with `fsync` they have it on disk too.
    """

    fsync: bool
    replicas: int
    timeout_ms: int


class Call(msgspec.Struct, Generic[T], eq=False):
    """One script call that has not been made yet. `reply = yield from call` in an operation.

    With `confirm` the raw reply is a pair: the script's, and the server's to WAITAOF or WAIT (an
    error where it refused that, after the script has run). `within`: how many seconds later the
    reply would be of no use; None leaves that to the client. `room`: whose connections
    it uses, where not its client's.
    """

    script: Script
    keys: Keys
    args: Sequence[str | bytes]
    decode: Callable[[Reply], T]
    confirm: Confirm | None = None
    within: float | None = None
    room: Room | None = None

    def __iter__(self) -> Operation[T]:
        reply = yield self
        try:
            return self.decode(reply)
        except RotaError:
            raise
        except Exception as error:
            raise Unavailable(f"no answer to {self.script.name}: {shown(reply)}") from error


@dataclass(frozen=True, slots=True)
class Wait:
    """What an operation yields to wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ask:
    """What an operation yields to put plain questions (INFO, TIME, …) to the server of a queue.

    It is sent the replies, in order; one that was refused is the error itself.
    """

    keys: Keys
    commands: Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Scan:
    """What an operation yields to look through all keys of the server, of a cluster's every node.

    It is sent the next cursor, '' after the last page, and the keys found, as bytes.
    """

    pattern: str
    cursor: str = ""


Request = Call[Any] | list[Call[Any]] | Wait | Ask | Scan
Operation = Generator[Request, Reply, T]
"""An operation written once, without I/O: it yields what it needs (a call, calls to be sent
together, a wait), is sent the raw replies, and returns its result."""


def together(calls: Sequence[Call[T]]) -> Operation[list[T]]:
    """Sends calls of one queue in one go."""
    replies = yield list(calls)
    return [call.decode(reply) for call, reply in zip(calls, replies, strict=True)]


def _read(path: str) -> str:
    return (files("rota.script") / "lua" / path).read_text(encoding="utf-8")


@cache
def load(name: str) -> Script:
    """Reads `lua/<name>.lua`; a missing or malformed header fails here, at import."""
    text = _read(f"{name}.lua")
    first, _, rest = text.partition("\n")
    if not re.fullmatch(r"#!lua( flags=[a-z,-]+)?", first):
        raise ValueError(
            f"{name}.lua: first line must be '#!lua' or '#!lua flags=…', got {first!r}"
        )
    header, body = split_header(rest)
    resend = header.get("resend")
    if resend not in (("yes",), ("no",), ("receipt",)):
        raise ValueError(f"{name}.lua: header needs '-- resend: yes', 'no' or 'receipt'")
    return Script(
        name=name,
        flags=first,
        includes=header.get("include", ()),
        arguments=header.get("args", ()),
        resend=resend != ("no",),
        receipt=resend == ("receipt",),
        checks_itself=header.get("checks") == ("itself",),
        goes_on_sealed=header.get("sealed") == ("goes", "on"),
        body=body,
    )


_WITH_RECEIPT = """\
local receipt = redis.call('GET', k_sent(nonce))
if receipt then
  -- A write, so that this connection too can ask whether all before it is durable.
  redis.call('PEXPIRE', k_sent(nonce), 60000)
  return cmsgpack.unpack(receipt)
end
{}
local function answered(reply)
  redis.call('SET', k_sent(nonce), cmsgpack.pack(reply), 'PX', 60000)
  return reply
end
{}
"""
PROTOCOL = 1
"""Of the formats on the server, as these scripts know them. Who writes what older ones must not
touch sets `needs` to the first that may."""
_GUARD = """\
if (config[1] or '') ~= home then
  return redis.error_reply(config[1] and 'ROTAFOREIGN ' .. config[1] or 'ROTAHOMELESS ' .. home)
elseif config[2] and (tonumber(config[2]) or 0) > {} then
  return redis.error_reply('ROTANEWER ' .. config[2])
end
"""
_SEALED = """\
if config[3] then
  return redis.error_reply('ROTASEALED ' .. config[3])
end
"""
_ANSWERED = "local function answer()\n{}\nend\nreturn answered(answer())"
_COMMAND = re.compile(r"'([A-Z]{2,})'")


@cache
def commands_in(text: str) -> frozenset[str]:
    """The commands that a script calls, and perhaps words of their options."""
    return frozenset(_COMMAND.findall(without_comments(text)))


@cache
def all_commands() -> tuple[str, ...]:
    """Those of every script."""
    bodies = (part.body for parts in (INCLUDES, BOUND) for part in parts.values())
    texts = (_WITH_RECEIPT, *map(sent, bodies))
    return tuple(sorted(frozenset().union(*map(commands_in, texts))))


class Library:
    """Assembles scripts. `swap` replaces an include for another text, by name."""

    def __init__(self, swap: Mapping[str, str] | None = None) -> None:
        self._swap = dict(swap or {})
        self._assembled: dict[str, Assembled] = {}

    def assemble(self, script: Script) -> Assembled:
        found = self._assembled.get(script.name)
        if found is None:
            found = self._assembled[script.name] = self._build(script)
        return found

    def _build(self, script: Script) -> Assembled:
        lua, users = sent(script.body), [(script.includes, words_of(script.body))]
        first = ""
        if script.writes:
            users.append((("config",), words_of(_GUARD)))
            first = _GUARD.format(PROTOCOL) + ("" if script.goes_on_sealed else _SEALED)
        scoped = gather(users, self._swap)
        if script.writes and not script.checks_itself:
            first += lua_checks(keys_to_check("\n".join([*scoped, lua])))
        if script.receipt:
            answering = lua if "answered(" in lua else _ANSWERED.format(lua)
            first, lua = "", _WITH_RECEIPT.format(first, answering)
        body = "\n".join([*scoped, first, lua])
        text = "\n".join([script.flags, lua_helpers(body), script.binding, body])
        return Assembled(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


LIBRARY = Library()
"""The scripts as they are shipped."""


def script(
    decode: Callable[[Reply], T],
) -> Callable[[Callable[Concatenate[Keys, P], None]], Callable[Concatenate[Keys, P], Call[T]]]:
    """Binds the decorated stub to the Lua file of its name; `decode` types the reply."""

    def bind(stub: Callable[Concatenate[Keys, P], None]) -> Callable[Concatenate[Keys, P], Call[T]]:
        source = load(stub.__name__)
        hints = get_type_hints(stub)
        names = tuple(inspect.signature(stub).parameters)[1:]
        if names != source.arguments:
            raise TypeError(f"{source.name}.lua takes {source.arguments}, its stub says {names}")
        kinds = [hints[name] for name in names]
        given = ["nonce"] * source.receipt + ["home"] * source.writes
        binding = "\n".join(
            f"local {name} = {_LUA_DECODERS[kind].format(index)}"
            for index, (name, kind) in enumerate(
                zip([*given, *names], [*([str] * len(given)), *kinds], strict=True), start=1
            )
        )
        bound = replace(source, binding=binding)
        if Tail in kinds[:-1]:
            raise TypeError(f"{source.name}: a Tail must be the last argument")
        tail = names[-1] if kinds and kinds[-1] is Tail else None
        slots = [
            (name, _ENCODERS[kind])
            for name, kind in zip(names, kinds, strict=True)
            if kind is not Tail
        ]

        def call(keys: Keys, /, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
            values = [encode(kwargs[name]) for name, encode in slots]
            if bound.writes:
                values.insert(0, keys.home)
            if bound.receipt:
                values.insert(0, new_nonce())
            if tail is not None:
                values += cast("list[bytes]", kwargs[tail])
            return Call(bound, keys, values, decode)

        BOUND[source.name] = bound
        call.__name__ = call.__qualname__ = source.name
        call.__doc__ = stub.__doc__ or source.body
        return call

    return bind


BOUND: dict[str, Script] = {}
"""Every bound script by name, for the linter and the tests."""
