"""The files of `lua/lib`: what several scripts need.

Each says in its header what it needs itself, and what others may use of it; all else is its own:

    -- include: lists               the files of `lua/lib` that it uses names of
    -- exports: count_total wake    its functions and constants for others
    -- state: names tags            likewise, variables that change

Whoever changes another file's state, script or include, names it in a line `-- writes: names`.

What a script includes is put before it, with what that includes in turn: what is needed first comes
first, each file once and in a scope of its own, without the functions that nothing needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from typing import cast

from rota.script.keys import lua_quick_checks

_HEADER_LINE = r"-- (include|exports|state|writes|args|resend|checks|sealed):(.*)\n"
_HEADER = re.compile(f"(?:{_HEADER_LINE})*")
_DEFINITION = re.compile(r"^local (?:function (\w+)|([\w, ]+?)( =|$))", re.MULTILINE)
_FUNCTION = re.compile(r"^local function (\w+).*?^end\n", re.MULTILINE | re.DOTALL)


def split_header(text: str) -> tuple[dict[str, tuple[str, ...]], str]:
    """The words of each field that the header of a Lua file has, and what stands behind it."""
    header = cast("re.Match[str]", _HEADER.match(text))
    fields: dict[str, tuple[str, ...]] = {}
    for field, words in re.findall(_HEADER_LINE, header[0]):
        fields[field] = (*fields.get(field, ()), *words.split())
    return fields, text[header.end() :]


def _defined_by(found: re.Match[str]) -> list[str]:
    function, variables, _ = found.groups()
    return [function] if function else [name.strip() for name in variables.split(",")]


def definitions(text: str) -> Iterator[tuple[str, int]]:
    """The names that a file defines for itself as a whole, and in which line."""
    for found in _DEFINITION.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield from ((name, line) for name in _defined_by(found))


@dataclass(frozen=True, slots=True)
class Include:
    """One file of `lua/lib`."""

    includes: tuple[str, ...]
    exports: frozenset[str]
    body: str


def in_order(texts: Mapping[str, str]) -> dict[str, Include]:
    """Includes by name, each behind those that it needs. One that is missing, a circle and a name
    without one owner fail here."""
    includes, owners = {}, dict[str, str]()
    for name, text in sorted(texts.items()):
        header, body = split_header(text)
        exports = header.get("exports", ()) + header.get("state", ())
        includes[name] = Include(header.get("include", ()), frozenset(exports), body)
        defined = dict(definitions(body))
        for export in exports:
            if export not in defined:
                raise LookupError(f"{name}.lua exports {export} and does not define it")
            if owners.setdefault(export, name) != name:
                raise ValueError(f"{export} is exported by {owners[export]}.lua and {name}.lua")
    try:
        order = [*TopologicalSorter({n: i.includes for n, i in includes.items()}).static_order()]
    except CycleError as error:
        raise ValueError(f"includes in a circle: {' → '.join(error.args[1])}") from None
    return {name: _include_of(includes, name) for name in order}


def _include_of(includes: Mapping[str, Include], name: str) -> Include:
    try:
        return includes[name]
    except KeyError:
        raise LookupError(f"no such include: {name}.lua in a folder of lua/lib") from None


Use = tuple[tuple[str, ...], frozenset[str]]
"""What a part of a script includes, and the words that it mentions."""


# Read with the program, like its modules: an upgrade under a running process must not mix.
INCLUDES: Mapping[str, Include] = in_order(
    {
        entry.name.removesuffix(".lua"): entry.read_text(encoding="utf-8")
        for folder in (files("rota.script") / "lua" / "lib").iterdir()
        for entry in folder.iterdir()
    }
)
"""What scripts include, by name, each behind what it needs."""


_CHECK = re.compile(r"^ *-- check: (.*)$", re.MULTILINE)
_COMMENT_LINE = re.compile(r"^ *--.*\n", re.MULTILINE)


def sent(text: str) -> str:
    """A file as the server gets it: its checks as questions, without lines of comments."""
    return _COMMENT_LINE.sub("", _CHECK.sub(lambda it: lua_quick_checks(it[1].split()), text))


def without_comments(text: str) -> str:
    return re.sub(r"--.*", "", text)


def words_of(text: str) -> frozenset[str]:
    """The words that Lua mentions outside of its comments."""
    return frozenset(re.findall(r"\w+", without_comments(text)))


def _needed_of(text: str, wanted: frozenset[str]) -> str:
    """An include without the functions that neither `wanted` nor the rest of it needs: to make one
    costs every call of the script some 2,000 instructions."""
    functions = {found[1]: words_of(found[0]) for found in _FUNCTION.finditer(text)}
    needed, more = frozenset[str](), wanted | words_of(_FUNCTION.sub("", text))
    while more != needed:
        needed, more = more, more.union(*(functions[name] for name in functions.keys() & more))
    return _FUNCTION.sub(lambda found: found[0] if found[1] in needed else "", text)


def without_local(text: str, wanted: Set[str]) -> tuple[str, list[str]]:
    """An include whose definitions of `wanted` set variables of a scope around it, and those."""
    outer: list[str] = []

    def define(found: re.Match[str]) -> str:
        function, variables, value = found.groups()
        names = _defined_by(found)
        if wanted.isdisjoint(names):
            return found[0]
        outer.extend(names)
        return f"function {function}" if function else f"{variables}{value}" if value else ""

    return _DEFINITION.sub(define, text), outer


def _scoped(text: str, wanted: frozenset[str]) -> str:
    """An include in a scope of its own, with what others want of it in their sight: a Lua function
    has 200 local variables at most, and a script is one function."""
    inner, outer = without_local(text, wanted)
    return f"local {', '.join(outer)}\ndo\n{inner}end\n"


def gather(users: list[Use], swap: Mapping[str, str]) -> list[str]:
    """What is sent of what `users` include, and of what that does: from those back that need
    others. swap: includes, by name, in place of which another text is sent."""
    for name in {name for names, _ in users for name in names}:
        _include_of(INCLUDES, name)
    users, scoped = list(users), list[str]()
    for name, include in reversed([*INCLUDES.items()]):
        using = (words for named, words in users if name in named)
        wanted = include.exports.intersection(frozenset().union(*using))
        if wanted:
            text = _needed_of(sent(swap.get(name, include.body)), wanted)
            users.append((include.includes, words_of(text)))
            scoped.append(_scoped(text, wanted))
    return scoped[::-1]
