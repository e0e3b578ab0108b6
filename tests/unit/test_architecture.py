"""ARCHITECTURE.md says what is true: the layers are those that are checked, every key is there."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from rota.script.keys import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def layers_of_the_contract() -> list[set[str]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in config["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]


def layers_of_the_page() -> list[set[str]]:
    section = TEXT.split("## Layers")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [set(re.findall(r"`(\w+)/?`", row)) for row in rows]


def test_the_layers_are_those_of_the_import_contract() -> None:
    assert layers_of_the_page() == layers_of_the_contract()


def test_every_key_is_in_the_table() -> None:
    section = TEXT.split("## Keys")[1].split("\n## ")[0]
    for kind in CATALOGUE:
        last = kind.template.rpartition(":")[2] if kind.parameter else kind.template
        word = last if kind.parameter is None or "{" not in last else kind.template.split("{")[0]
        assert word in section, f"{kind.name} ({kind.template}) is not in the key table"


def test_every_file_it_names_exists() -> None:
    for name in set(re.findall(r"`((?:\w+/)*\w+\.(?:py|lua))`", TEXT)):
        roots = (ROOT, ROOT / "src/rota", ROOT / "src/rota/script", ROOT / "src/rota/script/lua")
        places = [root / name for root in roots]
        assert any(place.exists() for place in places), f"{name} is named but does not exist"


def test_faces_reach_through_no_queue() -> None:
    """What they lack is a verb of the queue: `.link` and `.consuming` are for what works inside."""
    for face in ("cli", "demo", "metrics", "web"):
        for path in (ROOT / "src/rota" / face).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}  # view.link(…)
            for node in nodes:
                if isinstance(node, ast.Attribute) and id(node) not in called:
                    assert node.attr not in ("link", "consuming"), f"{path}:{node.lineno}"


def test_it_is_read_in_ten_minutes() -> None:
    assert len(TEXT.split()) <= 2400
