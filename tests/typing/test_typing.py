"""The types of the public names, by mypy and pyright: right calls pass, wrong ones are refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"

Complaints = dict[str, dict[int, str]]
"""Per file: line → the first error found there."""


def by_mypy(cache: Path) -> Complaints:
    out, err, _ = api.run(
        [
            "--config-file", str(ROOT / "pyproject.toml"),
            "--cache-dir", str(cache),
            "--no-error-summary", "--hide-error-context", "--follow-imports", "silent",
            str(RIGHT), str(WRONG),
        ]
    )  # fmt: skip
    assert not err, err
    found: Complaints = {"right.py": {}, "wrong.py": {}}
    for path, line, text in re.findall(r"^(.+?):(\d+): error: (.*)$", out, re.MULTILINE):
        found[Path(path).name].setdefault(int(line), text)
    return found


def by_pyright(_: Path) -> Complaints:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, str(RIGHT), str(WRONG)], cwd=ROOT, capture_output=True, check=False
    )
    found: Complaints = {"right.py": {}, "wrong.py": {}}
    for said in json.loads(done.stdout)["generalDiagnostics"]:
        if said["severity"] == "error":
            line = said["range"]["start"]["line"] + 1
            found[Path(said["file"]).name].setdefault(line, said["message"])
    return found


@pytest.fixture(scope="module", params=[by_mypy, by_pyright], ids=["mypy", "pyright"])
def complaints(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Complaints:
    checker: Callable[[Path], Complaints] = request.param
    return checker(tmp_path_factory.mktemp("types"))


@pytest.mark.timeout(180)
def test_right_calls_pass(complaints: Complaints) -> None:
    assert complaints["right.py"] == {}


@pytest.mark.timeout(180)
def test_wrong_calls_are_refused(complaints: Complaints) -> None:
    lines = WRONG.read_text().splitlines()
    marked = {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found = complaints["wrong.py"]
    assert {lines[n - 1] for n in marked - found.keys()} == set(), "not refused"
    assert {lines[n - 1]: found[n] for n in found.keys() - marked} == {}, "refused by mistake"
