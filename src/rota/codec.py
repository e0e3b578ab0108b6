"""Arguments to payload bytes and back, checked against the task's signature on both sides.

A payload is a JSON object with one field per argument that was passed: `{"tenant": "t7",
"order_id": 42}`. Defaults are not stored, so the code's current default applies when the job
runs. What `*args` took is a list under its parameter's name, what `**kwargs` took an object
under its. Two more forms are read, for jobs enqueued without the function at hand: an array
holds positional arguments, and fields that name no parameter belong to `**kwargs`.

Annotated parameters travel by their annotation, as msgspec reads it; pydantic models too.
Unannotated ones, `Any` and `object` take None, bool, int, finite float, str, list and dict
with str keys.

One rule decides what may travel: the encoded arguments are decoded again at once and must be
equal to those given, down to the bytes they encode to. The exceptions: an int may stand for a
float it equals, a set has no order, and an aware datetime counts as its instant. So nothing
that is accepted at enqueue can be refused, rounded or converted at run.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from inspect import Parameter, Signature
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw
from msgspec.inspect import CustomType, DictType, Field, Type, type_info

from rota.errors import ConfigError, PayloadError
from rota.names import shown

MAX_DEPTH = 200
"""Most lists and objects inside one another, the payload itself counted: far below the depth
at which the interpreter gives up, which depends on who calls."""

MAX_REASON = 300  # characters of an annotation, or of another library's error, in a message
PLAIN = "None, bool, int, finite float, str, list or dict with str keys"

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_STRINGS = re.compile(rb'"[^"]*"')
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"'))


class Codec:
    """Encodes and decodes the arguments of one function.

    Takes plain and coroutine functions, bound methods and `functools.partial` of these, with
    any kinds of parameters. Classes, other callables and generator functions are refused, as
    are annotations that do not resolve or that cannot be represented: `ConfigError`, naming
    the parameter.
    """

    __slots__ = (
        "_all_count",
        "_decoder",
        "_decoders",
        "_every",
        "_has_optional",
        "_hints",
        "_places",
        "_positional",
        "_read_every",
        "_required",
        "_shape",
        "_signature",
        "_simple",
        "_var_keyword",
        "_var_positional",
        "name",
        "parameters",
    )

    def __init__(self, function: Callable[..., object]) -> None:
        inner = _inner_function(function)
        self.name = inner.__name__
        self._signature = _signature(function, self.name)
        self._shape = f"task {self.name}({_outline(self._signature)})"
        given = self._signature.parameters.values()
        self.parameters = frozenset(p.name for p in given if p.kind not in _VARIADIC)
        self._required = frozenset(
            name for name in self.parameters if self._default(name) is Parameter.empty
        )
        self._positional = _names(self._signature, Parameter.POSITIONAL_OR_KEYWORD)
        self._simple = len(self.parameters) == len(self._signature.parameters)
        if positional_only := _names(self._signature, Parameter.POSITIONAL_ONLY):
            self._positional = positional_only + self._positional
            self._simple = False
        self._places = {name: place for place, name in enumerate(self._positional)}
        self._var_positional = next(iter(_names(self._signature, _VARIADIC[0])), None)
        self._var_keyword = next(iter(_names(self._signature, _VARIADIC[1])), None)
        self._hints = {p.name: _hint(p, inner, self.name) for p in given}
        self._decoders = {
            name: _decoder(hint, f"task {self.name}, parameter {name}")
            for name, hint in self._hints.items()
        }
        self._has_optional = len(self._required) < len(self._hints)
        self._decoder = msgspec.json.Decoder(self._struct(), dec_hook=_dec_hook)
        # How many arguments a call has that passes all parameters by position, where one can.
        plain = self._simple and len(self._positional) == len(self._hints)
        self._all_count = len(self._hints) if plain else -1
        self._every = msgspec.defstruct(self.name, list(self._hints.items()))
        self._read_every = msgspec.json.Decoder(self._every, dec_hook=_dec_hook).decode

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The payload of a call; `PayloadError` names the parameter that does not fit."""
        if len(args) == self._all_count and not kwargs:
            payload = self._encode_every(args)
            if payload is not None:
                return payload
        return self.encode_bound(self.bind(args, kwargs))

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """The arguments passed, by parameter; defaults are left out."""
        if self._simple:
            bound = dict(zip(self._positional, args, strict=False))
            if len(args) == len(bound) and bound.keys().isdisjoint(kwargs):
                bound.update(kwargs)
                if self._required <= bound.keys() <= self.parameters:
                    return bound
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as exc:
            raise PayloadError(f"{self._shape}: {exc}") from None

    def _encode_every(self, args: tuple[object, ...]) -> bytes | None:
        """The payload of a call that passes all parameters by position, most calls do; None where
        `encode_bound` has to judge it. A struct is made, compared and encoded faster than a dict.
        """
        try:
            given = self._every(*args)
            payload = _ENCODER.encode(given)
            back = self._read_every(payload)
            if back == given and _ENCODER.encode(back) == payload:
                # A short one cannot be too deep: nearly every job's needs no look.
                return payload if len(payload) < MAX_DEPTH or not _too_deep(payload) else None
        except Exception:
            pass
        return None

    def encode_bound(self, bound: Mapping[str, object]) -> bytes:
        """The payload of what `bind` returned."""
        try:
            payload = _ENCODER.encode(bound)
            back = self._read(payload)
            if back == bound and _ENCODER.encode(back) == payload and not _too_deep(payload):
                return payload
        except Exception:
            pass  # the slow path finds out what it was and names the parameter
        return self._encode_slowly(bound)

    def decode(self, payload: bytes) -> tuple[tuple[object, ...], dict[str, object]]:
        """Positional and keyword arguments to call the function with.

        Raises `PayloadError` with the reason for bytes that are not JSON, fields that are
        missing or unknown, and values that do not fit their annotation.
        """
        try:
            values = self._read(payload)
        except Exception:
            values = self._read_foreign(payload)
        if self._simple:
            return (), values
        call = self._signature.bind_partial()
        call.arguments.update(values)
        call.apply_defaults()  # *args can only be passed if all before it is
        return call.args, call.kwargs

    def argument(self, args: tuple[object, ...], kwargs: Mapping[str, object], name: str) -> object:
        """The value the function sees for `name` in a call that fits: as passed, else its present
        default."""
        place = self._places.get(name)
        if place is not None and place < len(args):
            return args[place]
        parameter = self._signature.parameters[name]
        if name in kwargs and parameter.kind is not Parameter.POSITIONAL_ONLY:
            return kwargs[name]  # else it is one of **kwargs
        return parameter.default

    def check_from(self, name: str | None, option: str) -> None:
        """Raise `ConfigError` unless `name` is None or a parameter (`*args`, `**kwargs` apart)."""
        if name is not None and name not in self.parameters:
            known = ", ".join(p for p in self._signature.parameters if p in self.parameters)
            raise ConfigError(
                f"task {self.name}: {option} expected the name of a parameter "
                f"({known or 'it has none'}), given {shown(name)}"
            )

    def _default(self, name: str) -> object:
        return self._signature.parameters[name].default

    def _struct(self) -> type[msgspec.Struct]:
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
            (name, hint) if name in self._required else (name, hint, UNSET)
            for name, hint in self._hints.items()
        ]
        return msgspec.defstruct(self.name, fields, kw_only=True, forbid_unknown_fields=True)

    def _read(self, payload: bytes) -> dict[str, object]:
        values = msgspec.structs.asdict(self._decoder.decode(payload))
        if self._has_optional:
            return {name: value for name, value in values.items() if value is not UNSET}
        return values

    def _read_foreign(self, payload: bytes) -> dict[str, object]:
        try:
            raw = _FOREIGN.decode(payload)
            fields = self._by_position(raw) if isinstance(raw, list) else self._by_name(raw)
            return self._read(_ENCODER.encode(fields))
        except Exception as exc:
            raise PayloadError(
                f"{self._shape}: the payload does not fit: {_reason(exc)}, given {shown(payload)}"
            ) from exc

    def _by_position(self, items: list[Raw]) -> dict[str, object]:
        fields: dict[str, object] = dict(zip(self._positional, items, strict=False))
        if rest := items[len(self._positional) :]:
            if self._var_positional is None:
                raise ValueError(f"{len(items)} positional arguments are too many")
            fields[self._var_positional] = rest
        return fields

    def _by_name(self, fields: dict[str, Raw]) -> dict[str, object]:
        extra = self._var_keyword
        if extra is None:
            return dict(fields)
        known = {name: fields.pop(name) for name in self._hints if name != extra and name in fields}
        if extra in fields and bytes(fields[extra]).lstrip().startswith(b"{"):
            fields |= msgspec.json.decode(fields.pop(extra), type=dict[str, Raw])
        return {**known, extra: fields}

    def _encode_slowly(self, bound: Mapping[str, object]) -> bytes:
        """Judge each argument by itself: some accepted ones are not equal at first sight."""
        for name, value in bound.items():
            where = f"task {self.name}, parameter {name}"
            if name not in self._decoders:
                raise PayloadError(f"{where}: there is no such parameter, given {shown(value)}")
            _encode_one(value, self._decoders[name], self._hints[name], where)
        if missing := self._required - bound.keys():
            raise PayloadError(f"{self._shape}: {min(missing)} is missing")
        return _ENCODER.encode(bound)


