"""Arguments to payload bytes and back, checked against the task's signature on both sides.

A payload is a JSON object with one field per argument that was passed: `{"tenant": "t7",
"order_id": 42}`. Defaults are not stored, so the code's current default applies when the job
runs. What `*args` took is a list under its parameter's name, what `**kwargs` took an object
under its. Two more forms are read, for jobs enqueued without the function at hand: an array
holds positional arguments, and fields that name no parameter belong to `**kwargs`.

Annotated parameters travel by their annotation, as msgspec reads it; pydantic models too.
Unannotated ones, `Any` and `object` take None, bool, int, finite float, str, list and dict
with str keys.

What may travel is `travel`'s rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from rota.errors import ConfigError, PayloadError
from rota.payload.signature import (
    SIMPLE,
    VARIADIC,
    decoration,
    hint_of,
    inner_function,
    outline,
    read_signature,
)
from rota.payload.travel import (
    ENCODER,
    MAX_DEPTH,
    PLAIN_DECODER,
    decode_model,
    decoder_of,
    encode_value,
    is_too_deep,
    is_unfit,
)
from rota.values.misfit import misfit
from rota.values.names import shown

_FOREIGN: msgspec.json.Decoder[list[Raw] | dict[str, Raw]] = msgspec.json.Decoder(
    list[Raw] | dict[str, Raw]
)


class Codec:
    """Encodes and decodes the arguments of one function.

    Takes plain and coroutine functions, bound methods and `functools.partial` of these, with
    any kinds of parameters. Methods without their object, classes, other callables and generator
    functions are refused, as are annotations that do not resolve or that cannot be represented:
    `ConfigError`, naming the parameter.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        inner = inner_function(function)
        self.name = inner.__name__
        self._signature = read_signature(function, self.name)
        self._shape = f"task {self.name}({outline(self._signature)})"
        given = self._signature.parameters.values()
        self.parameters = frozenset(p.name for p in given if p.kind not in VARIADIC)
        self._required = frozenset(
            p.name for p in given if p.kind not in VARIADIC and p.default is Parameter.empty
        )
        by_place = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        self._positional = [p.name for p in given if p.kind in by_place]
        self._simple = all(p.kind in SIMPLE for p in given)
        self._places = {name: place for place, name in enumerate(self._positional)}
        self._var_positional = next((p.name for p in given if p.kind is VARIADIC[0]), None)
        self._var_keyword = next((p.name for p in given if p.kind is VARIADIC[1]), None)
        self._hints = {p.name: hint_of(p, inner, self.name) for p in given}
        self._decoration = decoration(function)
        self._decoders = {name: self._decoder_of(name) for name in self._hints}
        self._has_optional = len(self._required) < len(self._hints)
        self._decoder = msgspec.json.Decoder(self._struct(), dec_hook=decode_model)
        # How many arguments a call has that passes all parameters by position, where one can.
        plain = self._simple and len(self._positional) == len(self._hints)
        self._all_count = len(self._hints) if plain else -1
        self._every = msgspec.defstruct(self.name, list(self._hints.items()))
        self._read_every = msgspec.json.Decoder(self._every, dec_hook=decode_model).decode

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The payload of a call; `PayloadError` names the parameter that does not fit.

        No error says what an argument is: errors are logged, kept and shown.
        """
        if len(args) == self._all_count and not kwargs:
            payload = self._encode_every(args)
            if payload is not None:
                return payload
        try:
            return self.encode_bound(self.bind(args, kwargs))
        except PayloadError as exc:
            if not self._decoration:
                raise
            raise PayloadError(f"{exc}{self._decoration}") from None

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
            payload = ENCODER.encode(given)
            back = self._read_every(payload)
            if back == given and ENCODER.encode(back) == payload:
                # A short one cannot be too deep: nearly every job's needs no look.
                return payload if len(payload) < MAX_DEPTH or not is_too_deep(payload) else None
        except Exception:
            pass
        return None

    def encode_bound(self, bound: Mapping[str, object]) -> bytes:
        """The payload of what `bind` returned."""
        try:
            payload = ENCODER.encode(bound)
            back = self._read(payload)
            if back == bound and ENCODER.encode(back) == payload and not is_too_deep(payload):
                return payload
        except Exception:
            pass  # the slow path finds out what it was and names the parameter
        return self._encode_slowly(bound)

    def decode(self, payload: bytes) -> tuple[tuple[object, ...], dict[str, object]]:
        """Positional and keyword arguments to call the function with.

        Raises `PayloadError` with the reason for bytes that are not JSON, fields that are
        missing or unknown, and values that do not fit their annotation. What says nothing of the
        payload (no memory, no file left to open, a validator's own error) is raised as it is.
        """
        try:
            values = self._read(payload)
        except Exception as error:
            if not is_unfit(error, payload):
                raise
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

    def _decoder_of(self, name: str) -> msgspec.json.Decoder[Any]:
        try:
            return decoder_of(self._hints[name], f"task {self.name}, parameter {name}")
        except ConfigError as exc:
            raise ConfigError(f"{exc}{self._decoration}") from exc.__cause__

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
            return self._read(ENCODER.encode(fields))
        except Exception as exc:
            if not is_unfit(exc, payload):
                raise
            raise PayloadError(
                f"{self._shape}: the payload does not fit: {misfit(exc)}, given "
                f"{len(payload):,} bytes"
            ) from None

    def _by_position(self, items: list[Raw]) -> dict[str, object]:
        fields: dict[str, object] = dict(zip(self._positional, items, strict=False))
        if rest := items[len(self._positional) :]:
            if self._var_positional is None:
                raise PayloadError(f"{len(items)} positional arguments are too many")
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
                raise PayloadError(f"{where}: there is no such parameter")
            encode_value(value, self._decoders[name], self._hints[name], where)
        if missing := self._required - bound.keys():
            raise PayloadError(f"{self._shape}: {min(missing)} is missing")
        return ENCODER.encode(bound)


def encode_plain(args: Sequence[object] | None, kwargs: Mapping[str, object] | None) -> bytes:
    """The payload for a task whose function is not at hand: all positional or all by keyword.

    Values are those an unannotated parameter takes. Positional arguments make a JSON array,
    keywords (or nothing) an object.
    """
    if args and kwargs:
        raise PayloadError(
            "a payload made without the task's function holds positional or keyword arguments, "
            f"not both, given {len(args)} and {len(kwargs)} of them"
        )
    value: object = list(args) if args else dict(kwargs or {})
    return encode_value(value, PLAIN_DECODER, Any, "arguments", outer=0)
