"""What is done to the workers, to their network and to the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from rota.script.loader import BOUND, LIBRARY
from tests.chaos.observer import Notebook
from tests.chaos.workers import LEASE, Crew, Place
from tests.support.proxy import Proxy


def raw_client(socket: Path, timeout: float) -> redis.Redis:
    """Answers bytes, tries nothing twice. Blocks for at most `timeout` seconds a step."""
    return redis.Redis(
        unix_socket_path=str(socket),
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )


@dataclass(slots=True)
class Mischief:
    """Does harm at random for a time, and undoes what can be undone at its end."""

    crew: Crew
    directory: Path
    """The embedded server's."""
    socket: Path
    random: Random
    notebook: Notebook
    done: Counter[str] = field(default_factory=Counter)
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)
    _server_busy: bool = False

    async def run(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        menu = self._menu()
        await asyncio.sleep(2)
        while loop.time() < until:
            name = self.random.choices(list(menu), [weight for weight, _ in menu.values()])[0]
            task = asyncio.create_task(self._harm(name, menu[name][1]))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            await asyncio.sleep(self.random.uniform(0.1, 1.2))
        await asyncio.gather(*self._under_way)

    async def undo(self) -> None:
        """Whatever happened before: everybody may go on."""
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        for place in self.crew.places:
            place.send(signal.SIGCONT)
            if place.proxy is not None:
                await asyncio.to_thread(place.proxy.pass_through)
        self._signal(self._server(), signal.SIGCONT)

    def _menu(self) -> dict[str, tuple[int, Callable[[], Awaitable[str]]]]:
        return {
            "kill a worker": (8, self._kill_worker),
            "stop a worker gently": (4, self._stop_gently),
            "freeze a worker": (6, self._freeze_worker),
            "kill the server": (3, self._kill_server),
            "kill the supervisor": (2, self._kill_supervisor),
            "kill supervisor and server": (1, self._kill_both),
            "freeze the server": (2, self._freeze_server),
            "silence": (3, self._silence),
            "slow network": (3, self._slow),
            "lose a reply": (8, self._lose_reply),
            "cut": (3, self._cut),
            "refuse": (2, self._refuse),
        }

    async def _harm(self, name: str, harm: Callable[[], Awaitable[str]]) -> None:
        said = await harm()
        if said:
            self.done[name] += 1

    def _note(self, name: str, **facts: object) -> str:
        self.notebook.note("fault", name=name, **facts)
        return name

    # ── workers ─────────────────────────────────────────────────────────────────────────────

    def _victim(self) -> Place | None:
        places = [place for place in self.crew.places if place.pid]
        return self.random.choice(places) if places else None

    async def _signal_worker(self, number: int, name: str, seconds: float = 0) -> str:
        place = self._victim()
        pid = place.send(number) if place else None
        if pid is None:
            return ""
        self._note(name, victim=pid, seconds=seconds)
        if seconds:
            await asyncio.sleep(seconds)
            self._signal(pid, signal.SIGCONT)
            self._note("goes on", victim=pid)
        return name

    async def _kill_worker(self) -> str:
        return await self._signal_worker(signal.SIGKILL, "killed")

    async def _stop_gently(self) -> str:
        return await self._signal_worker(signal.SIGTERM, "stopped gently")

    async def _freeze_worker(self) -> str:
        seconds = self.random.choice((0.3, LEASE, 1.3 * LEASE, 2 * LEASE))
        return await self._signal_worker(signal.SIGSTOP, "frozen", seconds)

    # ── the server ──────────────────────────────────────────────────────────────────────────

    def _supervisor(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int((self.directory / "supervisor.lock").read_bytes())
        return None

    def _server(self) -> int | None:
        with contextlib.suppress(redis.RedisError, OSError), raw_client(self.socket, 0.3) as client:
            return int(client.info("server")["process_id"])
        return None

    def _signal(self, pid: int | None, number: int) -> bool:
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    async def _kill(self, name: str, *pids: int | None) -> str:
        """The server is left alone for a time after it was killed."""
        if self._server_busy or None in pids:
            return ""
        self._server_busy = True
        try:
            for pid in pids:
                self._signal(pid, signal.SIGKILL)
            self._note(name, victims=pids)
            await asyncio.sleep(self.random.uniform(1, 4))
        finally:
            self._server_busy = False
        return name

    async def _kill_server(self) -> str:
        return await self._kill("server killed", self._server())

    async def _kill_supervisor(self) -> str:
        return await self._kill("supervisor killed", self._supervisor())

    async def _kill_both(self) -> str:
        return await self._kill("both killed", self._supervisor(), self._server())

    async def _freeze_server(self) -> str:
        pid = self._server()
        if self._server_busy or not self._signal(pid, signal.SIGSTOP):
            return ""
        self._server_busy = True
        try:
            self._note("server frozen", victim=pid)
            await asyncio.sleep(self.random.choice((0.5, 1.2 * LEASE)))
        finally:
            self._signal(pid, signal.SIGCONT)
            self._note("server goes on", victim=pid)
            self._server_busy = False
        return "frozen"

    # ── the network ─────────────────────────────────────────────────────────────────────────

    async def _disturb(self, name: str, begin: Callable[[Proxy], None], seconds: float = 0) -> str:
        networks = [(place, place.proxy) for place in self.crew.places if place.proxy]
        place, proxy = self.random.choice(networks)
        self._note(name, victim=place.pid, seconds=seconds)
        await asyncio.to_thread(begin, proxy)
        if seconds:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(proxy.pass_through)
            self._note("network well", victim=place.pid)
        return name

    async def _silence(self) -> str:
        replies_only = self.random.random() < 0.5
        return await self._disturb(
            "replies held back" if replies_only else "silence",
            lambda proxy: proxy.silent(replies_only),
            self.random.choice((0.4, LEASE, 2 * LEASE)),
        )

    async def _slow(self) -> str:
        seconds = self.random.choice((0.02, 0.2, 0.5))
        return await self._disturb(f"slow {seconds}", lambda proxy: proxy.delay(seconds), 3)

    async def _lose_reply(self) -> str:
        """The request is carried out, its reply is lost and the connection with it."""
        which = self.random.choice(("exchange", "settle", "heartbeat", "reconcile_consumer"))
        sha = LIBRARY.assemble(BOUND[which]).sha.encode()
        return await self._disturb(
            f"reply of {which} lost", lambda proxy: proxy.drop_reply_then_cut(sha)
        )

    async def _cut(self) -> str:
        return await self._disturb("cut", lambda proxy: proxy.cut())

    async def _refuse(self) -> str:
        return await self._disturb(
            "refused", lambda proxy: proxy.refuse(), self.random.choice((0.5, 1.5 * LEASE))
        )