def plain_value(value: object) -> None:
    """Raise `PayloadError` unless `value` may be passed to an unannotated parameter."""
    _encode_one(value, _PLAIN_DECODER, Any, "value")


def encode_plain(args: Sequence[object] | None, kwargs: Mapping[str, object] | None) -> bytes:
    """The payload for a task whose function is not at hand: all positional or all by keyword.

    Values are those an unannotated parameter takes. Positional arguments make a JSON array,
    keywords (or nothing) an object.
    """
    if args and kwargs:
        raise PayloadError(
            "a payload made without the task's function holds positional or keyword arguments, "
            f"not both, given {shown(args)} and {shown(kwargs)}"
        )
    value: object = list(args) if args else dict(kwargs or {})
    return _encode_one(value, _PLAIN_DECODER, Any, "arguments", outer=0)


# --- the signature


def _inner_function(function: object) -> types.FunctionType:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if callable(inner):
        inner = inspect.unwrap(inner)
    if isinstance(inner, types.MethodType):
        inner = inner.__func__
    if not isinstance(inner, types.FunctionType):
        raise ConfigError(f"a task is made from a function, given {shown(function)}")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigError(f"task {inner.__name__}: a generator function cannot be a task")
    return inner


def _signature(function: Callable[..., object], task: str) -> Signature:
    try:
        signature = inspect.signature(function)
    except (NameError, TypeError, ValueError) as exc:
        raise ConfigError(f"task {task}: its signature cannot be read: {exc}") from exc
    for name in signature.parameters:
        if name.startswith("__"):
            raise ConfigError(
                f"task {task}, parameter {name}: names beginning with __ are reserved"
            )
    return signature


