"""What the README prints is what its program prints; what it types, the command line knows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota.task import Enqueuer
from tests.process.programs import COMMAND

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_first_program_runs_as_printed(tmp_path: Path) -> None:
    program, expected = blocks("python")[0], blocks("text")[0]
    script = tmp_path / "first.py"
    script.write_text(program, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "ROTA_URL"}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    assert str(tmp_path / ".rota") in done.stderr, "the default server is named once"


def test_the_example_file_is_the_first_program() -> None:
    assert (ROOT / "examples" / "first.py").read_text(encoding="utf-8") == blocks("python")[0]


def test_the_shop_module_defines_its_task() -> None:
    space: dict[str, object] = {}
    exec(compile(blocks("python")[1], "shop.py", "exec"), space)
    assert isinstance(space["queue"], rota.Queue)
    assert isinstance(space["charge"], Enqueuer)


@pytest.mark.parametrize("block", blocks("python"))
def test_every_python_block_compiles(block: str) -> None:
    wrapped = "async def example():\n" + "".join(f"    {line}\n" for line in block.splitlines())
    compile(wrapped if re.search(r"^(await|async with) ", block, re.M) else block, "README", "exec")


TYPED = [
    part.split()
    for block in blocks("console")
    for line in block.splitlines()
    if line.startswith("$")
    for part in line.removeprefix("$ ").partition(" #")[0].split(" | ")
    if part.startswith("rota ")
]


@pytest.mark.parametrize("words", TYPED, ids=" ".join)
def test_what_is_typed_the_command_line_knows(words: list[str]) -> None:
    command = COMMAND
    context, args = command.make_context("rota", words[1:]), words[1:]
    while hasattr(command, "commands"):
        name, command, args = command.resolve_command(context, args)
        context = command.make_context(name, [*args], parent=context)
