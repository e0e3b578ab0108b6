"""What a task's function says of its arguments: its signature, and the type each one travels as."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from rota.errors import ConfigError
from rota.names import shown

VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def inner_function(function: object) -> types.FunctionType:
    """The function under partials, decorators and methods; ConfigError where there is none."""
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


def read_signature(function: Callable[..., object], task: str) -> Signature:
    """As it is called, less what a partial has filled in; ConfigError where it cannot be read."""
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


def outline(signature: Signature) -> str:
    """Its parameters as messages show them, without annotations and defaults."""
    stars: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
    return ", ".join(stars.get(p.kind, "") + p.name for p in signature.parameters.values())


def names_of(signature: Signature, kind: object) -> tuple[str, ...]:
    return tuple(p.name for p in signature.parameters.values() if p.kind is kind)


def hint_of(parameter: Parameter, function: types.FunctionType, task: str) -> Any:
    """The type of the parameter's field in the payload; ConfigError where it does not resolve."""
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
    if parameter.kind not in VARIADIC:
        return hint
    if typing.get_origin(hint) is typing.Unpack:
        return typing.get_args(hint)[0]
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return types.GenericAlias(tuple, (hint, ...))
    return types.GenericAlias(dict, (str, hint))