def _outline(signature: Signature) -> str:
    stars: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
    return ", ".join(stars.get(p.kind, "") + p.name for p in signature.parameters.values())


def _names(signature: Signature, kind: object) -> tuple[str, ...]:
    return tuple(p.name for p in signature.parameters.values() if p.kind is kind)


def _hint(parameter: Parameter, function: types.FunctionType, task: str) -> Any:
    """The type of the parameter's field in the payload."""
    holder = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
    scope = {p.__name__: p for p in getattr(function, "__type_params__", ())}
    try:
        hints = typing.get_type_hints(holder, function.__globals__, scope, include_extras=True)
    except Exception as exc:
        raise ConfigError(
            f"task {task}, parameter {parameter.name}: annotation "
            f"{shown(parameter.annotation)} cannot be resolved where the function is defined: {exc}"
        ) from exc
    hint = hints["it"]
    if hint is Parameter.empty or hint is object:
        hint = Any
    if parameter.kind not in _VARIADIC:
        return hint
    if typing.get_origin(hint) is typing.Unpack:
        return typing.get_args(hint)[0]
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return types.GenericAlias(tuple, (hint, ...))
    return types.GenericAlias(dict, (str, hint))


def _decoder(hint: Any, where: str) -> msgspec.json.Decoder[Any]:
    try:
        misfits = {shown(cls) for cls in _misfits(type_info(hint), set())}
        decoder = msgspec.json.Decoder(hint, dec_hook=_dec_hook)
    except Exception as exc:
        raise ConfigError(
            f"{where}: expected an annotation that can travel as JSON, "
            f"given {_spelled(hint)}: {_reason(exc)}"
        ) from exc
    if misfits:
        raise ConfigError(
            f"{where}: expected an annotation that can travel as JSON, "
            f"given {_spelled(hint)}, which holds {', '.join(sorted(misfits))}"
        )
    return decoder


def _spelled(hint: object) -> str:
    text = inspect.formatannotation(hint)
    return text if len(text) <= MAX_REASON else text[:MAX_REASON] + "..."


def _misfits(info: Type, seen: set[int]) -> Iterator[object]:
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, CustomType) and info.cls is not object and not _is_model(info.cls):
        yield info.cls
    if isinstance(info, DictType) and any(_parts(info.key_type)):
        yield "dict keys of several parts"
    for part in _parts(info):
        yield from _misfits(part, seen)


