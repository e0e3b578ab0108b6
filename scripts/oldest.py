"""Prints pip constraints: the oldest version that pyproject.toml allows of what users install.

pip install -e '.[all,dev]' -c <(python scripts/oldest.py)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
OURS = ("dev", "bench")
"""Extras that only work on this project needs: any version of those will do."""

REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(?:\[[\w,-]+\])?>=(?P<oldest>[\d.]+)")


def oldest(project: Path = PROJECT) -> Iterator[str]:
    described = tomllib.loads(project.read_text())["project"]
    extras = described["optional-dependencies"]
    users = [wanted for extra, wanted in extras.items() if extra not in OURS]
    for wanted in [described["dependencies"], *users]:
        for requirement in wanted:
            if found := REQUIREMENT.match(requirement):
                yield f"{found['name']}=={found['oldest']}"
            elif not requirement.startswith(f"{described['name']}["):
                raise SystemExit(f"{project}: expected a lower bound, given {requirement!r}")


if __name__ == "__main__":
    print("\n".join(oldest()))
