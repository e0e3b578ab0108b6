"""Replies of many fields: Python and Lua name the same ones in the same order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rota.script import replies

LUA = Path(replies.__file__).parent / "lua"
SHAPES: dict[str, type[tuple[object, ...]]] = {
    "exchange": replies.ExchangeReply,
    "queue_info": replies.QueueReply,
    "consumers_page": replies.ConsumerReply,
    "lane_rows": replies.LaneReply,
    "job_rows": replies.JobReply,
    "sequence_row": replies.SequenceReply,
    "findings": replies.FindingReply,
}


def said_in_lua() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in LUA.rglob("*.lua"):
        lines = re.findall(r"^-- fields:(.*)$", file.read_text(), re.MULTILINE)
        if lines:
            found[file.stem] = " ".join(lines).split()
    return found


def test_every_shape_is_declared_on_both_sides() -> None:
    assert said_in_lua().keys() == SHAPES.keys()


@pytest.mark.parametrize("name", SHAPES)
def test_the_order_of_fields_is_the_same(name: str) -> None:
    assert said_in_lua()[name] == list(getattr(SHAPES[name], "_fields"))  # noqa: B009
