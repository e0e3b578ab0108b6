"""Everything at once: workers, network and server are harmed while jobs of all kinds run.

    ROTA_CHAOS_SECONDS=600 ROTA_CHAOS_SEED=17 python -m pytest tests/chaos -n 0 -s

The load and the faults follow the seed; the machine's scheduling does not.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.chaos.drama import Drama

SECONDS = float(os.environ.get("ROTA_CHAOS_SECONDS", "35"))
KEEP = os.environ.get("ROTA_CHAOS_KEEP")
"""Where records, logs and the server's files go, also of what went well."""


@pytest.mark.timeout(SECONDS + 180)
async def test_promises_are_kept_whatever_dies() -> None:
    seed = os.environ.get("ROTA_CHAOS_SEED") or str(random.SystemRandom().randrange(10**6))
    print(f"ROTA_CHAOS_SEED={seed}")
    with tempfile.TemporaryDirectory(prefix="rota-chaos-", dir="/tmp") as folder:
        drama = Drama(Path(folder), seed=seed)
        async with drama.stage():
            await drama.play(SECONDS)
            await drama.drain()
            await drama.end()
        print(drama.figures())
        problems = drama.problems()
        if KEEP:
            shutil.copytree(folder, Path(KEEP) / seed, ignore=shutil.ignore_patterns("*.sock"))
    assert not problems, f"ROTA_CHAOS_SEED={seed}\n{problems}"
