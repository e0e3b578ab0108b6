"""Order of names is by bytes, whatever language the server was started in.

Lua's `<` on texts follows the server's locale; its sorted sets do not.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lua.conftest import Desk
from tests.support.servers import Server


@pytest.fixture
def desk(
    private_server: Callable[[], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    """A queue on a server that sorts `a` before `B`."""
    localedef = shutil.which("localedef")
    made = localedef and subprocess.run(
        [localedef, "-i", "en_US", "-f", "UTF-8", str(tmp_path / "en_US.UTF-8")],
        capture_output=True,
        check=False,
    )
    if not made or made.returncode > 1:
        pytest.skip("no locale can be made here: apt-get install locales")
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    server = private_server()
    if not server.raw().eval("return ('a' < 'B') and 1 or 0", 0):
        pytest.skip("this server does not follow its locale")
    desk = Desk(server, "collation")
    yield desk
    desk.client.close()


def test_a_claim_of_many_takes_the_turns_of_many_claims(desk: Desk) -> None:
    lanes = ["D", "a", "B", "c", "é", "e"]
    for n in range(3):
        for lane in lanes:
            desk.add(f"{lane}{n}", lane=lane)
    expected = [[f"{lane}{n}"] for n in range(3) for lane in sorted(lanes, key=str.encode)]
    assert desk.claim(4) + desk.claim(1) + desk.claim(99) == expected
    desk.clean()


def test_pages_of_the_dead_skip_and_repeat_none(desk: Desk) -> None:
    ids = [*"DaBcZz", "é", "e"]
    desk.add(*ids)
    desk.claim(9)
    desk.settle(*[(id, "bury", 0) for id in ids])
    found = []
    cursor: str | None = None
    while True:
        page = desk.run(desk.look.jobs("dead", lane=None, task=None, cursor=cursor, limit=1))
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == sorted(ids, key=str.encode)
