"""A job that a task makes is the one its fields would make, checked as those are."""

from __future__ import annotations

import pickle
from copy import deepcopy
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

import rota
from rota.values.jobspec import decode_header

QUEUE = rota.Queue("specs", url="unix:///nowhere")
NAMES = st.text(max_size=12) | st.sampled_from(
    ["!", "!l", "l" * 201, "\x00", '"', "\\", "é", "\ud800"]
)


@QUEUE.task(lane_from="lane", ordering_key_from="key", id_from="id", max_attempts=7, cost=2)
def all_from(lane: str, key: str, id: str) -> None: ...


@QUEUE.task(lane_from="lane", on_dead="hold", timeout=5)
def lane_from(lane: str, rest: Any) -> None: ...


def made(make: Any) -> object:
    """The spec, or the error instead."""
    try:
        return make()
    except rota.RotaError as error:
        return type(error), str(error)


@given(NAMES, NAMES, NAMES)
def test_names_from_parameters_are_checked_as_given_ones_are(lane: str, key: str, id: str) -> None:
    got = made(lambda: all_from.spec(lane, key, id))
    if isinstance(got, rota.JobSpec):
        assert (got.lane, got.ordering_key, got.id) == (lane, key, id)
        assert rota.JobSpec(**asdict(got)) == got
    elif "_from=" not in str(got) and "parameter" not in str(got):  # not a value that is no name
        fields: dict[str, Any] = {"lane": lane, "ordering_key": key, "id": id}
        assert made(lambda: rota.JobSpec(task="all_from", **fields)) == got


@given(
    NAMES.filter(bool),
    st.integers(-1000, 1000),
    st.none() | st.integers(1, 10**6),
    st.none() | st.sampled_from([0.5, 3]),
)
def test_what_a_spec_says_is_what_it_would_say_made_by_hand(
    lane: str, priority: int, delay: int | None, cost: float | None
) -> None:
    got = made(lambda: lane_from.options(priority=priority, delay=delay, cost=cost).spec(lane, 1))
    if not isinstance(got, rota.JobSpec):
        return
    again = rota.JobSpec(
        task="lane_from",
        payload=got.payload,
        lane=lane,
        priority=priority,
        delay_ms=(delay or 0) * 1000,
        id=got.id,
        on_dead="hold",
        timeout=5.0,
        cost=1 if cost is None else cost,
    )
    assert got == again
    assert got.body == again.body
    header = decode_header(got.body.partition(b"\n")[0])
    assert (header.task, header.lane, header.priority) == ("lane_from", lane, priority)


class Text(str):
    """No plain text: nothing that reads it later need know what it is."""


class Word(StrEnum):
    HOLD = "hold"
    TIME = "time"


TRACE = "00-" + "0" * 32 + "-" + "0" * 16 + "-00"


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"on_dead": Text("skip")}, {"on_dead": "skip"}),
        ({"on_dead": Word.HOLD, "charge": Word.TIME}, {"on_dead": "hold", "charge": "time"}),
        ({"charge": Text("cost")}, {"charge": "cost"}),
        ({"trace": Text(TRACE)}, {"trace": TRACE}),
        ({"task": Text("t"), "lane": Text("l")}, {"task": "t", "lane": "l"}),
    ],
)
def test_words_travel_as_plain_text_whatever_they_were(
    given: dict[str, Any], plain: dict[str, Any]
) -> None:
    spec = rota.JobSpec(**{"task": "t", "id": "i", **given})
    assert spec == rota.JobSpec(**{"task": "t", "id": "i", **plain})
    decode_header(spec.body.partition(b"\n")[0])
    assert {type(getattr(spec, name)) for name in plain} == {str}


def test_specs_of_one_enqueuer_share_nothing_that_differs() -> None:
    first, second = lane_from.spec("a", 1), lane_from.spec("b", 2)
    assert (first.lane, first.payload) == ("a", b'{"lane":"a","rest":1}')
    assert (second.lane, second.payload) == ("b", b'{"lane":"b","rest":2}')
    assert first.id != second.id


def test_a_spec_does_not_change_and_travels() -> None:
    spec = lane_from.spec("a", 1)
    with pytest.raises(AttributeError):
        spec.lane = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        rota.JobSpec("t")  # type: ignore[call-arg]
    assert pickle.loads(pickle.dumps(spec)) == deepcopy(spec) == spec
    assert hash(pickle.loads(pickle.dumps(spec))) == hash(spec)
    assert repr(rota.JobSpec(task="t", id="i")).startswith("JobSpec(task='t', payload=b'{}', lane=")
