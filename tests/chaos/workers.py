"""Worker processes that are replaced when they die, and who of them can be harmed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from tests.chaos.child import UNREACHABLE, Orders
from tests.chaos.observer import Notebook
from tests.chaos.steps import RARE, STEPS
from tests.support.proxy import Proxy

ROOT = Path(__file__).parents[2]
LEASE = 2.0
BEAT = 1.0
GRACE = 1.0
STOP_S = 15.0
"""How long a worker may take to stop gently."""


@dataclass(slots=True, eq=False)
class Place:
    """Where one worker after the other works; `proxy`: through which it reaches the server."""

    url: str
    proxy: Proxy | None = None
    process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        alive = self.process is not None and self.process.returncode is None
        return self.process.pid if alive and self.process is not None else None

    def send(self, number: int) -> int | None:
        """Returns whom it reached."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid


@dataclass(slots=True)
class Crew:
    """The workers of one queue. With `calm` those that start from then on die of no step."""

    places: list[Place]
    queue: str
    folder: Path
    record: Path
    random: Random
    notebook: Notebook
    calm: bool = False
    deaths: int = 0
    failures: list[str] = field(default_factory=list)
    _stopping: bool = False
    _keepers: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def mercy(self) -> Path:
        """While this file exists, jobs that ask for an operator are content."""
        return self.folder / "mercy"

    def start(self) -> None:
        self._keepers = [asyncio.create_task(self._keep(place)) for place in self.places]

    async def stop(self) -> None:
        """Gently; raises AssertionError where one does not stop."""
        self._stopping = True
        for place in self.places:
            place.send(signal.SIGTERM)
        _, left = await asyncio.wait(self._keepers, timeout=STOP_S)
        pids = [place.pid for place in self.places if place.pid]
        assert not left, f"workers {pids} did not stop within {STOP_S:g} s"

    async def kill(self) -> None:
        """Ends every process, whatever it is at."""
        self._stopping = True
        for place in self.places:
            place.send(signal.SIGKILL)
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for place in self.places:  # one may have started meanwhile
            if place.send(signal.SIGKILL) is not None and place.process is not None:
                await place.process.wait()

    async def _keep(self, place: Place) -> None:
        while not self._stopping:
            code = await self._run(place)
            if code not in (0, UNREACHABLE, -signal.SIGKILL, -signal.SIGTERM):
                self.failures.append(f"a worker ended with {code}: {self.complaints()[-2000:]}")
            await asyncio.sleep(0.05 if code else 0.3)

    async def _run(self, place: Place) -> int:
        with (self.folder / "workers.log").open("ab") as log:
            place.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.chaos.child",
                json.dumps(asdict(self._orders(place))),
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        process = place.process
        if self._stopping:  # it was told to, while this one was being started
            place.send(signal.SIGTERM)
        code = await process.wait()
        self.deaths += code == -signal.SIGKILL
        self.notebook.note("died", pid=process.pid, code=code)
        return code

    def _orders(self, place: Place) -> Orders:
        armed = not self.calm and self.random.random() < 0.5
        step = self.random.choice(STEPS)
        return Orders(
            url=place.url,
            queue=self.queue,
            record=str(self.record),
            mercy=str(self.mercy),
            lease=LEASE,
            beat=BEAT,
            grace=GRACE,
            step=step if armed else "",
            after=1 if step in RARE else self.random.choice((1, 2, 5, 20, 60)),
        )

    def complaints(self) -> str:
        """What the workers wrote."""
        log = self.folder / "workers.log"
        return log.read_text(errors="replace") if log.exists() else ""
