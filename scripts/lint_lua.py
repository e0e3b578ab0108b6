"""Lint every Lua script as the server gets it: key helpers, arguments, includes and body as one.

Exit status 1 on any finding. Without luacheck a visible skip, which is a failure where CI=true.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.script.stubs import assemble_all

CONFIG = Path(__file__).resolve().parent.parent / ".luacheckrc"
MISSING = "luacheck is not installed (Debian: apt-get install lua-check)"

_LINE = re.compile(r"(?P<script>[^:]+)\.lua:(?P<line>\d+):\d+: \((?P<code>\w+)\) (?P<text>.*)")
_QUOTED = re.compile(r"'([^']+)'")
_UNUSED = ("W211", "W231", "W241")
"""A variable that is never used, never read, or only ever changed."""
_ARGUMENT = re.compile(r"\b(KEYS|ARGV)\b")


@dataclass(frozen=True, slots=True)
class Finding:
    script: str
    line: int
    code: str
    text: str
    source: str

    def __str__(self) -> str:
        return (
            f"{self.script}.lua:{self.line}: ({self.code}) {self.text}\n    {self.source.strip()}"
        )

    @property
    def shared_name(self) -> str | None:
        """The unused name, if it is a helper of an include: it may serve another script."""
        if self.code not in _UNUSED or not self.source.startswith(("local ", "function ")):
            return None
        if _ARGUMENT.search(self.source):
            return None
        name = _QUOTED.search(self.text)
        return name[1] if name else None


def run_luacheck(luacheck: str, scripts: Mapping[str, str]) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory(prefix="rota-lua-") as folder:
        for name, text in scripts.items():
            (Path(folder) / f"{name}.lua").write_text(text, encoding="utf-8")
        command = [luacheck, "--config", str(CONFIG), "--formatter", "plain", "--codes", "."]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.stderr or run.returncode > 2:  # 1: warnings, 2: errors in the Lua, more: its own
        raise SystemExit(f"luacheck failed ({run.returncode}): {run.stderr}{run.stdout}")
    for line in run.stdout.splitlines():
        match = _LINE.match(line.removeprefix("./"))
        if match is None:
            raise SystemExit(f"cannot read what luacheck says: {line!r}")
        name, number = match["script"], int(match["line"])
        source = scripts[name].splitlines()[number - 1]
        yield Finding(name, number, match["code"], match["text"], source)


def unused_everywhere(findings: list[Finding], scripts: Mapping[str, str]) -> list[Finding]:
    """Drop the helpers that are unused in one script and used in another."""
    kept = []
    for finding in findings:
        name = finding.shared_name
        if name is not None:
            definition = re.compile(rf"^local\b[^=\n]*\b{re.escape(name)}\b", re.MULTILINE)
            holders = sum(1 for text in scripts.values() if definition.search(text))
            unused = len({f.script for f in findings if f.shared_name == name})
            if unused < holders:
                continue
        kept.append(finding)
    return kept


def once(findings: list[Finding]) -> list[Finding]:
    """A finding in an include comes with every script that includes it: keep the first."""
    return list({(f.code, f.text, f.source): f for f in reversed(findings)}.values())[::-1]


def main() -> int:
    scripts = assemble_all()
    luacheck = shutil.which("luacheck")
    if luacheck is None:
        if os.environ.get("CI") == "true":
            print(f"FAILED: {MISSING}", file=sys.stderr)
            return 1
        print(f"SKIPPED: the Lua lint of {len(scripts)} scripts; {MISSING}", file=sys.stderr)
        return 0
    findings = once(unused_everywhere(list(run_luacheck(luacheck, scripts)), scripts))
    for finding in findings:
        print(finding)
    print(f"Lua: {len(scripts)} scripts, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
