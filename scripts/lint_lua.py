"""Lint the Lua files, each as it stands: with its arguments, and what it names in its header.

What it mentions of others is exported by files that it includes itself, what it includes it uses,
what is exported somebody uses, and who changes another's variables says so. Exit status 1 on any
finding. Without luacheck a visible skip, which is a failure where CI=true.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from rota.script.includes import INCLUDES, definitions, split_header, without_local, words_of
from rota.script.keys import CATALOGUE

CONFIG = Path(__file__).resolve().parent.parent / ".luacheckrc"
FOLDER = Path(str(files("rota.script") / "lua"))
MISSING = "luacheck is not installed (Debian: apt-get install lua-check)"

_LINE = re.compile(r"(?:\./)?(?P<path>[^:]+):(?P<line>\d+):\d+: \(\w(?P<code>\d+)\) (?P<text>.*)")
_QUOTED = re.compile(r"'([^']+)'")
_UNDEFINED, _CHANGES = "113", ("121", "122")
_GIVEN = ("root", "answered", *(f"k_{kind.name}" for kind in CATALOGUE))
"""What the loader defines before a script."""


@dataclass(frozen=True, slots=True)
class File:
    """A script or an include: its path below the folder, its header, its text."""

    path: str
    header: Mapping[str, tuple[str, ...]]
    text: str

    @property
    def own(self) -> frozenset[str]:
        return frozenset(self.header.get("exports", ()) + self.header.get("state", ()))

    def of(self, field: str) -> tuple[str, ...]:
        return self.header.get(field, ())

    def prepared(self) -> str:
        """The file behind two lines: what it may read but not change, and its arguments."""
        named = [*_GIVEN, *self.own]
        for include in self.of("include"):
            named += INCLUDES[include].exports
        arguments = self.of("args")
        return "\n".join(
            [
                f"-- luacheck: read globals {' '.join(named)}",
                f"local {', '.join(arguments)} = ..." if arguments else "",
                without_local(self.text, self.own)[0],
            ]
        )


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def read_all() -> dict[str, File]:
    found = {}
    for path in sorted(FOLDER.rglob("*.lua")):
        text = re.sub(r"\A#!lua.*\n", "\n", path.read_text(encoding="utf-8"))
        header, _ = split_header(text.removeprefix("\n"))
        name = str(path.relative_to(FOLDER))
        found[name] = File(name, header, text)
    return found


def judge_headers(lua: Iterable[File]) -> Iterator[Finding]:
    """What is included and not used, and what is exported and not used."""
    used: set[str] = set()
    for file in lua:
        words = words_of(file.text)
        for include in file.of("include"):
            mentioned = INCLUDES[include].exports & words
            used |= mentioned
            if not mentioned:
                yield Finding(file.path, 1, f"includes {include} and uses nothing of it")
    for file in lua:
        for name in sorted(file.own - used):
            yield Finding(file.path, 1, f"exports {name}, which nothing uses")


def run_luacheck(luacheck: str, lua: Mapping[str, File]) -> Iterator[tuple[File, int, str, str]]:
    """File, line, code and text of each warning."""
    with tempfile.TemporaryDirectory(prefix="rota-lua-") as folder:
        for path, file in lua.items():
            written = Path(folder) / path
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(file.prepared(), encoding="utf-8")
        command = [luacheck, "--config", str(CONFIG), "--formatter", "plain", "--codes", "."]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.stderr or run.returncode > 2:  # 1: warnings, 2: errors in the Lua, more: its own
        raise SystemExit(f"luacheck failed ({run.returncode}): {run.stderr}{run.stdout}")
    for line in run.stdout.splitlines():
        match = _LINE.match(line)
        if match is None:
            raise SystemExit(f"cannot read what luacheck says: {line!r}")
        number = int(match["line"]) - 2
        if number >= 0:  # the names that it may read make a long line
            yield lua[match["path"]], number, match["code"], match["text"]


def judge_names(lua: Mapping[str, File], luacheck: str) -> Iterator[Finding]:
    """What luacheck warns of; changes of other files' variables only where they are not named."""
    owners = {name: file for file in lua.values() for name in file.own}
    changed: dict[str, set[str]] = {path: set() for path in lua}
    for file, line, code, text in run_luacheck(luacheck, lua):
        name = _QUOTED.findall(text)[-1] if _QUOTED.search(text) else ""
        if code not in _CHANGES:
            owner = owners.get(name) if code == _UNDEFINED else None
            more = f", of {owner.path}, which it does not include" if owner else ""
            yield Finding(file.path, line, f"({code}) {text}{more}")
        elif (name, line) not in definitions(file.text):
            changed[file.path].add(name)
            if name not in (*file.of("writes"), *file.of("state")):
                field = "state" if name in file.own else "writes"
                yield Finding(file.path, line, f"changes {name}, and has no '-- {field}: {name}'")
    for file in lua.values():
        for name in {*file.of("writes")} - changed[file.path]:
            yield Finding(file.path, 1, f"says that it changes {name}, and does not")
        for name in {*file.of("writes")} - {n for f in lua.values() for n in f.of("state")}:
            yield Finding(file.path, 1, f"changes {name}, which is nobody's state")
        for name in {*file.of("state")} - set().union(*changed.values()):
            yield Finding(file.path, 1, f"says that {name} changes, and nothing changes it")


def main() -> int:
    lua = read_all()
    findings = [*judge_headers(lua.values())]
    luacheck = shutil.which("luacheck")
    if luacheck is not None:
        findings += judge_names(lua, luacheck)
    elif os.environ.get("CI") == "true":
        print(f"FAILED: {MISSING}", file=sys.stderr)
        return 1
    else:
        print(f"SKIPPED: luacheck of {len(lua)} Lua files; {MISSING}", file=sys.stderr)
    for finding in sorted(findings):
        print(finding)
    print(f"Lua: {len(lua)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
