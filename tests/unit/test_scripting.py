"""The script loader: headers, stubs, includes, and the flags of design section 6."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from rota.script import includes, loader, stubs
from rota.script.keys import Keys
from rota.script.loader import BOUND, LIBRARY, Call, Library, Packed, Reply, Script, Tail
from rota.store import Store
from rota.values.jobspec import JobSpec

FOLDER = Path(str(files("rota.script") / "lua"))
SHIPPED = sorted(path.name.removesuffix(".lua") for path in FOLDER.iterdir() if path.is_file())
KEYS = Keys("q")


@pytest.fixture
def lua(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A folder of scripts in memory, path → text; what is bound meanwhile is forgotten."""
    texts: dict[str, str] = {}
    bound = dict(BOUND)
    monkeypatch.setattr(loader, "_read", texts.__getitem__)
    loader.load.cache_clear()
    yield texts
    loader.load.cache_clear()
    BOUND.clear()
    BOUND.update(bound)


def _raw(reply: Reply) -> Reply:
    return reply


# ── headers ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "first line must be '#!lua'"),
        ("-- resend: yes\n", "first line must be '#!lua'"),
        ("#!lua flags=allow-oom, no-writes\n-- resend: yes\n", "first line must be '#!lua'"),
        ("#!lua flags=\n-- resend: yes\n", "first line must be '#!lua'"),
        ("#!LUA\n-- resend: yes\n", "first line must be '#!lua'"),
        ("#!lua\nreturn 1\n", "header needs '-- resend: yes', 'no' or 'receipt'"),
        ("#!lua\n-- resend:\n", "header needs '-- resend: yes'"),
        ("#!lua\n-- resend: perhaps\n", "header needs '-- resend: yes'"),
        ("#!lua\n-- resend: yes no\n", "header needs '-- resend: yes'"),
    ],
)
def test_a_wrong_header_fails_at_import(lua: dict[str, str], text: str, complaint: str) -> None:
    lua["odd.lua"] = text
    with pytest.raises(ValueError, match=f"odd.lua: {re.escape(complaint)}"):
        loader.load("odd")


def test_a_header_is_read(lua: dict[str, str]) -> None:
    lua["odd.lua"] = "#!lua flags=allow-oom\n-- include: a b\n-- args: x y\n-- resend: no\nreturn x"
    script = loader.load("odd")
    assert script.flags == "#!lua flags=allow-oom"
    assert (script.includes, script.arguments, script.resend) == (("a", "b"), ("x", "y"), False)


def test_a_missing_script_fails_at_import() -> None:
    def no_such_script(keys: Keys) -> None: ...

    with pytest.raises(FileNotFoundError):
        loader.script(_raw)(no_such_script)


# ── stubs ───────────────────────────────────────────────────────────────────────────────────


def wrong_order(keys: Keys, *, number: int, name: str) -> None: ...
def one_missing(keys: Keys, *, name: str) -> None: ...
def one_more(keys: Keys, *, name: str, number: int, more: int) -> None: ...
def renamed(keys: Keys, *, name: str, count: int) -> None: ...


@pytest.mark.parametrize("stub", [wrong_order, one_missing, one_more, renamed])
def test_a_stub_that_does_not_fit_its_file_fails_at_import(
    lua: dict[str, str], stub: Callable[..., None]
) -> None:
    lua[f"{stub.__name__}.lua"] = "#!lua\n-- args: name number\n-- resend: yes\nreturn 1"
    with pytest.raises(TypeError, match=rf"{stub.__name__}\.lua takes \('name', 'number'\)"):
        loader.script(_raw)(stub)
    assert stub.__name__ not in BOUND


def early_tail(keys: Keys, *, bodies: Tail, name: str) -> None: ...


def test_a_tail_is_the_last_argument(lua: dict[str, str]) -> None:
    lua["early_tail.lua"] = "#!lua\n-- args: bodies name\n-- resend: yes\nreturn 1"
    with pytest.raises(TypeError, match="a Tail must be the last argument"):
        loader.script(_raw)(early_tail)


def unknown_type(keys: Keys, *, name: list[str]) -> None: ...


def test_an_argument_of_a_type_that_cannot_be_bound_fails_at_import(lua: dict[str, str]) -> None:
    lua["unknown_type.lua"] = "#!lua\n-- args: name\n-- resend: yes\nreturn 1"
    with pytest.raises(KeyError):
        loader.script(_raw)(unknown_type)


def bound(
    keys: Keys, *, name: str, n: int, x: float, yes: bool, table: Packed, rest: Tail
) -> None: ...


