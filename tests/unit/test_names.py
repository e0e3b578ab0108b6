"""What may be a name, and what a name must never do: change, or be shared by two."""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import ConfigError
from rota.values import names

NFC, NFD = "café", "cafe\u0301"
RTL = "\u200fabc"

ODD_BUT_FINE = [
    "a:b", "b:c", "}x", " ", "/", "..", "#", "?", "+", "%2F", "*", "[a-z]", "🎉", NFC, NFD, RTL,
    "0", "-1", "paused", "ring", "!x", "a!b", "\u2028", "x" * 200, "é" * 100, "{x}", "}{", ":",
]  # fmt: skip
NEVER: list[object] = [
    "", "\x00", "a\x00b", "a\nb", "\r", "\t", "\x1f", "\x7f", "\x80", "\x9f", "\ud800", "a\udfffb",
    "x" * 201, "é" * 101, "x" * 10_240, None, 1, True, 1.5, b"a", [], UUID(int=1),
]  # fmt: skip


def lane_key(value: object) -> str:
    return names.ordering_key(value, "plain")


KINDS: list[Callable[[object], str]] = [
    names.lane_name,
    lane_key,
    names.job_id,
    names.task_name,
    names.queue_name,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", NEVER, ids=ascii)
def test_a_name_outside_the_rules_is_refused(kind: Callable[[object], str], value: object) -> None:
    with pytest.raises(ConfigError, match="expected 1-200 bytes of text") as caught:
        kind(value)
    assert len(str(caught.value)) < 250
    str(caught.value).encode()


@pytest.mark.parametrize("kind", [names.lane_name, lane_key, names.task_name])
@pytest.mark.parametrize("value", ODD_BUT_FINE, ids=ascii)
def test_an_odd_name_stays_as_it_is(kind: Callable[[object], str], value: str) -> None:
    assert kind(value) == value
    assert kind(value).encode() == value.encode()


BUCKETS = {
    "default": 1872, "t7": 2047, "!billing": 1440, "a:b": 3534, NFC: 3906, NFD: 879, "🎉": 3104,
    "日本": 1101, "x" * 200: 2370,
}  # fmt: skip


def test_a_lane_falls_into_the_bucket_that_is_published() -> None:
    assert {lane: names.bucket(lane) for lane in BUCKETS} == BUCKETS
    published = (Path(__file__).parents[2] / "docs" / "promises.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)`.* \| (\d+) \|$", published, re.MULTILINE)
    assert len(rows) >= 5
    assert {lane: int(number) for lane, number in rows}.items() <= BUCKETS.items()


@given(st.text(min_size=1, max_size=50))
def test_every_lane_has_a_bucket(lane: str) -> None:
    if lane.isprintable():
        assert 0 <= names.bucket(lane) < 4096


@pytest.mark.parametrize("value", ["!", "!x", "!!"])
def test_an_id_does_not_begin_with_an_exclamation_mark(value: str) -> None:
    with pytest.raises(ConfigError, match="not beginning with '!'"):
        names.job_id(value)


@pytest.mark.parametrize("value", ["{x}", "}{", "{", "a}", "a{b"])
def test_queues_and_prefixes_have_no_braces(value: str) -> None:
    for kind in (names.queue_name, names.prefix):
        with pytest.raises(ConfigError, match="without '{' and '}'"):
            kind(value)


@pytest.mark.parametrize("value", ["q:0", "q:12", ":5", "a:b:007"])
def test_a_queue_does_not_end_like_a_shard(value: str) -> None:
    with pytest.raises(ConfigError, match="not ending in ':' and digits"):
        names.queue_name(value)


@pytest.mark.parametrize("value", ["q", "0", "q0", "q:", "q:0a", "a:0:b", "q:٣", "!q", "pay.eu/1"])
def test_other_queue_names_are_fine(value: str) -> None:
    assert names.queue_name(value) == value


def test_a_prefix_has_at_most_50_bytes() -> None:
    assert names.prefix("emq") == "emq"
    assert names.prefix("é" * 25) == "é" * 25
    for value in ("", "x" * 51, "é" * 26, "a\nb", None):
        with pytest.raises(ConfigError, match="expected 1-50 bytes"):
            names.prefix(value)


def test_an_ordered_lane_is_told_by_its_name() -> None:
    assert names.is_ordered_lane("!mail")
    assert not names.is_ordered_lane("mail!")
    assert names.lane_name("!mail") == "!mail"
    with pytest.raises(ConfigError, match="expected a name after the '!'"):
        names.lane_name("!")
    with pytest.raises(ConfigError, match="lane '!mail' is ordered as a whole"):
        names.ordering_key("order-42", "!mail")


@given(st.text(max_size=250))
@settings(deadline=None)
def test_exactly_the_texts_within_the_rules_are_names(value: str) -> None:
    fits = (
        not any(unicodedata.category(char) in ("Cc", "Cs") for char in value)
        and 1 <= len(value.encode("utf-8", "surrogatepass")) <= 200
    )
    if fits:
        assert names.task_name(value) == value
    else:
        with pytest.raises(ConfigError):
            names.task_name(value)


class Color(str, enum.Enum):  # noqa: UP042  # not StrEnum: its str() is the member's name
    RED = "red"


class Level(int, enum.Enum):
    HIGH = 3


@pytest.mark.parametrize("value", [-1000, -1, 0, 1, 5, 1000, Level.HIGH])
def test_priorities_in_the_range_are_kept(value: int) -> None:
    assert names.priority(value) == value
    assert type(names.priority(value)) is int


@pytest.mark.parametrize(
    "value",
    [-(10**9), 10**9, 2**63, 10**5000, -1001, 1001, 1.5, 1.0, "3", True, False, float("nan"), None],
    ids=names.shown,
)
def test_other_priorities_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="integer from -1000 to 1000"):
        names.priority(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("t7", "t7"),
        (0, "0"),
        (-42, "-42"),
        (2**64, "18446744073709551616"),
        (Color.RED, "red"),
        (Level.HIGH, "3"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_a_parameters_value_becomes_a_name(value: object, text: str) -> None:
    assert names.as_name(value, "lane_from 'tenant'") == text
    assert type(names.as_name(value, "lane")) is str


@pytest.mark.parametrize(
    "value", [None, "", True, False, 1.0, b"t7", ["t7"], {}, 10**5000], ids=names.shown
)
def test_other_values_do_not(value: object) -> None:
    with pytest.raises(ConfigError, match="lane_from 'tenant': expected non-empty text"):
        names.as_name(value, "lane_from 'tenant'")


def test_a_text_enum_is_its_value() -> None:
    assert names.lane_name(Color.RED) == "red"
    assert type(names.lane_name(Color.RED)) is str


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000, "\ud800" * 90, [[["deep"] * 99] * 99] * 99, 10**5000, Hostile(), Hostile],
    ids=["long", "surrogates", "nested", "huge int", "no repr", "class"],
)
def test_what_a_message_shows_is_short(value: object) -> None:
    text = names.shown(value)
    assert 0 < len(text) <= 60
    text.encode()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain ü ☃ 日本", "plain ü ☃ 日本"),
        ("wide\u3000and\u00a0hard", "wide\u3000and\u00a0hard"),
        ("\x1b[2J\x9b\r\n\t\x7f", r"\x1b[2J\x9b\r\n\t\x7f"),
        ("\u202e\u2066\u200e\u200b\u2028\ufeff", r"\u202e\u2066\u200e\u200b\u2028\ufeff"),
        ("\ud83d\U000e0001", r"\ud83d\U000e0001"),
    ],
)
def test_what_is_not_printable_is_seen(text: str, seen: str) -> None:
    assert names.visible(text) == seen
    assert names.visible(f"a\n{text}", keep="\n\t") == "a\n" + seen.replace("\\n", "\n").replace(
        "\\t", "\t"
    )


def test_bytes_that_are_no_text_are_read() -> None:
    assert names.text_of("ü☃".encode() + b"\xff\xc0\xaf\xed\xa0\x80") == (
        r"ü☃\xff\xc0\xaf\xed\xa0\x80"
    )
