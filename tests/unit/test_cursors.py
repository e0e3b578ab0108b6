"""Cursors of pages: words that go anywhere, of which only those that a page gave are taken."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import ConfigError
from rota.values.listing import CURSOR_VERSION, cursor_place, cursor_text

LISTINGS = st.sampled_from(["jobs", "dead", "sequences", "lanes"])
PLACES = st.lists(st.binary(max_size=60), min_size=1, max_size=6)


def given_by(listing: str, place: list[bytes]) -> str:
    cursor = cursor_text(listing, place)
    assert cursor is not None
    return cursor


def assert_refused(listing: str, cursor: object) -> None:
    with pytest.raises(ConfigError, match="cursor: expected one that a page gave, given"):
        cursor_place(listing, cursor)


@given(LISTINGS, PLACES)
def test_a_cursor_leads_back_to_its_place_in_its_listing(listing: str, place: list[bytes]) -> None:
    cursor = given_by(listing, place)
    assert re.fullmatch("[A-Za-z0-9_-]+", cursor)
    assert cursor_place(listing, cursor) == place
    assert_refused("another", cursor)


def test_the_start_is_none_and_so_is_the_end() -> None:
    assert cursor_place("jobs", None) == []
    assert cursor_text("jobs", []) is None


@given(LISTINGS, PLACES, st.data())
def test_a_changed_cursor_is_refused(listing: str, place: list[bytes], data: st.DataObject) -> None:
    cursor = given_by(listing, place)
    at = data.draw(st.integers(0, len(cursor)))
    put = data.draw(st.sampled_from(["", *"AZaz09-_=+/ .\n\0é"]))
    drop = data.draw(st.integers(0, 2))
    changed = cursor[:at] + put + cursor[at + drop :]
    if changed != cursor:
        assert_refused(listing, changed)


@given(LISTINGS, st.text() | st.integers() | st.binary() | st.lists(st.text()))
def test_what_no_page_gave_is_refused(listing: str, cursor: object) -> None:
    assert_refused(listing, cursor)


def test_a_cursor_of_another_version_is_refused() -> None:
    read = base64.urlsafe_b64decode(given_by("jobs", [b"abc"]) + "==")
    assert read.startswith(CURSOR_VERSION)
    other = base64.urlsafe_b64encode(b"\x02" + read[1:]).decode().rstrip("=")
    assert_refused("jobs", other)
    assert_refused("jobs", base64.urlsafe_b64encode(b"[" * 100_000).decode())