def test_arguments_become_locals_of_their_name_and_type(lua: dict[str, str]) -> None:
    lua["bound.lua"] = "#!lua\n-- args: name n x yes table rest\n-- resend: yes\nreturn n"
    call: Call[Any] = loader.script(_raw)(bound)(
        KEYS, name="a", n=3, x=0.1, yes=True, table=Packed([1]), rest=Tail([b"p", b"q"])
    )
    assert call.script.binding.splitlines() == [
        "local home = ARGV[1]",
        "local name = ARGV[2]",
        "local n = tonumber(ARGV[3])",
        "local x = tonumber(ARGV[4])",
        "local yes = ARGV[5] == '1'",
        "local table = cmsgpack.unpack(ARGV[6])",
        "local rest = {unpack(ARGV, 7)}",
    ]
    assert call.args == ["", "a", "3", "0.1", "1", b"\x91\x01", b"p", b"q"]


def test_a_call_in_an_operation_gives_its_decoded_reply(lua: dict[str, str]) -> None:
    lua["bound.lua"] = "#!lua\n-- args: name n x yes table rest\n-- resend: yes\nreturn n"
    call = loader.script(int)(bound)(
        KEYS, name="a", n=3, x=0.1, yes=True, table=Packed([1]), rest=Tail([])
    )
    steps = iter(call)
    assert next(steps) is call
    with pytest.raises(StopIteration) as stop:
        steps.send(b"7")
    assert stop.value.value == 7


# ── assembling ──────────────────────────────────────────────────────────────────────────────


def _script(body: str, *names: str) -> Script:
    return Script("odd", "#!lua", names, (), True, body)


def test_an_unknown_include_fails_when_assembled() -> None:
    with pytest.raises(LookupError, match=r"no_such_part\.lua"):
        Library().assemble(_script("return 1", "no_such_part"))


def test_an_unknown_key_fails_when_assembled() -> None:
    with pytest.raises(LookupError, match="no such key in the catalogue: nowhere"):
        Library().assemble(_script("return redis.call('GET', k_nowhere)"))


def test_keys_an_include_mentions_are_there() -> None:
    text = Library().assemble(_script("ring_bell()", "bell")).text
    assert text.index("local k_wake") < text.index("function ring_bell")


def test_a_swapped_include_takes_the_place_of_the_shipped_one() -> None:
    shipped, swapped = Library(), Library({"clock": "local now = 5\n"})
    script = BOUND["join"]
    assert "redis.call('TIME')" in shipped.assemble(script).text
    assert "redis.call('TIME')" not in swapped.assemble(script).text
    assert "\nnow = 5\n" in swapped.assemble(script).text
    assert shipped.assemble(script).sha != swapped.assemble(script).sha


ABOVE = """-- include: below
-- exports: used unused
local function used()
  return helper()
end

local function unused(n)
  return unused(n - 1) + only_for_unused() -- not used, said a comment
end
"""
BELOW = """-- exports: helper only_for_unused
local function only_for_helper()
  return 1
end

local function helper()
  return only_for_helper()
end

local function only_for_unused()
  return 2
end
"""
ASIDE = """-- exports: only_in_words
local function only_in_words()
end
"""


