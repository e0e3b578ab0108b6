"""The key module: Python builders and Lua helpers agree, and two names never share a key."""

from __future__ import annotations

import unicodedata
from functools import cache

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rota.script.includes import INCLUDES
from rota.script.keys import CATALOGUE, Keys, lua_helpers
from tests.support.catalogue import is_known, sequence_name
from tests.support.servers import Server

NFC, NFD = "café", unicodedata.normalize("NFD", "café")
ODD = ["a:b", "a", "b:c", "{x}", "}{", " ", "%s", "%0", "\\1", "'", '"', "]]", "🎉", NFC, NFD, "0"]

text = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=50)
names = st.sampled_from(ODD) | text
outer = names.filter(lambda name: "{" not in name and "}" not in name)

WITH_ARGUMENT = [kind for kind in CATALOGUE if kind.parameter]


@cache
def _program() -> str:
    """Answers every key of the catalogue as the Lua helpers build it, and one sequence's name."""
    calls = [
        f"k_{kind.name}(ARGV[1])" if kind.parameter else f"k_{kind.name}" for kind in CATALOGUE
    ]
    body = INCLUDES["sequence_name"].body
    body += f"return {{ {', '.join(calls)}, sequence_of(ARGV[1], ARGV[2]),"
    body += " table.concat({ split_sequence(sequence_of(ARGV[1], ARGV[2])) }, '\\n') }"
    return "#!lua flags=no-writes\n" + lua_helpers(body) + "\n" + body


@pytest.fixture
def raw(valkey: Server) -> redis.Redis:
    client: redis.Redis = valkey.raw()
    return client


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(queue=outer, prefix=outer, name=names, other=names)
@example(queue="q", prefix="emq", name="a:b", other="c")
@example(queue="q", prefix="emq", name="{id}", other="{lane}")
def test_python_and_lua_build_the_same_keys(
    raw: redis.Redis, queue: str, prefix: str, name: str, other: str
) -> None:
    keys = Keys(queue, prefix)
    *built, sequence, parts = raw.eval(_program(), 2, keys.config, keys.none, name, other)
    for kind, key in zip(CATALOGUE, built, strict=True):
        assert key == keys.key(kind.name, name if kind.parameter else None), kind.name
        assert is_known(key), key
    assert sequence == sequence_name(name, other)
    assert parts.split("\n") == [name, other]


@given(first=st.tuples(names, names), second=st.tuples(names, names))
@example(first=("a", "b:c"), second=("a:b", "c"))
@example(first=("1:a", "b"), second=("1", "a:b"))
@example(first=(NFC, "k"), second=(NFD, "k"))
def test_two_sequences_never_share_a_name(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert (sequence_name(*first) == sequence_name(*second)) == (first == second)


@given(queue=outer, name=names, other=names)
def test_two_names_never_share_a_key(queue: str, name: str, other: str) -> None:
    keys = Keys(queue)
    seen: dict[str, tuple[str, str]] = {
        keys.key(kind.name): (kind.name, "") for kind in CATALOGUE if kind.parameter is None
    }
    for kind in WITH_ARGUMENT:
        for argument in {name, other}:
            key = keys.key(kind.name, argument)
            assert key not in seen, f"{kind.name} {argument!r} and {seen[key]} share {key!r}"
            seen[key] = (kind.name, argument)


@given(queue=outer, other=outer, name=names)
def test_two_queues_never_share_a_key(queue: str, other: str, name: str) -> None:
    if queue != other:
        mine, theirs = Keys(queue), Keys(other)
        for kind in CATALOGUE:
            argument = name if kind.parameter else None
            assert mine.key(kind.name, argument) != theirs.key(kind.name, argument)


def test_all_keys_of_a_queue_share_its_hash_tag() -> None:
    keys = Keys("orders", "shop")
    assert keys.config == "shop:{orders}:config"
    assert keys.key("pending", "t7") == "shop:{orders}:g:t7:pending"
    assert keys.key("sequence", sequence_name("t7", "k")) == "shop:{orders}:s:2:t7:k"
    assert (keys.wake, keys.none) == ("shop:{orders}:wake", "shop:{orders}:none")


@pytest.mark.parametrize(
    "key",
    ["", "x", "emq:{q}:", "emq:{q}:ringx", "emq:{q}:g::pending", "emq:{q}:job:", "emq:q:ring",
     "emq:{}:ring", "{q}:ring", "emq:{q}:g:a:other", "emq:{a{b}:ring"],
)  # fmt: skip
def test_a_key_of_another_shape_is_not_known(key: str) -> None:
    assert not is_known(key)


def test_a_key_kind_with_a_parameter_asks_for_it() -> None:
    with pytest.raises(TypeError, match="key pending needs its lane"):
        Keys("q").key("pending")
    with pytest.raises(KeyError):
        Keys("q").key("no-such-kind")


def test_helpers_come_only_for_the_keys_a_script_mentions() -> None:
    assert lua_helpers("return 1").splitlines()[1:] == []
    helpers = lua_helpers("redis.call('GET', k_vt)")
    assert "local k_vt = root .. 'vt'" in helpers
    assert "k_ring" not in helpers


def test_a_key_the_catalogue_does_not_know_fails_when_a_script_is_assembled() -> None:
    with pytest.raises(LookupError, match="no such key in the catalogue: bogus, other"):
        lua_helpers("redis.call('GET', k_bogus, k_vt, k_other)")
