"""The types of the public names, by mypy: right calls pass, wrong ones are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """Per file of this folder: line → the first error mypy has there."""
    out, err, _ = api.run(
        [
            "--config-file", str(ROOT / "pyproject.toml"),
            "--cache-dir", str(tmp_path_factory.mktemp("mypy")),
            "--no-error-summary", "--hide-error-context", "--follow-imports", "silent",
            str(HERE / "right.py"), str(HERE / "wrong.py"),
        ]
    )  # fmt: skip
    assert not err, err
    found: dict[str, dict[int, str]] = {"right.py": {}, "wrong.py": {}}
    for path, line, text in re.findall(r"^(.+?):(\d+): error: (.*)$", out, re.MULTILINE):
        found[Path(path).name].setdefault(int(line), text)
    return found


@pytest.mark.timeout(180)
def test_right_calls_pass(complaints: dict[str, dict[int, str]]) -> None:
    assert complaints["right.py"] == {}


@pytest.mark.timeout(180)
def test_wrong_calls_are_refused(complaints: dict[str, dict[int, str]]) -> None:
    lines = (HERE / "wrong.py").read_text().splitlines()
    marked = {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found = complaints["wrong.py"]
    assert {lines[n - 1] for n in marked - found.keys()} == set(), "not refused"
    assert {lines[n - 1]: found[n] for n in found.keys() - marked} == {}, "refused by mistake"