@pytest.fixture
def few_includes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few includes in place of the shipped ones."""
    texts = {"above": ABOVE, "below": BELOW, "aside": ASIDE}
    monkeypatch.setattr(includes, "INCLUDES", includes.in_order(texts))


@pytest.mark.usefixtures("few_includes")
def test_only_what_is_needed_is_sent_and_what_is_needed_first_comes_first() -> None:
    """Of includes, and nothing that only the unused need: each function costs each call."""
    script = _script("return used() -- only_in_words", "above", "aside")
    sent = Library().assemble(replace(script, flags="#!lua flags=no-writes")).text
    assert re.findall(r"function (\w+)", sent) == ["only_for_helper", "helper", "used"]


@pytest.mark.usefixtures("few_includes")
def test_an_include_shows_what_others_want_of_it_and_nothing_else() -> None:
    reader = replace(_script("return used()", "above"), flags="#!lua flags=no-writes")
    sent = Library().assemble(reader).text
    assert re.findall(r"^local (\w.*)$", sent, re.MULTILINE) == [
        "helper", "function only_for_helper()", "used"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ("-- include: above\n", "includes in a circle: "),
        ("-- include: nowhere\n", r"no such include: nowhere\.lua"),
        ("-- exports: used\nlocal used = 1\n", r"used is exported by above\.lua and below\.lua"),
        ("-- exports: gone\n", r"below\.lua exports gone and does not define it"),
        ("-- state: gone\n", r"below\.lua exports gone and does not define it"),
    ],
)
def test_includes_that_do_not_fit_together_fail_at_import(other: str, complaint: str) -> None:
    with pytest.raises((ValueError, LookupError), match=complaint):
        includes.in_order({"above": ABOVE, "below": other})


def test_a_script_that_writes_first_asks_the_keys_it_mentions() -> None:
    """Those of the whole queue, each by what only its type answers; but for the doorbell."""
    body = "redis.call('HSET', k_stats, 'a', k_vt, k_ring, k_paused, k_wake, k_job('j'))"
    asked = r"^redis.call\('(\w+)', k_(\w+)\)$"
    text = Library().assemble(_script(body)).text
    assert re.findall(asked, text, re.MULTILINE) == [
        ("ZCARD", "ring"), ("STRLEN", "vt"), ("SCARD", "paused"), ("HLEN", "stats")
    ]  # fmt: skip
    assert text.index("k_paused)") < text.index("HSET")
    reader = replace(_script(body), flags="#!lua flags=no-writes")
    assert not re.search(asked, Library().assemble(reader).text, re.MULTILINE)


def test_a_script_may_ask_its_keys_itself() -> None:
    script = replace(_script("  -- check: ring stats owed\nreturn 1"), checks_itself=True)
    lines = Library().assemble(script).text.splitlines()
    assert lines[-3:] == [
        "redis.call('ZINTERCARD', 3, k_none, k_ring, k_owed, 'LIMIT', 1)",
        "redis.call('HLEN', k_stats)",
        "return 1",
    ]


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("return 1", "return answered(answer())\n"),
        ("if name then return 0 end\nreturn answered(1)", "return answered(1)\n"),
    ],
)
def test_a_receipt_is_kept_of_the_reply(lua: dict[str, str], body: str, end: str) -> None:
    lua["bound.lua"] = f"#!lua\n-- args: name n x yes table rest\n-- resend: receipt\n{body}"
    given: dict[str, Any] = {"name": "a", "n": 3, "x": 0.1, "yes": True, "table": Packed([1])}
    one, other = (loader.script(_raw)(bound)(KEYS, **given, rest=Tail([])) for _ in range(2))
    assert one.args[0] != other.args[0]
    assert one.args[1:] == other.args[1:] == ["", "a", "3", "0.1", "1", b"\x91\x01"]
    assert "local rest = {unpack(ARGV, 8)}" in one.script.binding
    assert Library().assemble(one.script).text.endswith(end)


def test_a_script_is_assembled_once() -> None:
    library = Library()
    assert library.assemble(BOUND["join"]) is library.assemble(BOUND["join"])


# ── the shipped scripts ─────────────────────────────────────────────────────────────────────


def test_every_file_is_bound_to_a_stub_and_back() -> None:
    assert sorted(BOUND) == SHIPPED
    assert all(callable(getattr(stubs, name)) for name in SHIPPED)


@pytest.mark.parametrize("part", [*BOUND.values(), *includes.INCLUDES.values()])
def test_no_body_mentions_its_arguments_by_position(part: Script | includes.Include) -> None:
    assert not re.search(r"\b(KEYS|ARGV)\b", part.body)
    assert not re.search(r"['\"]emq", part.body), "a key that the key module has not built"


def test_no_script_is_sent_an_include_of_which_it_needs_nothing() -> None:
    for name in SHIPPED:
        assert not re.search(r"^do\s+end$", LIBRARY.assemble(BOUND[name]).text, re.MULTILINE)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_sha_is_that_of_the_text(name: str) -> None:
    assembled = LIBRARY.assemble(BOUND[name])
    assert assembled.sha == hashlib.sha1(assembled.text.encode()).hexdigest()
    assert assembled.text.startswith(BOUND[name].flags + "\n")


REFUSED_WHEN_FULL = {"enqueue", "replay", "move"}
READERS = {
    name
    for name in SHIPPED
    if re.search(
        r"_(info|page)$|^explain_|^audit_(?!mend)|^(tasks_of|orders_of|lanes_named|templates|rights)$",
        name,
    )
}
NEVER_TWICE = {"exchange"}
"""A claim sent again would claim again; everything else is as good sent twice as once."""


@pytest.mark.parametrize("name", SHIPPED)
def test_flags_say_what_a_full_server_still_does(name: str) -> None:
    expected = "#!lua flags=allow-oom"
    if name in REFUSED_WHEN_FULL:
        expected = "#!lua"
    elif name in READERS:
        expected = "#!lua flags=no-writes"
    assert BOUND[name].flags == expected


@pytest.mark.parametrize("name", SHIPPED)
def test_only_a_claim_must_not_be_sent_twice(name: str) -> None:
    assert BOUND[name].resend == (name not in NEVER_TWICE)


def test_every_script_declares_config_and_none_only() -> None:
    operation = Store(KEYS).enqueue([JobSpec(task="t")])
    call = next(operation)
    assert isinstance(call, Call)
    assert (call.keys.config, call.keys.none) == ("emq:{q}:config", "emq:{q}:none")
