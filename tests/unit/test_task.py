"""A task beside the function it is made of: its name, its signature, its way through pickle."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import typing

import pytest

import rota

queue = rota.Queue("orders")


@queue.task(name="orders.charge", lane_from="tenant")
async def charge(tenant: str, cents: int = 0) -> int:
    """Takes the money."""
    return cents


def add(n: int, *more: int) -> int:
    return n + sum(more)


def test_a_task_looks_like_its_function() -> None:
    assert charge.name == "orders.charge"
    assert (charge.__name__, charge.__qualname__) == ("charge", "charge")
    assert charge.__module__ == __name__
    assert charge.__doc__ == inspect.getdoc(charge) == "Takes the money."
    assert inspect.unwrap(charge) is charge.function
    assert str(inspect.signature(charge)) == "(tenant: 'str', cents: 'int' = 0) -> 'int'"
    assert typing.get_type_hints(charge.function) == {"tenant": str, "cents": int, "return": int}
    assert inspect.getsource(charge.function) in inspect.getsource(inspect.getmodule(charge) or add)


def test_a_partial_is_named_like_its_task() -> None:
    task = rota.Queue("orders").task(name="three")(functools.partial(add, 3))
    assert (task.__name__, task.__qualname__) == ("three", "three")
    assert str(inspect.signature(task)) == "(*more: 'int') -> 'int'"
    assert task(1) == 4


def test_what_a_function_carries_hides_no_verb() -> None:
    def work() -> None: ...

    work.enqueue = work.name = work.policy = "its own"  # type: ignore[attr-defined]
    task = rota.Queue("orders").task(max_attempts=2)(work)
    assert callable(task.enqueue)
    assert (task.name, task.policy.max_attempts) == ("work", 2)


def test_a_task_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(charge)) is charge
    assert copy.deepcopy([charge]) == [charge]
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(rota.Queue("orders").task(add))  # `add` is the function itself
