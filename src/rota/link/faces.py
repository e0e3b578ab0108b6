"""Verbs that are written once, as operations, for those who await and those who block.

    class LaneVerbs:
        @verb
        def resume(self) -> Operation[bool]: ...

    class Lane(LaneVerbs, AsyncFace): ...  # await lane.resume()

    class SyncLane(LaneVerbs, BlockingFace): ...  # lane.resume()

Each face gets a function of its own for each verb, with its signature and its docstring: a
coroutine function on the one, a plain one on the other. Type checkers go by `verb.__get__`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, overload

from rota.link.link import Link
from rota.script.loader import Operation

P = ParamSpec("P")
T = TypeVar("T")


class verb(Generic[P, T]):  # noqa: N801 (it is read as a decorator)
    """A method that returns an operation; what is called is what a face makes of it."""

    announces: ClassVar = True
    """Before it the server is told what code has set; see `Link.run`."""

    def __init__(self, method: Callable[Concatenate[Any, P], Operation[T]]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, face: AsyncFace, of: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, face: BlockingFace, of: type) -> Callable[P, T]: ...

    def __get__(self, face: object, of: type) -> Any:
        raise AttributeError(f"{of.__name__} is no face: {self.method.__name__} cannot be called")


class look(verb[P, T]):  # noqa: N801
    """A verb that leaves nothing on the server."""

    announces = False


class AsyncFace:
    """Base of a class whose verbs are coroutine functions."""

    _link: Link

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for one in _verbs_of(cls):
            _add(cls, one.method, _awaited(one))


class BlockingFace:
    """Base of a class whose verbs return when they are done."""

    _link: Link

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for one in _verbs_of(cls):
            _add(cls, one.method, _blocking(one))


def _awaited(one: verb[..., Any]) -> Callable[..., object]:
    async def carry_out(face: AsyncFace, *args: Any, **kwargs: Any) -> Any:
        operation = one.method(face, *args, **kwargs)
        return await face._link.run(operation, announce=one.announces)

    return carry_out


def _blocking(one: verb[..., Any]) -> Callable[..., object]:
    def carry_out(face: BlockingFace, *args: Any, **kwargs: Any) -> Any:
        operation = one.method(face, *args, **kwargs)
        return face._link.run_sync(operation, announce=one.announces)

    return carry_out


def _verbs_of(face: type) -> list[verb[..., Any]]:
    found = [inspect.getattr_static(face, name) for name in dir(face)]
    return [one for one in found if isinstance(one, verb)]


def _add(
    face: type, method: Callable[..., Operation[Any]], carry_out: Callable[..., object]
) -> None:
    """Gives the face the function, which looks like the method but for what it returns."""
    result = str(method.__annotations__["return"]).removeprefix("Operation[").removesuffix("]")
    functools.update_wrapper(carry_out, method)
    carry_out.__qualname__ = f"{face.__qualname__}.{method.__name__}"
    carry_out.__annotations__ = method.__annotations__ | {"return": result}
    signature = inspect.signature(method).replace(return_annotation=result)
    setattr(carry_out, "__signature__", signature)  # noqa: B010 (checkers do not know it)
    setattr(face, method.__name__, carry_out)
