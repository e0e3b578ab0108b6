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
from rota.values.names import shown

SIMPLE = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
"""Kinds of parameters that may all be given by name, one value each."""
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
        raise ConfigError(
            f"task: one is made from a function, given {shown(function)}{_way(function)}"
        )
    if _is_method(function, inner):
        raise ConfigError(
            f"task {inner.__name__}: a method cannot be a task, for jobs carry no object: make it "
            "a function of the module, or register the method of one object: "
            f"queue.task(the_object.{inner.__name__})"
        )
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigError(f"task {inner.__name__}: a generator function cannot be a task")
    return inner


def _way(function: object) -> str:
    """What can be done instead."""
    if isinstance(function, classmethod):
        return (
            ", a classmethod: make it a function of the module, or register it when its class "
            f"stands: queue.task(TheClass.{function.__func__.__name__})"
        )
    if isinstance(function, type):
        return ", a class: make it a function of the module that uses the class"
    return ": make it a function of the module that calls it" if callable(function) else ""


def _is_method(function: object, inner: types.FunctionType) -> bool:
    """Whether its first parameter is the object whose class is just being made."""
    home = inner.__qualname__.rpartition(".")[0]
    if not home or home.endswith("<locals>") or not isinstance(function, types.FunctionType):
        return False
    return inner.__code__.co_varnames[: inner.__code__.co_argcount][:1] in (("self",), ("cls",))


def decoration(function: object) -> str:
    """What to know of a signature that is not the function's own, '' where it is: a decorator made
    with `functools.wraps` shows that of the function it wraps, also where it fills in a part."""
    own = vars(function) if isinstance(function, types.FunctionType) else {}
    if "__wrapped__" not in own or "__signature__" in own:
        return ""
    return (
        ". This is the signature of the function under its decorator (functools.wraps); a "
        "decorator that passes arguments of its own says what is left to pass: "
        "wrapper.__signature__ = inspect.signature(function).replace(parameters=[…])"
    )


def read_signature(function: Callable[..., object], task: str) -> Signature:
    """As it is called, less what a partial has filled in; ConfigError where it cannot be read, or a
    decorator does not take what it shows."""
    try:
        signature = inspect.signature(function)
    except (NameError, TypeError, ValueError) as exc:
        raise ConfigError(f"task {task}: its signature cannot be read: {exc}") from exc
    if decoration(function):
        _check_decorator(function, signature, task)
    for name in signature.parameters:
        if name.startswith("__"):
            raise ConfigError(
                f"task {task}, parameter {name}: names beginning with __ are reserved"
            )
    return signature


def _check_decorator(function: Callable[..., object], shows: Signature, task: str) -> None:
    needed = [
        parameter
        for parameter in shows.parameters.values()
        if parameter.kind not in VARIADIC and parameter.default is Parameter.empty
    ]
    by_place = [None for parameter in needed if parameter.kind not in SIMPLE]
    by_name = {p.name: None for p in needed if p.kind in SIMPLE}
    try:
        inspect.signature(function, follow_wrapped=False).bind(*by_place, **by_name)
    except TypeError as exc:
        raise ConfigError(
            f"task {task}({outline(shows)}): its decorator cannot be called so: {exc}"
            f"{decoration(function)}"
        ) from None


def outline(signature: Signature) -> str:
    """Its parameters as messages show them, without annotations and defaults."""
    stars: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
    return ", ".join(stars.get(p.kind, "") + p.name for p in signature.parameters.values())


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