def _parts(info: Type) -> Iterator[Type]:
    for name in info.__struct_fields__:
        value = getattr(info, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Field):
                yield item.type
            elif isinstance(item, Type):
                yield item


# --- pydantic models, known by their methods so that pydantic is never imported here


class _Model(Protocol):
    def model_dump(self, *, mode: str, by_alias: bool, round_trip: bool) -> object: ...

    @classmethod
    def model_validate_json(cls, data: bytes) -> object: ...


def _is_model(cls: object) -> typing.TypeGuard[type[_Model]]:
    return hasattr(cls, "model_validate") and hasattr(cls, "model_fields")


def _enc_hook(value: object) -> object:
    if isinstance(value, type) or not _is_model(type(value)):
        raise TypeError(f"objects of type {type(value).__name__} cannot travel")
    model: _Model = typing.cast(_Model, value)
    return model.model_dump(mode="json", by_alias=True, round_trip=True)


def _dec_hook(cls: type, value: object) -> object:
    if _is_model(cls):
        return cls.model_validate_json(msgspec.json.encode(value))
    return value


_ENCODER = msgspec.json.Encoder(enc_hook=_enc_hook)
_PLAIN_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Any)
_FOREIGN: msgspec.json.Decoder[list[Raw] | dict[str, Raw]] = msgspec.json.Decoder(
    list[Raw] | dict[str, Raw]
)


# --- what may travel

_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels, or cyclic"


def _encode_one(
    value: object, decoder: msgspec.json.Decoder[Any], hint: Any, where: str, outer: int = 1
) -> bytes:
    """`value` as JSON, for a place with `outer` levels of the payload around it."""
    try:
        payload = _ENCODER.encode(value)
        reason = _TOO_DEEP if _too_deep(payload, outer) else None
        if reason is None and not _same(value, decoder.decode(payload)):
            reason = f"comes back as {shown(decoder.decode(payload))}"
    except RecursionError:
        reason = _TOO_DEEP
    except UnicodeEncodeError:
        reason = "text with a lone surrogate"
    except Exception as exc:
        reason = _reason(exc).removesuffix(" - at `$`")
    if reason is None:
        return payload
    if reason is not _TOO_DEEP and _holds_nonfinite(value):
        reason = "NaN and infinity cannot travel"
    expected = PLAIN if hint is Any else _spelled(hint)
    raise PayloadError(f"{where}: expected {expected}, given {shown(value)}: {reason}")


def _reason(exc: Exception) -> str:
    text = str(exc) or type(exc).__name__
    return text if len(text) <= MAX_REASON else text[:MAX_REASON] + "..."


def _too_deep(payload: bytes, outer: int = 0) -> bool:
    most = MAX_DEPTH - outer
    if payload.count(b"[") + payload.count(b"{") <= most:
        return False
    unescaped = payload.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = unescaped.translate(_BRACKETS, _NO_MARKS).replace(b'""', b"")
    brackets = _STRINGS.sub(b"", marks)
    for _ in range(most):  # each round takes the innermost level away
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True


def _same(given: object, back: object) -> bool:
    """Whether the decoded value may stand for the given one."""
    if type(given) is int and type(back) is float:
        return given == back
    if isinstance(given, datetime) and isinstance(back, datetime) and given.tzinfo and back.tzinfo:
        # Compared in UTC: `==` between zones is always false in the hour a clock change repeats.
        return given.astimezone(UTC) == back.astimezone(UTC)
    if given == back and _ENCODER.encode(given) == _ENCODER.encode(back):
        return True
    if isinstance(given, set | frozenset) and isinstance(back, set | frozenset):
        twins = {item: item for item in back}
        return given == back and all(_same(item, twins[item]) for item in given)
    if type(given) is not type(back):
        return False
    if isinstance(given, dict) and isinstance(back, dict):
        return given.keys() == back.keys() and all(_same(given[key], back[key]) for key in given)
    if isinstance(given, list | tuple) and isinstance(back, list | tuple):
        return len(given) == len(back) and all(map(_same, given, back))
    if _is_model(type(given)):
        return given == back
    fields = _field_names(given)
    return bool(fields) and all(_same(getattr(given, f), getattr(back, f)) for f in fields)


def _field_names(value: object) -> Sequence[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    return [field.name for field in getattr(type(value), "__attrs_attrs__", ())]


def _holds_nonfinite(value: object) -> bool:
    seen: set[int] = set()
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return True
        if isinstance(item, dict | list | tuple | set | frozenset) and id(item) not in seen:
            seen.add(id(item))
            rest.extend([*item.keys(), *item.values()] if isinstance(item, dict) else item)
    return False
