"""A task beside the function it is made of: its name, its signature, its way through pickle."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import re
import typing
from typing import Any
from unittest import mock

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


@pytest.mark.parametrize(
    ("owner", "names", "ours"),
    [
        (charge, ["delay", "send", "kiq", "defer"], "await task.enqueue(…)"),
        (charge, ["apply_async", "enqueue_in", "enqueue_at"], "task.options(lane=…, delay=…)"),
        (charge, ["s", "signature", "message"], "task.spec(…)"),
        (charge, ["map"], "queue.enqueue_many("),
        (charge, ["apply", "call_local"], "task(…)"),
        (charge.options(lane="a"), ["delay"], "task.enqueue(…)"),
        (charge.sync, ["delay", "send"], "task.sync.enqueue(…)"),
        (queue, ["delay", "send_task", "add", "put"], "await task.enqueue(…)"),
        (queue, ["enqueue_in", "enqueue_at"], "task.options(lane=…, delay=…)"),
        (queue.sync, ["add"], "task.sync.enqueue(…)"),
        (queue, ["actor"], "@queue.task"),
        (queue, ["worker", "run"], "rota.Worker(queue).run()"),
        (rota.Worker(queue), ["start", "work"], "await worker.run()"),
        (rota.Worker(queue), ["shutdown"], "worker.stop()"),
    ],
)
def test_verbs_of_other_libraries_lead_to_ours(owner: object, names: list[str], ours: str) -> None:
    for name in names:
        with pytest.raises(AttributeError, match=re.escape(ours)) as caught:
            getattr(owner, name)
        assert (caught.value.name, caught.value.obj) == (name, owner)
        assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        owner.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_whoever_asks_for_attributes_finds_those_there_are() -> None:
    enqueuer = charge.options(lane="a")
    assert copy.copy(enqueuer).spec("t7").lane == "a"
    for thing in (charge, enqueuer, queue, queue.sync, rota.Worker(queue)):
        assert inspect.getmembers(thing)
        mock.create_autospec(thing)
        assert not hasattr(thing, "__deepcopy__")
        assert not hasattr(type(thing).__new__(type(thing)), "delay")


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((charge, "t7"), {}, "given a Task.*await task.enqueue(…)"),
        ((charge,), {"tenant": "t7"}, "await task.enqueue(…)"),
        ((add, 1), {}, "await task.enqueue(…)"),
        (("charge", "t7"), {}, "expected a rota.JobSpec"),
        ((charge.spec("t7"), "t7"), {}, "given also 't7'.*task.options(…).spec(…)"),
        ((charge.spec("t7"),), {"lane": "a"}, "given also lane.*task.options(…).spec(…)"),
    ],
)
async def test_a_queue_takes_one_spec(args: Any, kwargs: Any, said: str) -> None:
    pattern = said.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(rota.ConfigError, match=pattern):
        await queue.enqueue(*args, **kwargs)
    with pytest.raises(rota.ConfigError, match=pattern):
        queue.sync.enqueue(*args, **kwargs)


def test_a_task_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(charge)) is charge
    assert copy.deepcopy([charge]) == [charge]
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(rota.Queue("orders").task(add))  # `add` is the function itself
