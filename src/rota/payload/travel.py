"""What may travel as JSON, and come back as what it was.

One rule decides: the encoded value is decoded again at once and must be equal to the one given,
down to the bytes it encodes to. The exceptions: an int may stand for a float it equals, a set
has no order, and an aware datetime counts as its instant. So nothing that is accepted at enqueue
can be refused, rounded or converted at run.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Iterator, Sequence, Set
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.inspect import CustomType, DictType, Field, Type, type_info

from rota.errors import ConfigError, PayloadError
from rota.values.misfit import MAX_REASON, misfit
from rota.values.names import shown

MAX_DEPTH = 200
"""Most lists and objects inside one another, the payload itself counted: far below the depth
at which the interpreter gives up, which depends on who calls."""

PLAIN = "None, bool, int, finite float, str, list or dict with str keys"

_STRINGS = re.compile(rb'"[^"]*"')
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels, or cyclic"


def encode_value(
    value: object, decoder: msgspec.json.Decoder[Any], hint: Any, where: str, outer: int = 1
) -> bytes:
    """`value` as JSON, for a place with `outer` levels of the payload around it.

    PayloadError says `where`, what `hint` expects, of which type the value is and why that cannot
    travel. It never says the value: errors are logged, kept and shown, where arguments may not be.
    """
    try:
        payload = ENCODER.encode(value)
        reason = _TOO_DEEP if is_too_deep(payload, outer) else None
        if reason is None and not _same(value, back := decoder.decode(payload)):
            other = "another" if type(back) is type(value) else "a"
            reason = f"comes back as {other} {type(back).__name__}"
    except RecursionError:
        reason = _TOO_DEEP
    except UnicodeEncodeError:
        reason = "text with a lone surrogate"
    except Exception as exc:
        reason = misfit(exc)
    if reason is None:
        return payload
    if reason is not _TOO_DEEP and _holds_nonfinite(value):
        reason = "NaN and infinity cannot travel"
    expected = PLAIN if hint is Any else _spelled(hint)
    raise PayloadError(f"{where}: expected {expected}, given a {type(value).__name__}: {reason}")


def decoder_of(hint: Any, where: str) -> msgspec.json.Decoder[Any]:
    """ConfigError where nothing of this type can travel."""

    def unfit(why: str) -> ConfigError:
        expected = f"{where}: expected an annotation that can travel as JSON"
        return ConfigError(f"{expected}, given {_spelled(hint)}{why}")

    try:
        misfits = {shown(cls) for cls in _misfits(type_info(hint), set())}
        decoder = msgspec.json.Decoder(hint, dec_hook=decode_model)
    except Exception as exc:
        raise unfit(f": {_cut(str(exc) or type(exc).__name__)}") from exc
    if misfits:
        raise unfit(f", which holds {', '.join(sorted(misfits))}")
    return decoder


def _spelled(hint: object) -> str:
    return _cut(inspect.formatannotation(hint))


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


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REASON else text[:MAX_REASON] + "..."


def is_unfit(error: Exception, payload: bytes) -> bool:
    """Whether the error, met in decoding, says that the payload is bad: those are what validators
    raise for it. Any other is the environment's, or a validator's own."""
    if isinstance(error, RecursionError):
        return is_too_deep(payload)
    return isinstance(error, ValueError | TypeError | AssertionError)


def is_too_deep(payload: bytes, outer: int = 0) -> bool:
    """Whether lists and objects nest deeper than `MAX_DEPTH`, `outer` levels of it spent."""
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
    if given == back and _encode_alike(given, back):
        return True
    if isinstance(given, set | frozenset) and isinstance(back, set | frozenset):
        return len(given) == len(back) and all(_same(*pair) for pair in _pairs(given, back))
    if type(given) is not type(back):
        return False
    if isinstance(given, dict) and isinstance(back, dict):
        return _same(list(given.items()), list(back.items()))
    if isinstance(given, list | tuple) and isinstance(back, list | tuple):
        return len(given) == len(back) and all(map(_same, given, back))
    if _is_model(type(given)):
        parts = zip(_parts_of_model(given), _parts_of_model(back), strict=True)
        return given == back or all(one == other or _same(one, other) for one, other in parts)
    fields = _field_names(given)
    return bool(fields) and all(_same(getattr(given, f), getattr(back, f)) for f in fields)


def _encode_alike(given: object, back: object) -> bool:
    try:
        return ENCODER.encode(given) == ENCODER.encode(back)
    except TypeError:  # of a kind that only the model knows in which it stands
        return True


def _pairs(given: Set[object], back: Set[object]) -> Iterator[tuple[object, object]]:
    """Which items of two sets may be the same."""
    if given == back:
        twins = {item: item for item in back}
        return ((item, twins[item]) for item in given)
    # An instant is not equal to itself in another zone, yet encoded alike.
    return zip(*(sorted(items, key=ENCODER.encode) for items in (given, back)), strict=True)


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


# --- pydantic models, known by their methods so that pydantic is never imported here


def _is_model(cls: object) -> bool:
    return hasattr(cls, "model_validate") and hasattr(cls, "model_fields")


def _parts_of_model(model: Any) -> list[object]:
    """What its own `==` compares."""
    values = [getattr(model, name) for name in type(model).model_fields]
    return [*values, model.model_extra, getattr(model, "__pydantic_private__", None)]


def encode_model(value: Any) -> object:
    """What msgspec cannot encode itself; TypeError for what is no model."""
    if isinstance(value, type) or not _is_model(type(value)):
        raise TypeError(f"objects of type {type(value).__name__} cannot travel")
    return value.model_dump(mode="json", by_alias=True, round_trip=True)


def decode_model(cls: Any, value: object) -> object:
    """The model of a decoded value, validated."""
    if not _is_model(cls):
        return value
    try:
        return cls.model_validate_json(msgspec.json.encode(value))
    except ValueError as exc:
        raise PayloadError(_misfit_of_model(cls, exc)) from None


def _misfit_of_model(cls: Any, exc: ValueError) -> str:
    """What kinds of errors pydantic found, and in which of the model's fields."""
    found: list[dict[str, Any]] = getattr(exc, "errors", list)()
    fields = cls.model_fields
    known = {*fields, *(getattr(field, "alias", None) for field in fields.values())}
    told = []
    for one in found:
        first = next(iter(one["loc"]), None)
        told.append(f"{one['type']} in {first}" if first in known else str(one["type"]))
    return f"{cls.__name__}: {', '.join(dict.fromkeys(told)) or type(exc).__name__}"


ENCODER = msgspec.json.Encoder(enc_hook=encode_model)
PLAIN_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Any)
