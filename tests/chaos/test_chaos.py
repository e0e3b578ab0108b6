"""Everything at once: workers, network and server are harmed while jobs of all kinds run.

    ROTA_CHAOS_SECONDS=600 ROTA_CHAOS_SEED=17 python -m pytest tests/chaos -n 0 -s

Load and faults follow the seed; the machine's scheduling does not. After a failure the record,
the server's files and what the workers wrote are in the test's folder, which the message names.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.chaos.drama import DRAIN_S, Drama

SECONDS = float(os.environ.get("ROTA_CHAOS_SECONDS", "35"))
SEED = os.environ.get("ROTA_CHAOS_SEED") or str(random.SystemRandom().randrange(10**6))


@pytest.mark.timeout(SECONDS + DRAIN_S + 90)
async def test_promises_are_kept(tmp_path: Path) -> None:
    print(f"ROTA_CHAOS_SEED={SEED}")
    drama = Drama(tmp_path, seed=SEED)
    async with drama.stage():
        await drama.play(SECONDS)
        await drama.drain()
        await drama.end()
    print(drama.figures())
    problems = drama.problems()
    assert not problems, f"ROTA_CHAOS_SEED={SEED}, {tmp_path}\n{problems}"
